import numpy as np
import pytest
import torch

from lab.attention import MATRICES, attention
from lab.errors import LabError


@pytest.mark.parametrize("name", sorted(MATRICES))
@pytest.mark.parametrize("n", [1, 2, 17])
def test_rows_sum_to_one_and_the_seed_decides(name, n):
    matrix = MATRICES[name]
    p = matrix.build(n, seed=3)
    assert p.shape == (n, n)
    assert p.dtype == torch.float64
    assert p.min() >= 0
    torch.testing.assert_close(p.sum(-1), torch.ones(n, dtype=torch.float64), rtol=0, atol=1e-14)
    assert torch.equal(p, matrix.build(n, seed=3))
    is_random = name in ("permutation", "content")
    if n == 17:
        assert torch.equal(p, matrix.build(n, seed=4)) != is_random
    assert matrix.label
    assert matrix.explanation.endswith(".")


def test_each_is_what_its_name_says():
    n = 9
    built = {name: matrix.build(n, width=1.5) for name, matrix in MATRICES.items()}
    assert (built["uniform"] == 1 / n).all()
    assert torch.equal(built["identity"], torch.eye(n, dtype=torch.float64))
    assert built["shift"].argmax(-1).tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7]
    assert sorted(built["permutation"].argmax(-1).tolist()) == list(range(n))
    assert set(built["permutation"].unique().tolist()) == {0.0, 1.0}
    local = built["local"]
    assert local.argmax(-1).tolist() == list(range(n))
    assert float(local[4, 6] / local[4, 4]) == pytest.approx(np.exp(-0.5 * (2 / 1.5) ** 2))
    assert MATRICES["local"].build(n, width=0.5)[4, 4] > local[4, 4]
    assert built["content"].std() > 0.01


def test_random_numbers_leave_the_global_stream_alone():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    MATRICES["content"].build(5)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize(("field", "arguments"), [("tokens", {"n": 0}), ("width", {"n": 3, "width": 0.0})])
def test_what_cannot_be_built_is_refused_by_name(field, arguments):
    with pytest.raises(LabError) as error:
        MATRICES["local"].build(**arguments)
    assert error.value.field == field


def test_a_head_is_softmax_of_scaled_scores():
    random = np.random.default_rng(0)
    x, wq, wk, wv = (random.standard_normal(s) for s in ((6, 4), (4, 3), (4, 3), (4, 5)))
    scores = np.exp((x @ wq) @ (x @ wk).T / np.sqrt(3))
    expected = scores / scores.sum(1, keepdims=True)
    p, y = attention(*(torch.from_numpy(a) for a in (x, wq, wk, wv)))
    np.testing.assert_allclose(p, expected, rtol=1e-12)
    np.testing.assert_allclose(y, expected @ x @ wv, rtol=1e-12)
    batched, _ = attention(torch.from_numpy(np.stack([x, x])), *(torch.from_numpy(a) for a in (wq, wk, wv)))
    torch.testing.assert_close(batched[1], p)
