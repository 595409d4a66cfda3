"""A small pre-LN Transformer classifier with a leading arm axis, whose arms differ only in where the heat layer sits.

A *pack* of A configs that share shape and data is one model: every parameter has shape ``(A, …)``, activations are
``(A, batch, tokens, width)``, and attention folds arms, examples and heads into one batch. One arm on a CPU costs nothing extra; many
arms keep a GPU busy. Arms never mix: each has its own parameters, batch, loss, gradient norm and random streams.

Block, with the seven places numbered as in :class:`lab.positions.Position`::

    h = embed(x) + pos                         (1) after_embedding
    a = Attn(LN1 h)                            (2) before_attention: on LN1 h     (3) after_attention: on a
    h = h + a                                  (4) before_ln
    h = h + FFN(LN2 h)                         (5) after_ffn: on the FFN's output (6) between_layers: on h
    logits = Linear(mean over tokens(LN h))    (7) before_head: on h
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from lab.config import RunConfig
from lab.placement import Placement
from lab.positions import Position

Hook = Callable[[str, int, Tensor], None]


class PackTransformer(nn.Module):
    """The model of a pack: logits ``(arms, batch, classes)`` from tokens ``(arms, batch, tokens)``.

    All parameters live in two flat tensors, one with and one without weight decay, so that one step of the optimiser is
    one kernel and the gradient norm of an arm is one reduction.
    """

    def __init__(
        self, configs: Sequence[RunConfig], vocabulary: int, length: int, classes: int, towers: int = 1
    ) -> None:
        super().__init__()
        config = configs[0]
        if any(other.pack_key() != config.pack_key() for other in configs):
            raise ValueError("the configs of a pack may differ only in position, alpha, controls and seed")
        self.configs = tuple(configs)
        self.config = config
        self.arms = len(configs)
        self.layout = _layout(config, vocabulary, length, classes, towers)
        drawn = [_draw(self.layout, arm.seed) for arm in configs]
        self.decayed = nn.Parameter(torch.stack([decayed for decayed, _ in drawn]))
        self.free = nn.Parameter(torch.stack([free for _, free in drawn]))
        self.placement = Placement(configs, length)
        self._dropout_streams: list[torch.Generator] | None = None

    # -- parameters -----------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, Tensor]:
        """Every parameter by name, shape ``(arms, …)``, as views of the two flat tensors."""
        views: dict[str, Tensor] = {}
        for flat, decayed in ((self.decayed, True), (self.free, False)):
            entries = [(name, shape) for name, (shape, _, decay) in self.layout.items() if decay is decayed]
            pieces = flat.split([math.prod(shape) for _, shape in entries], dim=1)
            views |= {name: piece.view(self.arms, *shape) for (name, shape), piece in zip(entries, pieces, strict=True)}
        return views

    def parameter_count(self, arm: int) -> int:
        """Trainable numbers of one arm, a learnable α of its own place included."""
        own = self.configs[arm].position
        heat = [p for name, p in self.placement.named_parameters() if name.startswith(f"layers.{own}-")]
        return sum(p.numel() for p in (self.decayed, self.free, *heat)) // self.arms

    def arrays(self, arm: int) -> dict[str, NDArray[np.float32]]:
        """One arm's parameters as numpy arrays, to be stored."""
        named = {**self.weights(), **self.placement.weights()}
        return {name: w[arm].detach().float().cpu().numpy().copy() for name, w in named.items()}

    def load(self, arrays: Mapping[str, NDArray[np.float32]], arm: int = 0) -> None:
        """Take one arm's parameters from what :meth:`arrays` gave."""
        named = {**self.weights(), **self.placement.weights()}
        with torch.no_grad():
            for name, w in named.items():
                w[arm].copy_(torch.from_numpy(np.array(arrays[name])))

    # -- the forward pass -----------------------------------------------------------------------------------------

    def forward(self, tokens: Tensor, lengths: Tensor | None = None, hook: Hook | None = None) -> Tensor:
        """Logits ``(arms, batch, classes)``.

        ``tokens (arms, batch, n)``, ``n`` at most the model's length: integer ids, or floats where the input is a signal;
        ``lengths (arms, batch)`` the number of real tokens of each sequence, None if all are full. With two towers both have an axis
        more, ``(arms, batch, 2, n)``: the documents go through the same layers and meet at the head, never in the attention.
        ``hook(name, layer, tensor)`` sees ``hidden`` after the embedding (layer 0) and each block, and ``attention_input``, the tensor
        that enters each attention layer after any heat.
        """
        tokens, lengths, towers = fold_towers(tokens, lengths)
        mask = real_tokens(tokens, lengths)
        n = tokens.shape[-1]
        w = self.weights()
        heat = self.placement.for_batch(mask)
        h = self._dropout(_embed(tokens, w["embedding"]) + w["position"][:, None, :n])
        h = heat(Position.AFTER_EMBEDDING, h)
        if hook:
            hook("hidden", 0, h)
        for layer in range(self.config.layers):
            p = f"blocks.{layer}."
            x = heat(Position.BEFORE_ATTENTION, _norm(h, w[p + "ln1.weight"], w[p + "ln1.bias"]), layer)
            if hook:
                hook("attention_input", layer, x)
            a = heat(Position.AFTER_ATTENTION, self.attention(w, layer, x, mask), layer)
            h = heat(Position.BEFORE_LN, h + self._dropout(a), layer)
            x = _norm(h, w[p + "ln2.weight"], w[p + "ln2.bias"])
            x = F.relu(_linear(x, w[p + "ffn_in.weight"], w[p + "ffn_in.bias"]))
            x = heat(Position.AFTER_FFN, _linear(x, w[p + "ffn_out.weight"], w[p + "ffn_out.bias"]), layer)
            h = heat(Position.BETWEEN_LAYERS, h + self._dropout(x), layer)
            if hook:
                hook("hidden", layer + 1, h)
        h = _norm(heat(Position.BEFORE_HEAD, h), w["ln.weight"], w["ln.bias"])
        pooled = _mean(h, mask)
        if towers == 2:
            u, v = pooled.unflatten(1, (-1, 2)).unbind(2)
            pooled = torch.cat([u, v, u * v, u - v], -1)
        return _linear(pooled[:, :, None], w["head.weight"], w["head.bias"])[:, :, 0]

    def attention(self, w: Mapping[str, Tensor], layer: int, x: Tensor, mask: Tensor | None) -> Tensor:
        """Multi-head attention of layer ``layer``: ``(arms, batch, n, width)`` in and out."""
        q, k, v = self._qkv(w, layer, x)
        keys = None if mask is None else mask.flatten(0, 1)[:, None, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keys)
        y = y.transpose(1, 2).reshape(x.shape)
        return _linear(y, w[f"blocks.{layer}.out.weight"], w[f"blocks.{layer}.out.bias"])

    def attention_parts(self, layer: int, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Attention matrices ``P (arms, batch, heads, n, n)`` and values through the output projection, per head, ``(…, heads, n, width)``.

        ``Σ_heads P @ values`` is the layer's output without its output bias, so what these give is exactly what the layer does.
        """
        w = self.weights()
        q, k, v = self._qkv(w, layer, x)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask.flatten(0, 1)[:, None, None], -math.inf)
        lead = (self.arms, x.shape[1])
        out = w[f"blocks.{layer}.out.weight"].view(self.arms, 1, self.config.heads, -1, self.config.width)
        return scores.softmax(-1).unflatten(0, lead), v.unflatten(0, lead) @ out

    def _qkv(self, w: Mapping[str, Tensor], layer: int, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each ``(arms * batch, heads, n, width / heads)``."""
        arms, batch, n, width = x.shape
        qkv = _linear(x, w[f"blocks.{layer}.qkv.weight"], w[f"blocks.{layer}.qkv.bias"])
        # Split, not unbind: the gradient of a split is one concatenation in the order it is needed in.
        parts = qkv.split(width, -1)
        q, k, v = (part.view(arms * batch, n, self.config.heads, -1).transpose(1, 2) for part in parts)
        return q, k, v

    def dropout_streams(self) -> list[torch.Generator]:
        """What dropout draws from: one random stream per arm, on the parameters' device, seeded by the arm's seed."""
        if self._dropout_streams is None:
            device = self.decayed.device
            self._dropout_streams = [torch.Generator(device).manual_seed(3 + 10 * c.seed) for c in self.configs]
        return self._dropout_streams

    def _dropout(self, x: Tensor) -> Tensor:
        """Dropout with one random stream per arm: arms of one seed drop the same units."""
        p = self.config.dropout
        if not self.training or p == 0:
            return x
        # Drawn for the model's whole length: how far a batch is cut depends on all arms, and must not reach an arm's stream.
        batch, n, width = x.shape[1:]
        shape = (batch, self.layout["position"][0][0], width)
        noise = [torch.rand(shape, generator=g, device=x.device)[:, :n] for g in self.dropout_streams()]
        return x * (torch.stack(noise) >= p) / (1 - p)


def model_of(config: RunConfig, arrays: Mapping[str, NDArray[np.float32]]) -> PackTransformer:
    """The one-arm model whose trained parameters are ``arrays``, ready for evaluation."""
    vocabulary, length = arrays["embedding"].shape[0], arrays["position"].shape[0]
    towers = 2 if arrays["head.weight"].shape[0] == 4 * config.width else 1
    model = PackTransformer([config], vocabulary, length, arrays["head.bias"].shape[0], towers)
    model.load(arrays)
    return model.eval()


def fold_towers(tokens: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None, int]:
    """Tokens ``(arms, batch·towers, n)``, their lengths, and how many towers there are."""
    if tokens.ndim == 3:
        return tokens, lengths, 1
    return tokens.flatten(1, 2), None if lengths is None else lengths.flatten(1, 2), tokens.shape[2]


def real_tokens(tokens: Tensor, lengths: Tensor | None) -> Tensor | None:
    """True where a token is not padding, ``(arms, batch, n)``; None if there is no padding."""
    return None if lengths is None else torch.arange(tokens.shape[-1], device=tokens.device) < lengths[..., None]


# Each entry: shape without the arm axis, standard deviation (or a constant, if a string), whether it decays.
_Layout = dict[str, tuple[tuple[int, ...], float | str, bool]]


def _layout(config: RunConfig, vocabulary: int, length: int, classes: int, towers: int) -> _Layout:
    d, f = config.width, config.ffn
    # The branches that add to the residual stream start smaller, so that its variance does not grow with depth.
    residual = 1 / math.sqrt(2 * config.layers)
    layout: _Layout = {
        "embedding": ((max(1, vocabulary), d), 0.5, True),  # a signal has one row, which its values multiply
        "position": ((length, d), 0.5, True),
    }
    for layer in range(config.layers):
        p = f"blocks.{layer}."
        layout |= {
            p + "ln1.weight": ((d,), "one", False),
            p + "ln1.bias": ((d,), "zero", False),
            p + "qkv.weight": ((d, 3 * d), 1 / math.sqrt(d), True),
            p + "qkv.bias": ((3 * d,), "zero", False),
            p + "out.weight": ((d, d), residual / math.sqrt(d), True),
            p + "out.bias": ((d,), "zero", False),
            p + "ln2.weight": ((d,), "one", False),
            p + "ln2.bias": ((d,), "zero", False),
            p + "ffn_in.weight": ((d, f), 1 / math.sqrt(d), True),
            p + "ffn_in.bias": ((f,), "zero", False),
            p + "ffn_out.weight": ((f, d), residual / math.sqrt(f), True),
            p + "ffn_out.bias": ((d,), "zero", False),
        }
    return layout | {
        "ln.weight": ((d,), "one", False),
        "ln.bias": ((d,), "zero", False),
        "head.weight": ((4 * d if towers == 2 else d, classes), 1 / math.sqrt(d), True),
        "head.bias": ((classes,), "zero", False),
    }


def _draw(layout: _Layout, seed: int) -> tuple[Tensor, Tensor]:
    """One arm's initial parameters as (decayed, free) flat tensors. Depends on nothing but the layout and the seed."""
    # Drawn on the CPU whatever the device, so that a seed means the same model everywhere.
    generator = torch.Generator().manual_seed(seed)
    pieces: dict[bool, list[Tensor]] = {True: [], False: []}
    for shape, init, decay in layout.values():
        count = math.prod(shape)
        if isinstance(init, float):
            pieces[decay].append(torch.randn(count, generator=generator) * init)
        else:
            pieces[decay].append(torch.full((count,), 1.0 if init == "one" else 0.0))
    return torch.cat(pieces[True]), torch.cat(pieces[False])


def _embed(tokens: Tensor, table: Tensor) -> Tensor:
    """Rows of each arm's own table: ``(arms, batch, n)`` and ``(arms, vocabulary, width)`` to ``(arms, batch, n, width)``."""
    arms, vocabulary, width = table.shape
    if tokens.is_floating_point():
        return tokens.to(table.dtype)[..., None] * table[:, None]
    if arms > 1:
        tokens = tokens + vocabulary * torch.arange(arms, device=tokens.device)[:, None, None]
    return F.embedding(tokens, table.reshape(arms * vocabulary, width))


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``x W + b`` with each arm's own ``W (arms, in, out)`` and ``b (arms, out)``."""
    if weight.shape[0] == 1:
        # squeeze, not [0]: the gradient of a view is a view, that of a selection is a fresh tensor of zeros to add into
        return torch.addmm(bias.squeeze(0), x.flatten(0, -2), weight.squeeze(0)).view(*x.shape[:-1], -1)
    return torch.baddbmm(bias[:, None], x.flatten(1, -2), weight).view(*x.shape[:-1], -1)


def _norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Layer norm over the last axis with each arm's own gain and bias ``(arms, width)``."""
    if weight.shape[0] == 1:
        return F.layer_norm(x, weight.shape[1:], weight.squeeze(0), bias.squeeze(0))
    return torch.addcmul(bias[:, None, None], F.layer_norm(x, weight.shape[1:]), weight[:, None, None])


def _mean(h: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over real tokens: ``(arms, batch, n, width)`` to ``(arms, batch, width)``."""
    if mask is None:
        return h.mean(2)
    # where, not a product: whatever stands at a padded token, an infinity too, must not reach the mean
    kept = torch.where(mask[..., None], h, torch.zeros((), dtype=h.dtype, device=h.device))
    return kept.sum(2) / mask.sum(-1, keepdim=True)
