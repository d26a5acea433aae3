"""Expand the matrix of a job into its combinations, as GitHub does."""

from collections.abc import Mapping, Sequence
from itertools import islice, product
from typing import Any

MOST_JOBS = 256
"""GitHub refuses a larger matrix (docs: "Running variations of jobs in a workflow")."""

Combination = Mapping[str, Any]


def combinations(matrix: object) -> Sequence[Combination] | None:
    """Return the combinations, in order; None if an expression computes them, or they cannot be read."""
    if not isinstance(matrix, dict) or not matrix:
        return None
    axes = {name: values for name, values in matrix.items() if name not in ("include", "exclude")}
    include, exclude = matrix.get("include") or [], matrix.get("exclude") or []
    if not all(isinstance(each, list) and each for each in axes.values()) or computes_exclusions(matrix):
        return None
    if not all(isinstance(each, list) and all(isinstance(one, dict) for one in each) for each in (include, exclude)):
        return None
    made: list[dict[str, Any]] = []
    if axes:
        every = islice(product(*axes.values()), MOST_JOBS * 4)
        made = [dict(zip(axes, values, strict=True)) for values in every]
        made = [each for each in made if not any(_fits(each, removed) for removed in exclude)]
    found = _included(made, include, frozenset(axes))
    return found if 0 < len(found) <= MOST_JOBS else None


def computes_exclusions(matrix: object) -> bool:
    """Whether an expression decides which combinations are left out: any of them may be."""
    return isinstance(matrix, dict) and "${{" in str(matrix.get("exclude"))


def _fits(combination: Combination, part: Combination) -> bool:
    return all(name in combination and combination[name] == value for name, value in part.items())


def _included(made: list[dict[str, Any]], include: Sequence[Combination], axes: frozenset[str]) -> list[dict[str, Any]]:
    """Add each `include` to the combinations whose own values it leaves, or else as a further combination."""
    originals = [dict(each) for each in made]
    further: list[dict[str, Any]] = []
    for added in include:
        fitting = [
            place
            for place, original in enumerate(originals)
            if all(original[name] == value for name, value in added.items() if name in axes)
        ]
        for place in fitting:
            made[place].update(added)
        if not fitting:
            further.append(dict(added))
    return [*made, *further]
