"""The paper's claims and the lab's own questions, each put to the starter study, with a verdict by one stated rule.

A claim is about pairs of arms that differ in one thing, or about all seven positions at once. Which arms there are follows from
:func:`lab.starter_study.studies`; runs that the reader has added at the same configs count too. Nothing is trained here, and what is
missing is said.
"""

from __future__ import annotations

from lab.claims.claim import RULE, Case, Claim, Verdict
from lab.claims.compared import compared
from lab.claims.comparisons import COMPARISONS
from lab.claims.ranked import commutation, worst
from lab.claims.runs import Results, keys, planned

__all__ = ["RULE", "Case", "Claim", "Verdict", "claims", "keys"]

ORDER = ("embedding", "attention", "worst", "place", "multi_scale", "commutation")
"""The paper's claims come first, then the lab's own questions."""


def claims(results: Results) -> list[Claim]:
    """Every claim put to the results there are."""
    arms = planned()
    every = [
        *(compared(comparison, arms, results) for comparison in COMPARISONS),
        worst(arms, results),
        commutation(arms, results),
    ]
    return sorted(every, key=lambda claim: ORDER.index(claim.name) if claim.name in ORDER else len(ORDER))
