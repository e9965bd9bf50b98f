"""Indices out of range: PyTorch's exception, in PyTorch's words, and nothing changed by the call that raised it."""

import pytest
import strata
import torch
import torch.nn.functional as F

X = torch.arange(1.0, 13.0).reshape(4, 3)
ROW = torch.tensor([[2.0, 3.0, 5.0]])

# Each takes a table of 4 × 3 and one index of its first dimension.
OPS = {
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding_bag": lambda x, i: F.embedding_bag(torch.cat([i * 0, i]).reshape(1, 2), x),
    "index": lambda x, i: x[i],
    "index_of_two_tensors": lambda x, i: x[i, (i * 0)[:, None]],
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i.reshape(1, 1)),
    "take_along_dim": lambda x, i: torch.take_along_dim(x, i.reshape(1, 1), 0),
    "take": lambda x, i: x[:, 0].take(i),
    "index_put": lambda x, i: x.index_put((i,), ROW),
    "index_put_accumulate": lambda x, i: x.index_put((i,), ROW, accumulate=True),
    "index_add": lambda x, i: x.index_add(0, i, ROW, alpha=2),
    "index_copy": lambda x, i: x.index_copy(0, i, ROW),
    "index_fill": lambda x, i: x.index_fill(0, i, 7.0),
    "index_reduce": lambda x, i: x.index_reduce(0, i, ROW, "amax"),
    "scatter": lambda x, i: x.scatter(0, i.reshape(1, 1), ROW),
    "scatter_add": lambda x, i: x.scatter_add(0, i.reshape(1, 1), ROW),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i.reshape(1, 1), ROW, "prod"),
    "put": lambda x, i: x[:, 0].put(i, ROW[0, :1]),
    "cross_entropy": lambda x, i: F.cross_entropy(x.T[:1], i),
    "nll_loss": lambda x, i: F.nll_loss(x.T[:1], i, ignore_index=3, reduction="sum"),
    "nll_loss_of_images": lambda x, i: F.nll_loss(x.T[:1].reshape(1, 4, 1, 1), i.reshape(1, 1, 1)),
    "multi_margin_loss": lambda x, i: F.multi_margin_loss(x.T[:1], i),
}


def outcome(f, *args):
    try:
        return f(*args)
    except Exception as e:
        return e


def same(got, want, words=True):
    if isinstance(want, Exception) and not words:
        assert type(got) is type(want), f"{got!r} is not {want!r}"
    elif isinstance(want, Exception):
        assert type(got) is type(want) and str(got) == str(want), f"{got!r} is not {want!r}"
    else:
        assert isinstance(got, torch.Tensor) and torch.equal(got, want), f"{got!r} is not {want!r}"


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", OPS)
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_every_index_does_what_it_does_in_eager_mode(name, dynamic):
    f = OPS[name]
    compiled = torch.compile(f, backend="strata", dynamic=dynamic)
    raised = 0
    for number in (0, 3, 4, -1, -4, -5, 1000, -(10**12), 2**40, 1):
        i = torch.tensor([number])
        want = outcome(f, X, i)
        # PyTorch takes this loss apart before anyone learns its name.
        same(outcome(compiled, X, i), want, words=name != "multi_margin_loss")
        raised += isinstance(want, Exception)
    # This one takes the remainder of an index by the size.
    assert raised >= 3 or name == "take_along_dim"
    # No failure of the graph's: its kernels ran in every call, and still do.
    assert strata.counters()["eager_graphs"] == 0 and strata.counters()["fallbacks"] == 0, strata.events()


@pytest.mark.parametrize("number", [5, -1])
@pytest.mark.parametrize("loss", [F.cross_entropy, lambda x, i: F.nll_loss(x.log_softmax(1), i)], ids=["cross_entropy", "nll_loss"])
def test_a_bad_target_in_training(loss, number):
    model = torch.nn.Linear(6, 5)
    x, good, bad = torch.randn(3, 6), torch.tensor([0, 4, 2]), torch.tensor([0, number, 2])

    def step(x, i):
        return loss(model(x), i)

    compiled = torch.compile(step, backend="strata")
    compiled(x, good).backward()
    same(outcome(compiled, x, bad), outcome(step, x, bad))
    model.zero_grad()
    compiled(x, good).backward()
    got = model.weight.grad.clone()
    model.zero_grad()
    step(x, good).backward()
    torch.testing.assert_close(got, model.weight.grad)


