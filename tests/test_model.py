"""The model: arms differ only in the heat layer, never mix, and padding is never seen."""

import pytest
import torch

from lab.config import RunConfig
from lab.heads import of_run
from lab.heat import heat_step
from lab.model import PackTransformer, model_of
from lab.positions import Position

HEATED = [p for p in Position if p is not Position.BASELINE]
LENGTH, VOCABULARY, CLASSES = 12, 7, 3


def model(*configs, towers=1):
    return PackTransformer(configs, VOCABULARY, LENGTH, CLASSES, towers).double().eval()


def config(position=Position.BASELINE, **fields):
    return RunConfig(**{"position": position, "width": 8, "ffn": 16, **fields})


def tokens(arms=1, batch=4, n=LENGTH, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCABULARY, (1, batch, n), generator=draw).expand(arms, -1, -1)


@pytest.mark.parametrize(
    "fields", [{}, {"permuted": True}, {"learnable": True}, {"strides": (1, 2)}, {"alpha": 0.5}, {"heat_steps": 4}]
)
@pytest.mark.parametrize("position", HEATED)
def test_every_arm_of_a_seed_starts_from_the_same_parameters(position, fields):
    base = model(config(seed=5)).weights()
    arm = model(config(position, seed=5, **fields)).weights()
    assert all(torch.equal(base[name], arm[name]) for name in base)
    other = model(config(position, seed=6, **fields)).weights()
    assert not torch.equal(base["embedding"], other["embedding"])


def test_every_position_changes_the_logits_and_no_two_agree():
    x = tokens()
    logits = {p: model(config(p))(x) for p in Position}
    for a in Position:
        for b in Position:
            assert (a == b) == torch.allclose(logits[a], logits[b], atol=1e-9), (a, b)


@pytest.mark.parametrize("position", HEATED)
def test_alpha_zero_is_the_baseline_to_the_last_bit(position):
    x = tokens()
    assert torch.equal(model(config(position, alpha=0.0))(x), model(config())(x))


def _reference(w, cfg, x):
    """The block of the module's docstring, written out plainly for one arm and one head count, in float64."""

    def heat(place, h):
        return heat_step(h, cfg.alpha) if cfg.position is place else h

    def norm(h, name):
        return torch.nn.functional.layer_norm(h, (cfg.width,), w[name + ".weight"][0], w[name + ".bias"][0])

    h = heat(Position.AFTER_EMBEDDING, w["embedding"][0][x] + w["position"][0][: x.shape[1]])
    for layer in range(cfg.layers):
        p = f"blocks.{layer}."
        z = heat(Position.BEFORE_ATTENTION, norm(h, p + "ln1"))
        q, k, v = (z @ w[p + "qkv.weight"][0] + w[p + "qkv.bias"][0]).chunk(3, -1)
        heads = []
        for qh, kh, vh in zip(*(t.chunk(cfg.heads, -1) for t in (q, k, v)), strict=True):
            scores = qh @ kh.transpose(1, 2) / qh.shape[-1] ** 0.5
            heads.append(scores.softmax(-1) @ vh)
        a = torch.cat(heads, -1) @ w[p + "out.weight"][0] + w[p + "out.bias"][0]
        h = heat(Position.BEFORE_LN, h + heat(Position.AFTER_ATTENTION, a))
        f = torch.relu(norm(h, p + "ln2") @ w[p + "ffn_in.weight"][0] + w[p + "ffn_in.bias"][0])
        f = heat(Position.AFTER_FFN, f @ w[p + "ffn_out.weight"][0] + w[p + "ffn_out.bias"][0])
        h = heat(Position.BETWEEN_LAYERS, h + f)
    h = norm(heat(Position.BEFORE_HEAD, h), "ln")
    return h.mean(1) @ w["head.weight"][0] + w["head.bias"][0]


