"""What PyTorch may do around compiled functions: threads, modes, resets, stances, copies, layouts, streams, recorded graphs."""

import copy
import io
import pickle
import threading

import pytest
import torch
import torch.nn as nn

import strata
from conftest import check, compare, same_strides

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=cuda)]


def compiled(f, **kw):
    return torch.compile(f, backend="strata", fullgraph=True, **kw)


def all_compiled():
    return strata.counters()["eager_graphs"] == 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        return self.norm(torch.relu(self.fc(x))) + self.seen


# -- threads --


def test_threads_with_graphs_of_their_own_and_one_in_common():
    def make(i):
        return lambda x: (x * i).softmax(-1) @ x.t()

    shared, own = compiled(make(1)), [compiled(make(i)) for i in range(2, 5)]
    x = torch.randn(17, 17)
    # PyTorch cannot trace in one thread while others call compiled functions.
    [f(x) for f in (shared, *own)]
    done, wrong = [], []

    def work(f, i):
        for n in range(15):
            y = x + n
            for g, factor in ((f, i), (shared, 1)):
                if not torch.allclose(g(y), (y * factor).softmax(-1) @ y.t(), atol=1e-4):
                    wrong.append((i, n))
        done.append(i)

    threads = [threading.Thread(target=work, args=(f, i)) for i, f in enumerate(own, 2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong and len(done) == 3 and all_compiled()


# -- modes of PyTorch --


def test_modes_of_gradients():
    net, x = Net(), torch.randn(3, 8)
    f = compiled(net)
    want = net(x).detach()
    with torch.no_grad():
        y = f(x)
        compare(y, want)
        assert not y.requires_grad
    with torch.inference_mode():
        y = f(x)
        compare(y, want)
        assert y.is_inference()
    compare(f(x.clone()).detach(), want)
    assert all_compiled()


def test_reset_compiles_again():
    f, x = compiled(lambda x: x * 2 + 1), torch.ones(3)
    f(x)
    torch._dynamo.reset()
    assert f(x).tolist() == [3.0] * 3 and strata.counters()["compiles"] == 2


def test_stances():
    f, x = compiled(lambda x: x * 2 + 1), torch.ones(3)
    with torch.compiler.set_stance("force_eager"):
        f(x)
    assert strata.counters()["compiles"] == 0
    f(x)
    before = strata.counters()
    with torch.compiler.set_stance("fail_on_recompile"):
        assert f(x).tolist() == [3.0] * 3
        with pytest.raises(RuntimeError):
            f(torch.ones(3, dtype=torch.float64))
    with torch.compiler.set_stance("eager_on_recompile"):
        assert f(torch.ones(3, dtype=torch.float64)).tolist() == [3.0] * 3
    counted = strata.counters()
    assert counted["compiles"] == before["compiles"] == 1 and counted["calls"] == before["calls"] + 1


def test_static_addresses_and_steps():
    x, state = torch.ones(4), torch.zeros(4)
    torch._dynamo.mark_static_address(state)

    @compiled
    def f(x):
        state.add_(x)
        return state * 2

    for i in range(1, 4):
        torch.compiler.cudagraph_mark_step_begin()
        assert f(x).tolist() == [2.0 * i] * 4
    assert state.tolist() == [3.0] * 4 and all_compiled()


# -- copies --


def test_copies_of_compiled_modules():
    net, x = Net().eval(), torch.randn(3, 8)
    f = compiled(net)
    with torch.no_grad():
        want = f(x)
        twin = copy.deepcopy(f)
        twin.fc.weight.zero_()
        compare(f(x), want)
        assert not torch.allclose(twin(x), want)
    file = io.BytesIO()
    torch.save(f.state_dict(), file)
    file.seek(0)
    other = compiled(Net().eval())
    other.load_state_dict(torch.load(file))
    with torch.no_grad():
        compare(other(x), want)
    again = pickle.loads(pickle.dumps(net.compile(backend="strata") or net))
    with torch.no_grad():
        compare(again(x), want)
    assert all_compiled()


# -- arguments and results --


@pytest.mark.parametrize("device", DEVICES)
def test_results_that_are_no_new_tensors(device):
    def f(x, y):
        z = x * 2
        return None, x, z, z.t(), z[1:, ::2], (z + 1)[:, ::2], z.view(-1), y.t(), x.shape[0], (z, 3.5, "text"), z.expand(2, 3, 4)

    got = check(f, torch.randn(3, 4, device=device), torch.randn(2, 2, device=device))
    assert got[2].data_ptr() == got[3].data_ptr() == got[6].data_ptr() == got[4].data_ptr() - 16


@pytest.mark.parametrize("device", DEVICES)
def test_mutation_of_inputs_and_of_their_views(device):
    def f(x, y):
        x.mul_(2)
        x[0].add_(1)
        y.t().add_(x)
        return x.sum() + y.sum()

    def run(f):
        x, y = torch.ones(3, 3, device=device), torch.zeros(3, 3, device=device)
        return f(x, y), x, y

    compare(run(compiled(f)), run(f))
    assert all_compiled()


@pytest.mark.parametrize("device", DEVICES)
def test_arguments_that_share_memory(device):
    def f(x, y):
        x.add_(1)
        return x + y

    def run(f):
        base = torch.arange(8.0, device=device)
        return f(base[:4], base[4:]), f(base, base), base

    compare(run(torch.compile(f, backend="strata")), run(f))


@pytest.mark.parametrize("device", DEVICES)
def test_channels_last_stays(device):
    def f(x, y):
        return torch.relu(x) * 2, x + y, x.mean((2, 3), keepdim=True) * x

    x, y = (torch.randn(2, 3, 4, 5, device=device).to(memory_format=torch.channels_last) for _ in range(2))
    got = check(f, x, y)
    assert all(t.is_contiguous(memory_format=torch.channels_last) for t in got)
    conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval().to(device, memory_format=torch.channels_last)
    check(conv, x, fallbacks=None)


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_graph_with_other_strides(device):
    def f(x, y):
        return (x * 2 + y).sum(-1), x - y

    g, x = torch.compile(f, backend="strata", dynamic=True), torch.randn(6, 6, device=device)
    with torch.no_grad():
        for a, b in ((x, x), (x.t(), x), (x, x.t()), (x.t(), x.t()), (x[:, ::2], x[:, 1::2]), (x[::2], x[::2])):
            got, want = g(a, b), f(a, b)
            compare(got, want)
            same_strides(got, want)
    assert all_compiled()


def test_a_compiled_graph_takes_tensors_that_lie_otherwise():
    # Guards see to strides of inputs, but not to those of gradients: these come as eager execution makes them.
    net, x = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.GELU()), torch.randn(2, 3, 6, 6, requires_grad=True)
    weights = torch.randn(2, 4, 6, 6)
    f = compiled(net)
    for gradient in (weights, weights.to(memory_format=torch.channels_last), weights[:1].expand(2, 4, 6, 6)):
        for g in (net, f):
            x.grad = None
            g(x).backward(gradient)
            if g is net:
                want = x.grad
        torch.testing.assert_close(x.grad, want)


@pytest.mark.parametrize("device", DEVICES)
def test_empty_tensors_and_rank_0(device):
    x = torch.randn(0, 4, device=device)
    check(lambda x: (x * 2, x.sum(), x.sum(0), x.t() + 1, torch.cat([x, x + 1])), x)
    check(lambda s, t: (s * 2 + t, s.expand(3) + 1, (s > 0).float()), torch.tensor(3.0, device=device), torch.tensor(2.0, device=device))


@pytest.mark.parametrize("device", DEVICES)
def test_lazy_conjugates(device):
    x = torch.randn(4, dtype=torch.complex64, device=device)
    f = compiled(lambda x: torch.view_as_real(x * 2) + 1)
    for y in (x, x.conj()):
        torch.testing.assert_close(f(y), torch.view_as_real(y * 2) + 1)


@cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16], ids=str)
def test_scalars_on_the_host_among_tensors_on_the_gpu(dtype):
    x, s = torch.randn(5, device="cuda"), torch.tensor(3, dtype=dtype)
    check(lambda x, s: x * s + 1, x, s)


