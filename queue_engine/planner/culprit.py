"""Choose what a search for the culprit tests next, and when it knows enough: a bisection that expects flakes. Pure.

The commits are in order: the last one that passed on the base, then each that followed, to the tip that fails. Every
hypothesis has a probability. The fault came with the commit at a place; or, at place 0, it is in the environment, so
that all commits fail now; or nothing is broken. Each result counts by its likelihood. The next test is the one that is
expected to leave the least doubt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2

from queue_engine.domain.culprit import CommitResult, CulpritOutcome, CulpritRecord

FLAKE, MISS = 0.03, 0.03
"""The chance that a job fails on a commit without the fault, and that it passes on one with the fault."""
BASE_FLAKE = 0.3
"""The chance that the base's own run fails although nothing is broken: such a failure is why there is a search."""
ENVIRONMENT, NOTHING = 0.1, 0.1
"""The chances before any result."""
SURE = 0.93
"""The probability from which a search ends."""
SURE_TO_REVERT = 0.98
_MORE, _TO_AGREE = 4, 6


@dataclass(frozen=True, slots=True)
class CulpritResult:
    """What is known, and what to do: test a place, or end with an outcome."""

    probabilities: tuple[float, ...]
    named: int | None = None
    """The place of the culprit."""
    test: int | None = None
    outcome: CulpritOutcome | None = None
    agreed: bool = False
    """Whether independent runs agree on the culprit, so that IMQ may revert it by itself."""

    @property
    def probability(self) -> float:
        """That of the culprit, or of the most probable hypothesis."""
        return max(self.probabilities) if self.named is None else self.probabilities[self.named]


def judge_culprit(search: CulpritRecord, *, reverts: bool) -> CulpritResult:
    """Judge the results; with `reverts` also after the culprit is named, until independent runs agree or do not."""
    last = len(search.commits) - 1
    found = posterior(last, search.results)
    likeliest = max(range(len(found)), key=found.__getitem__)
    most = 2 * ceil(log2(last + 2)) + _MORE
    if search.named is not None:
        if likeliest != search.named:
            # It was too early to name it.
            return CulpritResult(found, outcome=CulpritOutcome.UNCERTAIN)
        return _named(search, found, most=most + _TO_AGREE, reverts=reverts)
    if found[likeliest] >= SURE:
        if likeliest == 0:
            return CulpritResult(found, outcome=CulpritOutcome.ENVIRONMENT)
        if likeliest > last:
            return CulpritResult(found, outcome=CulpritOutcome.FLAKE)
        if _failed_after_a_pass(search.results, likeliest):
            if search.commits[likeliest].number is None:
                return CulpritResult(found, named=likeliest, outcome=CulpritOutcome.PUSHED)
            return CulpritResult(found, named=likeliest, outcome=None if reverts else CulpritOutcome.NAMED)
    if search.runs >= most:
        return CulpritResult(found, outcome=CulpritOutcome.UNCERTAIN)
    return CulpritResult(found, test=likeliest if found[likeliest] >= SURE else _most_informative(last, found))


def _named(search: CulpritRecord, found: tuple[float, ...], *, most: int, reverts: bool) -> CulpritResult:
    """Return what else to test before IMQ reverts a culprit that is named."""
    assert search.named is not None
    place = search.named if reverts and search.runs < most else None
    wanted = None if place is None else _to_agree(search.results, place)
    if place is None or (wanted is None and found[place] >= SURE_TO_REVERT):
        agreed = place is not None
        return CulpritResult(found, named=search.named, outcome=CulpritOutcome.NAMED, agreed=agreed)
    return CulpritResult(found, named=place, test=place if wanted is None else wanted)


def posterior(last: int, results: Sequence[CommitResult]) -> tuple[float, ...]:
    """Return the probability of each hypothesis; `last` is the place of the tip."""
    weights = [ENVIRONMENT, *[(1 - ENVIRONMENT - NOTHING) / last] * last, NOTHING]
    for each in results:
        for culprit in range(last + 2):
            fails = _fails(culprit, each.place, last, on_base=each.on_base)
            weights[culprit] *= 1 - fails if each.passed else fails
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def _fails(culprit: int, place: int, last: int, *, on_base: bool) -> float:
    """Return the chance that the check fails on the commit at a place, if the fault came with `culprit`."""
    if culprit > last:
        return BASE_FLAKE if on_base else FLAKE
    return 1 - MISS if place >= culprit else FLAKE


def _failed_after_a_pass(results: Sequence[CommitResult], place: int) -> bool:
    """Whether the fault was seen again after a commit without it had passed: the environment may have recovered."""
    tests = [each for each in results if not each.on_base]
    passed = next((n for n, each in enumerate(tests) if each.passed and each.place < place), len(tests))
    return any(not each.passed and each.place >= place for each in tests[passed:])


def _to_agree(results: Sequence[CommitResult], place: int) -> int | None:
    """Return the place to test before two independent runs agree; None if they do.

    Two have to pass just before the culprit, and two to fail on it, alternately: neither one flake nor an environment
    that recovers gives such results.
    """
    tests = [each for each in results if not each.on_base]
    passes = [n for n, each in enumerate(tests) if each.passed and each.place == place - 1]
    fails = [n for n, each in enumerate(tests) if not each.passed and each.place == place]
    if len(passes) < 2:
        return place - 1
    if len([n for n in fails if n > passes[0]]) < 2:
        return place
    return place - 1 if passes[-1] < fails[0] else None


def _most_informative(last: int, found: Sequence[float]) -> int:
    """Return the place whose test is expected to leave the least entropy."""
    return min(range(last + 1), key=lambda place: (round(_expected_entropy(place, last, found), 9), place))


def _expected_entropy(place: int, last: int, found: Sequence[float]) -> float:
    fails = [chance * _fails(culprit, place, last, on_base=False) for culprit, chance in enumerate(found)]
    passes = [chance - failing for chance, failing in zip(found, fails, strict=True)]
    return sum(_entropy(each) for each in (fails, passes))


def _entropy(weights: Sequence[float]) -> float:
    """Return the entropy in bits, times the sum of the weights."""
    total = sum(weights)
    return -sum(each * log2(each / total) for each in weights if each > 0)
