"""Where and how strongly the heat layer acts in each arm of a pack."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from lab.config import RunConfig
from lab.heat import HeatLayer
from lab.positions import Position


class Placement(nn.Module):
    """The heat layers of a pack, one for each application at each place that some arm uses.

    Elsewhere an arm has α = 0, and ``D = I - 0·L`` is the identity exactly; a place that no arm uses costs nothing. No random number is
    drawn from the parameters' stream, so arms of one seed start from the same model.
    """

    def __init__(self, configs: Sequence[RunConfig], length: int) -> None:
        super().__init__()
        self.configs = tuple(configs)
        self.layers = nn.ModuleDict()
        heated = [c for c in configs if c.position is not Position.BASELINE]
        if not heated:
            return
        permutation = None
        if any(c.permuted for c in configs):
            permutation = torch.from_numpy(np.stack([_permutation(c, length) for c in configs]))[:, None]
        for position in dict.fromkeys(c.position for c in heated):
            alphas = [c.site_alpha if c.position is position else 0.0 for c in configs]
            # One arm of fixed α takes a plain number: nothing to broadcast.
            learnable = heated[0].learnable
            plain = len(configs) == 1 and not learnable
            alpha = alphas[0] if plain else torch.tensor(alphas, dtype=torch.float64).view(-1, 1, 1, 1)
            for layer in range(position.applications(configs[0].layers)):
                self.layers[f"{position}-{layer}"] = HeatLayer(
                    alpha, learnable, heated[0].strides, heated[0].heat_steps, permutation=permutation
                )

    def weights(self) -> dict[str, Tensor]:
        """The trainable numbers by name, with the arm axis first; empty for a fixed α."""
        return {f"heat.{name}": arm_first(parameter) for name, parameter in self.named_parameters()}

    def alphas(self, arm: int) -> tuple[float, ...]:
        """The total α of every application in one arm, in the order of the forward pass."""
        config = self.configs[arm]
        values = []
        for layer in range(config.position.applications(config.layers)):
            heat = self.layers[f"{config.position}-{layer}"]
            assert isinstance(heat, HeatLayer)
            each = (torch.as_tensor(a).detach().flatten().double() for a in heat.alphas)
            values.append(sum(float(a[arm] if len(a) > 1 else a[0]) for a in each))
        return tuple(values)

    def for_batch(self, mask: Tensor | None) -> Callable[..., Tensor]:
        """``heat(position, x, layer=0)`` for one batch: x ``(arms, batch, n, width)``, mask ``(arms, batch, n)`` or None."""

        def heat(position: Position, x: Tensor, layer: int = 0) -> Tensor:
            name = f"{position}-{layer}"
            return self.layers[name](x, mask) if name in self.layers else x

        return heat


def arm_first(parameter: Tensor) -> Tensor:
    """A parameter with its arm axis in front: the shares of several strides have their stride axis before it."""
    return parameter.movedim(1, 0) if parameter.ndim == 5 else parameter


def _permutation(config: RunConfig, length: int) -> np.ndarray:
    """The order in which the permuted control meets the tokens: fixed by the seed, the identity in other arms."""
    if not config.permuted:
        return np.arange(length)
    return np.random.default_rng([config.seed, 2]).permutation(length)