# -- streams and recorded graphs --


@cuda
def test_the_current_stream_is_used():
    x = torch.zeros(1 << 22, device="cuda")
    f = compiled(lambda x: (x + 1).relu() * 2)
    with torch.no_grad():
        f(x)
        streams = [torch.cuda.Stream() for _ in range(3)]
        torch.cuda.synchronize()
        results = []
        for i, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000_000)
                y = x + i
                results.append(f(y))
                # The memory goes back for use in this stream only.
                del y
                torch.full_like(x, -9.0)
        torch.cuda.synchronize()
        for i, r in enumerate(results):
            assert r.unique().tolist() == [2.0 * (i + 1)]


@cuda
def test_results_may_be_given_to_other_streams():
    f, side = compiled(lambda x: x * 2), torch.cuda.Stream()
    with torch.no_grad():
        y = f(torch.ones(1 << 20, device="cuda"))
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        z = y + 1
    y.record_stream(side)
    at = y.data_ptr()
    del y
    # Were the result not PyTorch's own memory, recording would do nothing and this would overwrite what `side` still reads.
    assert torch.empty(1 << 20, device="cuda").data_ptr() != at
    torch.cuda.synchronize()
    assert z.unique().tolist() == [3.0]


@cuda
def test_recorded_graphs():
    net = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256)).cuda().eval()
    f, x = compiled(lambda x, s: net(x) * s), torch.randn(32, 256, device="cuda")
    s = torch.tensor(2.0)
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                f(x, s)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # "global": whatever waits, or allocates outside of PyTorch's allocator, makes the recording fail.
        with torch.cuda.graph(graph, capture_error_mode="global"):
            y = f(x, s)
        for i in range(3):
            x.copy_(torch.randn_like(x))
            graph.replay()
            torch.testing.assert_close(y, net(x) * 2, atol=1e-3, rtol=1e-3)


@cuda
def test_misaligned_arguments_are_copied_in_pytorchs_memory():
    x = torch.randn(4097, device="cuda")
    check(lambda x: x.view(64, 64).softmax(-1), x[1:])


@cuda
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
def test_another_gpu_than_the_current_one():
    x = torch.randn(64, device="cuda:1")
    check(lambda x: (x * 2).cumsum(0), x, fallbacks=None)
    assert torch.cuda.current_device() == 0
