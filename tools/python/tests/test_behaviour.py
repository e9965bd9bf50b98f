"""What PyTorch expects of a backend beyond numbers: aliases, fallbacks with their lines, options, survival of the server's death."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch

import strata
from strata import strata_native as native
from conftest import check


def test_the_entry_point():
    assert "strata" in torch._dynamo.list_backends(exclude_tags=None)


def test_inputs_and_aliases_come_back():
    def f(x, y):
        z = x + y
        return x, z, z, z.t(), z.view(-1), y.t(), z[1:], None, 3

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    got = check(f, x, y)
    assert got[0] is x and got[5].data_ptr() == y.data_ptr()


def test_constants_come_back():
    check(lambda x: (x + 1, torch.ones(3), torch.tensor([1, 2, 3]), torch.zeros(2, 2).t()), torch.randn(2))


def test_results_are_not_overwritten_by_later_calls():
    f = torch.compile(lambda x: (x * 2).softmax(-1) @ x.t(), backend="strata")
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    first = f(x)
    kept = first.clone()
    f(y)
    assert torch.equal(first, kept)


def test_mutated_inputs():
    def f(x, buffer):
        buffer.add_(x)
        x.mul_(2)
        return buffer.sum()

    given = [torch.ones(3), torch.zeros(3)]
    total = torch.compile(f, backend="strata")(*given)
    assert total == 3 and given[0].tolist() == [2] * 3 and given[1].tolist() == [1] * 3
    assert strata.counters()["eager_graphs"] == 0


def test_fallbacks_are_counted_with_their_line():
    def f(x):
        y = x * 2
        return y.logcumsumexp(0) + 1, torch.geqrf(y)[1], torch.mode(y, 1)

    check(f, torch.randn(4, 3), fallbacks=3)
    line = f.__code__.co_firstlineno + 2
    for event in strata.events():
        assert event["kind"] == "fallbacks" and event["location"] == f"{__file__}:{line}", event
    assert {e["reason"].split(":")[0] for e in strata.events()} == {"aten.logcumsumexp.default", "aten.geqrf.default", "aten.mode.default"}


def test_fallbacks_with_symbolic_arguments():
    f = torch.compile(lambda x: torch.roll(x, x.shape[0] - 1, 0).cumsum(0).view(-1), backend="strata", dynamic=True)
    for n in (4, 6):
        x = torch.randn(n, 3)
        torch.testing.assert_close(f(x), torch.roll(x, n - 1, 0).cumsum(0).view(-1))


def test_element_types_that_strata_lacks():
    u = torch.randint(0, 256, (3, 4), dtype=torch.uint16)
    check(lambda u: (u.t(), u.float() / 255, u[1:], u.view(-1)), u, fallbacks=None)
    check(lambda f: (f.float() + 1, f.view(4).float()), torch.randn(2, 2).to(torch.float8_e4m3fnuz), fallbacks=None)
    check(lambda x: torch.view_as_real(torch.view_as_complex(x) * 2), torch.randn(3, 2), fallbacks=None)


def test_errors_of_the_users_op_stay_as_they_are():
    with pytest.raises(RuntimeError, match="probability tensor contains"):
        torch.compile(lambda p: torch.multinomial(p * 2, 1) * 2, backend="strata")(torch.tensor([-1.0, 1.0]))


def test_unknown_options_and_modes():
    for kw in (dict(options={"nonsense": 1}), dict(mode="nonsense")):
        with pytest.raises(Exception, match="nonsense"):
            torch.compile(lambda x: x + 1, backend="strata", **kw)(torch.ones(1))
    check(lambda x: x.bfloat16() * 3.3 + 1, torch.randn(8), options={"numerics": "strict"})


def test_random_ops_fall_back():
    f = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x) * 0, backend="strata")
    x = torch.ones(1000)
    y = f(x)
    assert 300 < (y == 0).sum() < 700 and strata.counters()["fallbacks"] > 0
    assert not torch.equal(f(x), y)


def test_the_servers_death_is_an_event():
    check(lambda x: x + 1, torch.randn(3))
    before = native.server_pid()
    assert "SIGABRT" in native.abort_server()
    assert strata.counters()["server_crashes"] == 1
    check(lambda x: x + 2, torch.randn(3))
    assert native.server_pid() not in (None, before)


def run(folder, script, **env):
    """A fresh process; its exit status, standard output and error."""
    file = folder / "user.py"
    file.write_text(textwrap.dedent(script).lstrip())
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, env=dict(os.environ, **env), timeout=300)
    return done.returncode, done.stdout, done.stderr


def test_without_a_server_graphs_run_in_pytorch(tmp_path):
    code, out, err = run(
        tmp_path,
        """
        import torch, strata
        f = torch.compile(lambda x: torch.relu(x) + 1, backend="strata")
        print(f(torch.ones(2)).tolist(), strata.counters()["eager_graphs"])
        """,
        STRATA_SERVER="/nonexistent/strata",
        STRATA_LOGS="fallbacks",
    )
    assert code == 0 and out.strip() == "[2.0, 2.0] 1", err
    assert "a whole graph runs in PyTorch: there is no compile server at this path" in err and "STRATA_SERVER" in err


def test_a_server_that_dies_while_compiling(tmp_path):
    server = tmp_path / "strata"
    server.write_text("#!/bin/sh\nhead -c 30 >/dev/null\necho 'LLVM ERROR: planted' >&2\nkill -ABRT $$\n")
    server.chmod(0o755)
    code, out, err = run(
        tmp_path,
        """
        import torch, strata
        f = torch.compile(lambda x: torch.relu(x) + 1, backend="strata")
        print(f(torch.ones(2)).tolist(), f(torch.zeros(2)).tolist(), strata.counters()["server_crashes"])
        """,
        STRATA_SERVER=str(server),
    )
    assert code == 0 and out.strip() == "[2.0, 2.0] [1.0, 1.0] 1", err
    assert "LLVM ERROR: planted" in err


def test_logs_name_the_users_line(tmp_path):
    script = """
        import torch
        f = torch.compile(lambda x: x.logcumsumexp(0), backend="strata")
        f(torch.ones(3))
        """
    code, _, err = run(tmp_path, script, STRATA_LOGS="fallbacks")
    assert code == 0 and f"strata [fallbacks] aten.logcumsumexp.default: no lowering for this op\n  where: {tmp_path}/user.py:2\n" in err, err
    assert "logcumsumexp" not in run(tmp_path, script, STRATA_LOGS="none")[2]


def test_threads_share_a_graph():
    import threading

    f = torch.compile(lambda x: (x * 2).softmax(-1) @ x.t() + 1, backend="strata")
    inputs = [torch.randn(33, 33) for _ in range(4)]
    f(inputs[0])
    wrong = []

    def work(x):
        for _ in range(20):
            if not torch.allclose(f(x), (x * 2).softmax(-1) @ x.t() + 1, atol=1e-4):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_many_graphs_of_one_function():
    f = torch.compile(lambda x: x * 2, backend="strata", dynamic=False)
    for n in range(2, 6):
        assert f(torch.ones(n)).tolist() == [2.0] * n
    assert strata.counters()["compiles"] == 4


def test_the_backend_without_dynamo(tmp_path):
    """AOTAutograd's own users call the back end themselves; nothing of what Dynamo did before is reported again."""
    from torch._dynamo import lookup_backend
    from torch.fx.experimental.proxy_tensor import make_fx

    f = lambda x: ((x * 2).relu(),)
    compiled = torch.compile(f, backend="strata", dynamic=False)
    compiled(torch.ones(2)), compiled(torch.ones(3))
    assert [e["kind"] for e in strata.events()].count("recompiles") == 1
    strata.reset_counters()
    x = torch.randn(3)
    assert torch.equal(lookup_backend("strata")(make_fx(f)(x), [x])(x)[0], f(x)[0])
    assert not strata.events()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_of_rows_that_see_nothing(dtype):
    """Padding on the left and a causal mask: the first rows have nothing to attend to, and PyTorch gives zeros."""
    q, k, v = (torch.randn(2, 3, 5, 8, dtype=dtype) for _ in range(3))
    mask = torch.ones(5, 5, dtype=torch.bool).tril() & (torch.arange(5) >= torch.tensor([2, 0])[:, None, None, None])
    f = lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    with torch.no_grad():
        want, got = f(q, k, v), torch.compile(f, backend="strata", fullgraph=True)(q, k, v)
    assert not want.isnan().any() and bool((want[0, :, :2] == 0).all())
    assert torch.equal(got == 0, want == 0)
    torch.testing.assert_close(got, want, atol=1e-2, rtol=1e-2)
