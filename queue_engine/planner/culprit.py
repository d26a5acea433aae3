"""Choose what a search for the culprit tests next, and when it knows enough: a bisection that expects flakes. Pure.

How often the check flakes is what the ledger of flakes has for it; the search's own results add to that.

The commits are in order: the last one that passed on the base, then each that followed, to the tip that fails. Every
hypothesis has a probability. The fault came with the commit at a place; or, at place 0, it is in the environment, so
that all commits fail now; or nothing is broken. Each result counts by its likelihood. The next test is the one that is
expected to leave the least doubt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2

from queue_engine.domain.culprit import CommitResult, CulpritOutcome, CulpritRecord
from queue_engine.domain.policy import flake_rate

MISS, SELDOM = 0.03, 0.35
"""The chance that a job passes on a commit with the fault; the second for a fault that shows only now and then.

No history has it, as IMQ counts flakes on good trees alone. Before a revert the results have to bear both.
"""
BASE_FLAKE = 0.3
"""The chance that the base's own run fails although nothing is broken: such a failure is why there is a search."""
ENVIRONMENT, NOTHING = 0.1, 0.1
"""The chances before any result."""
SURE = 0.94
"""The probability from which IMQ names a culprit, or a search ends without one."""
SURE_TO_KEEP, SURE_TO_REVERT = 0.97, 0.985
"""Those from which the name stands without another test, and from which IMQ may revert."""
_MORE, _TO_AGREE = 6, 10


@dataclass(frozen=True, slots=True)
class CulpritResult:
    """What is known, and what to do: test a place, or end with an outcome."""

    probabilities: tuple[float, ...]
    named: int | None = None
    test: int | None = None
    outcome: CulpritOutcome | None = None
    agreed: bool = False
    """Whether independent runs agree on the culprit, so that IMQ may revert it by itself."""

    @property
    def probability(self) -> float:
        """That of the culprit, or of the most probable hypothesis."""
        return max(self.probabilities) if self.named is None else self.probabilities[self.named]


def judge_culprit(search: CulpritRecord, *, reverts: bool) -> CulpritResult:
    """Judge the results, also after a culprit is named: until that is sure, or with `reverts` until runs agree.

    One that the results contradict is named no longer, and the search continues.
    """
    last = len(search.commits) - 1
    found = posterior(last, search.results, search.history)
    likeliest = max(range(len(found)), key=found.__getitem__)
    most = 2 * ceil(log2(last + 2)) + _MORE
    if search.named == likeliest:
        return _named(search, found, most=most + _TO_AGREE, reverts=reverts)
    if found[likeliest] >= SURE:
        if likeliest == 0:
            return CulpritResult(found, outcome=CulpritOutcome.ENVIRONMENT)
        if likeliest > last:
            return CulpritResult(found, outcome=CulpritOutcome.FLAKE)
        if _failed_after_a_pass(search.results, likeliest):
            return CulpritResult(found, named=likeliest)
    if search.runs >= most:
        return CulpritResult(found, outcome=CulpritOutcome.UNCERTAIN)
    if found[likeliest] >= SURE:
        return CulpritResult(found, test=likeliest)
    if search.results[-1].on_base and search.results[-1].passed:
        # One green rerun leaves the tip about as likely broken as not; with a second one nothing is.
        return CulpritResult(found, test=last)
    return CulpritResult(found, test=_most_informative(last, found, flake_rate(*search.history)))


def _named(search: CulpritRecord, found: tuple[float, ...], *, most: int, reverts: bool) -> CulpritResult:
    """Return what else to test, since a named culprit may be the wrong one; before a revert a fault may show seldom."""
    assert search.named is not None
    place, last = search.named, len(search.commits) - 1
    if search.commits[place].number is None:
        return CulpritResult(found, named=place, outcome=CulpritOutcome.PUSHED)
    # Where the base's own rerun has passed, the base is green: a revert is left to people.
    reverts = reverts and not any(each.on_base and each.passed for each in search.results)
    if search.runs >= most or (not reverts and found[place] >= SURE_TO_KEEP):
        return CulpritResult(found, named=place, outcome=CulpritOutcome.NAMED)
    if not reverts:
        return CulpritResult(found, named=place, test=_most_informative(last, found, flake_rate(*search.history)))
    test = _to_agree(search.results, place)
    if test is None:
        doubtful = posterior(last, search.results, search.history, SELDOM)
        if min(found[place], doubtful[place]) >= SURE_TO_REVERT:
            return CulpritResult(found, named=place, outcome=CulpritOutcome.NAMED, agreed=True)
        test = place - 1 if sum(doubtful[:place]) >= sum(doubtful[place + 1 :]) else place
    return CulpritResult(found, named=place, test=test)


def posterior(
    last: int, results: Sequence[CommitResult], history: tuple[int, int] = (0, 0), miss: float = MISS
) -> tuple[float, ...]:
    """Return the probability of each hypothesis; `last` is the place of the tip, `history` as in `CulpritRecord`."""
    weights = [ENVIRONMENT, *[(1 - ENVIRONMENT - NOTHING) / last] * last, NOTHING]
    for culprit in range(last + 2):
        failures, runs = history
        for each in results:
            if culprit <= min(each.place, last):
                fails = 1 - miss
            elif each.on_base and culprit > last:
                fails = max(BASE_FLAKE, flake_rate(failures, runs))
            else:
                # Each result is history, too: of a check without any, a second flake is no surprise.
                fails = flake_rate(failures, runs)
                failures, runs = failures + (not each.passed), runs + 1
            weights[culprit] *= 1 - fails if each.passed else fails
    total = sum(weights)
    return tuple(weight / total for weight in weights)


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


def _most_informative(last: int, found: Sequence[float], flakes: float) -> int:
    """Return the place whose test is expected to leave the least entropy."""
    return min(range(last + 1), key=lambda place: (round(_expected_entropy(place, last, found, flakes), 9), place))


def _expected_entropy(place: int, last: int, found: Sequence[float], flakes: float) -> float:
    fails = [chance * (1 - MISS if culprit <= min(place, last) else flakes) for culprit, chance in enumerate(found)]
    passes = [chance - failing for chance, failing in zip(found, fails, strict=True)]
    return sum(_entropy(each) for each in (fails, passes))


def _entropy(weights: Sequence[float]) -> float:
    """Return the entropy in bits, times the sum of the weights."""
    total = sum(weights)
    return -sum(each * log2(each / total) for each in weights if each > 0)