def test_a_bad_target_in_the_gradient():
    """The backward graph checks by itself, where it gets targets that the forward graph has not seen."""
    op = torch.ops.aten.nll_loss_backward

    def f(g, x, i):
        return op(g, x, i, None, 1, -100, torch.tensor(3.0))

    compiled = torch.compile(f, backend="strata")
    g, x = torch.tensor(1.0), torch.randn(3, 5)
    for i in ([0, 4, 2], [0, 5, 2], [0, -1, 2], [-100, 1, 2]):
        same(outcome(compiled, g, x, torch.tensor(i)), outcome(f, g, x, torch.tensor(i)))


def test_arguments_that_are_written_to_stay_as_they_were():
    def f(x, y, i):
        y.add_(1)
        x.index_add_(0, i, ROW)
        return x.sum()

    compiled = torch.compile(f, backend="strata")
    x, y = X.clone(), torch.zeros(3)
    compiled(x, y, torch.tensor([1]))
    before = x.clone(), y.clone()
    with pytest.raises(RuntimeError, match="index 9 is out of bounds for dimension 0 with size 4"):
        compiled(x, y, torch.tensor([9]))
    assert torch.equal(x, before[0]) and torch.equal(y, before[1])


def test_a_table_that_turns_out_to_be_empty():
    """A size that may be 0 when the graph is compiled: nothing is read or written where nothing is."""

    def f(x, keep, i):
        rows = x[keep]
        return rows[i], rows.index_put((i,), ROW)

    compiled = torch.compile(f, backend="strata")
    i = torch.tensor([1, -1])
    for keep in ([True] * 4, [False] * 4, [False, False, False, True], [True, True, False, False]):
        keep = torch.tensor(keep)
        want, got = outcome(f, X, keep, i), outcome(compiled, X, keep, i)
        if isinstance(want, Exception):
            same(got, want)
        else:
            [same(g, w) for g, w in zip(got, want)]


def test_masks_with_another_number_of_values():
    cases = [
        (lambda x, m, v: x.masked_scatter(m, v), 5, RuntimeError, "Number of elements of source < number of ones in mask"),
        (lambda x, m, v: x.index_put((m,), v), 5, RuntimeError, "shape mismatch"),
        (lambda x, m, v: x.index_put((m,), v), 7, RuntimeError, "shape mismatch"),
    ]
    mask = X > 6
    for f, many, error, text in cases:
        compiled = torch.compile(f, backend="strata", dynamic=False)
        right, wrong = torch.arange(6.0) * 2, torch.arange(float(many))
        same(compiled(X, mask, right), f(X, mask, right))
        assert isinstance(outcome(f, X, mask, wrong), error)
        with pytest.raises(error, match=text):
            compiled(X, mask, wrong)


def test_unused_and_unsafe_indices_are_not_checked():
    def f(x, i):
        return x.index_select(0, i) * 0 if x.shape[0] == 3 else x + 1

    compiled = torch.compile(f, backend="strata")
    assert torch.equal(compiled(X, torch.tensor([9])), X + 1)
    assert strata.counters()["fallbacks"] == 0


def test_the_text_without_pytorch(tmp_path):
    """An exported program has no PyTorch to ask: it says itself what is wrong, and where."""

    class Model(torch.nn.Module):
        def forward(self, x, i):
            return F.embedding(i, x)

    path = tmp_path / "model.strata"
    strata.export(Model(), (X, torch.tensor([1, 2])), path=path)
    loaded = strata.load(path)
    assert torch.equal(loaded(X, torch.tensor([3, 0])), X[[3, 0]])
    with pytest.raises(IndexError) as e:
        loaded(X, torch.tensor([3, -1]))
    lines = str(e.value).split("\n")
    assert lines[0] == "aten.embedding: an index is out of range"
    assert lines[1].startswith("  where: ") and "test_out_of_range.py:" in lines[1]
    assert lines[2] == "  next: pass indices that are positions of the dimension, or count from its end where the op allows it"