@pytest.mark.parametrize("position", list(Position))
def test_the_forward_pass_is_the_block_as_it_is_written(position):
    cfg = config(position, alpha=0.3, heads=4)
    net = model(cfg)
    with torch.no_grad():  # biases and gains away from their special starts
        net.free.add_(torch.randn(net.free.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    x = tokens()
    torch.testing.assert_close(net(x)[0], _reference(net.weights(), cfg, x[0]), rtol=1e-10, atol=1e-10)


ARMS = [
    *(config(p, seed=s) for p in Position for s in (0, 1)),
    *(config(p, permuted=True, alpha=0.4) for p in HEATED),
    config(Position.AFTER_FFN, matched=True),
]


@pytest.mark.parametrize("ragged", [False, True])
def test_each_arm_of_a_pack_gives_its_solo_logits(ragged):
    pack, x = model(*ARMS), tokens(len(ARMS))
    lengths = torch.tensor([LENGTH, 5, 1, 8]).expand(len(ARMS), -1) if ragged else None
    together = pack(x, lengths)
    for arm, cfg in enumerate(ARMS):
        alone = model(cfg)(x[:1], None if lengths is None else lengths[:1])
        torch.testing.assert_close(together[arm], alone[0], rtol=1e-9, atol=1e-10)


def test_a_broken_arm_does_not_touch_its_neighbours():
    pack, x = model(*ARMS[:4]), tokens(4)
    sound = pack(x)
    with torch.no_grad():
        pack.decayed[1] = torch.nan
    loss = pack(x).sum((1, 2))
    torch.testing.assert_close(pack(x)[[0, 2, 3]], sound[[0, 2, 3]])
    loss.sum().backward()
    assert pack.decayed.grad[[0, 2, 3]].isfinite().all()


@pytest.mark.parametrize(
    "fields", [{}, {"permuted": True}, {"strides": (1, 2, 4)}, {"heat_steps": 30}, {"learnable": True}]
)
@pytest.mark.parametrize("position", list(Position))
def test_more_padding_changes_no_logit(position, fields):
    net = model(config(position, **fields)).float()
    x, lengths = tokens(batch=3, n=8), torch.tensor([[8, 3, 6]])
    for row, real in enumerate(lengths[0]):
        x = x.clone()
        x[0, row, real:] = 0
    short = net(x, lengths)
    padded = torch.nn.functional.pad(x, (0, LENGTH - 8))
    torch.testing.assert_close(net(padded, lengths), short, rtol=0, atol=1e-5)
    # and what stands at padded tokens is never read
    junk = padded.clone()
    for row, real in enumerate(lengths[0]):
        junk[0, row, real:] = VOCABULARY - 1
    torch.testing.assert_close(net(junk, lengths), short, rtol=0, atol=1e-5)


def test_a_sequence_alone_gives_what_it_gives_in_a_padded_batch():
    net = model(config(Position.BETWEEN_LAYERS))
    x, lengths = tokens(batch=3), torch.tensor([[12, 4, 7]])
    batch = net(x, lengths)
    for row, real in enumerate(lengths[0].tolist()):
        torch.testing.assert_close(net(x[:, row : row + 1, :real])[0, 0], batch[0, row])


def test_two_towers_never_see_each_other_and_meet_at_the_head():
    net = model(config(Position.AFTER_EMBEDDING), towers=2)
    assert net.weights()["head.weight"].shape == (1, 4 * 8, CLASSES)
    pairs = torch.stack([tokens(seed=1), tokens(seed=2)], 2)
    seen: list[torch.Tensor] = []
    net(pairs, hook=lambda name, layer, x: seen.append(x) if name == "hidden" else None)
    other = pairs.clone()
    other[:, :, 1] = 0
    again: list[torch.Tensor] = []
    net(other, hook=lambda name, layer, x: again.append(x) if name == "hidden" else None)
    torch.testing.assert_close(seen[-1][:, 0::2], again[-1][:, 0::2])
    assert not torch.allclose(net(pairs), net(other))


def test_a_signal_is_read_as_numbers_not_as_ids():
    net = PackTransformer([config()], 0, LENGTH, CLASSES).eval()
    x = torch.randn(1, 4, LENGTH, generator=torch.Generator().manual_seed(0))
    assert net(x).shape == (1, 4, CLASSES)
    assert not torch.allclose(net(x), net(2 * x))


def test_parameters_survive_storage_and_attention_is_a_distribution():
    cfg = config(Position.AFTER_ATTENTION, learnable=True, strides=(1, 2))
    net = PackTransformer(
        [config(Position.AFTER_FFN, learnable=True, strides=(1, 2)), cfg], VOCABULARY, LENGTH, CLASSES
    ).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)) * 0.1)
    arrays = {n: a for n, a in net.arrays(1).items() if "after_ffn" not in n}
    x = tokens(2)
    torch.testing.assert_close(model_of(cfg, arrays)(x[:1])[0], net(x)[1])
    attention = of_run(cfg, arrays, x[0, 0].numpy(), 0.25, layer=1, head=1).p
    assert attention.shape == (LENGTH, LENGTH)
    torch.testing.assert_close(attention.sum(-1), torch.ones(LENGTH, dtype=torch.float64))
    assert attention.min() > 0


def test_attention_in_parts_is_the_attention_of_the_forward_pass():
    net, x = model(config(), config(seed=1)), torch.randn(2, 3, LENGTH, 8, dtype=torch.float64)
    lengths = torch.tensor([[LENGTH, 4, 7]] * 2)
    mask = torch.arange(LENGTH) < lengths[..., None]
    w = net.weights()
    p, values = net.attention_parts(1, x, mask)
    torch.testing.assert_close(
        (p @ values).sum(2) + w["blocks.1.out.bias"][:, None, None], net.attention(w, 1, x, mask)
    )
    assert (p.masked_select(~mask[:, :, None, None].expand_as(p)) == 0).all()


def test_dropout_drops_the_same_units_in_every_arm_of_a_seed():
    pack = model(
        config(seed=3, dropout=0.5),
        config(Position.AFTER_FFN, alpha=0.0, seed=3, dropout=0.5),
        config(seed=4, dropout=0.5),
    ).train()
    logits = pack(tokens(3))
    torch.testing.assert_close(logits[0], logits[1])
    assert not torch.allclose(logits[0], logits[2])


def test_dropout_does_not_depend_on_how_far_a_batch_is_padded():
    cfg, x = config(Position.AFTER_FFN, seed=3, dropout=0.5), tokens(n=6)
    lengths = torch.tensor([[6, 4, 2, 5]])
    short = model(cfg).train()(x, lengths)
    padded = model(cfg).train()(torch.nn.functional.pad(x, (0, LENGTH - 6)), lengths)
    torch.testing.assert_close(short, padded)
