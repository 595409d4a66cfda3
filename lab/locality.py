"""Is a gain a matter of neighbours? Each position beside its permuted control, in words."""

from __future__ import annotations

from collections.abc import Iterable

from lab.arms import SIGNIFICANT, Arm

KEPT = "a gain with random neighbours too, and the two cannot be told apart: no sign of locality."
SHARED = "a gain with random neighbours too, but a larger one with real ones: part of it is locality."
LOCAL = "a gain with real neighbours, none that can be shown with random ones, and the two differ: locality."
OPEN = "a gain with real neighbours; random ones show none, yet the two cannot be told apart: undecided."
WORSE = "random neighbours do better than real ones."
BETTER = "real neighbours do better than random ones, but no gain on the baseline can be shown."
NONE = "no gain on the baseline can be shown, so there is nothing to explain."
MISSING = "fewer than two seeds with random neighbours, so nothing can be said."


def what_remains(arm: Arm, control: Arm | None) -> str:
    """What the permuted ``control`` of an arm with real neighbours says of the arm's gain: one of the sentences above.

    Every gain and every difference in them stands after Holm's correction.
    """
    if control is None or arm.local is None or arm.local.n < 2:
        return MISSING
    differ = arm.p_local < SIGNIFICANT
    if differ and arm.local.mean < 0:
        return WORSE
    if not _gains(arm):
        return BETTER if differ else NONE
    if _gains(control):
        return SHARED if differ else KEPT
    return LOCAL if differ else OPEN


def in_words(found: Iterable[Arm]) -> dict[str, list[Arm]]:
    """The arms with real neighbours by what their controls say of them."""
    found = list(found)
    controls = {arm.config: arm for arm in found if arm.config.permuted}
    said: dict[str, list[Arm]] = {}
    for arm in found:
        if arm.difference is not None and not arm.config.permuted:
            said.setdefault(what_remains(arm, controls.get(arm.config.with_(permuted=True))), []).append(arm)
    return said


def _gains(arm: Arm) -> bool:
    return arm.difference is not None and arm.difference.mean > 0 and arm.p < SIGNIFICANT
