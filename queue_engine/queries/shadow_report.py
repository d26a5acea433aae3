"""The report of shadow mode: what IMQ would have done, beside what happened.

Each pull request is judged alone, on its base branch as it was. So the report does not add up waits in a queue, and
instants after an update are predictions.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from queue_engine.domain.model import Repository
from queue_engine.domain.shadow_pull import BaseState, ShadowOutcome, ShadowPull, ShadowRejection
from queue_engine.store import Transaction


@dataclass(frozen=True, slots=True)
class ShadowFigures:
    """Counts and medians over the pull requests of a report. A median is None without a pull request."""

    labeled: int
    """Pull requests whose trigger label IMQ judged."""
    outcomes: dict[str, int]
    """What IMQ would have done with these, by outcome."""
    merges: int
    """Merges by others."""
    agreed: int
    """Merges that IMQ would have made, too: the same head, on the same base."""
    differences: dict[str, int]
    """The other merges by how IMQ would have acted; one merge may differ in several ways."""
    red_bases: int
    """Merges after which a check failed on the base, and had not failed there before, as far as IMQ knows."""
    label_to_merge: timedelta | None
    """From the label until somebody merged."""
    approval_to_merge: timedelta | None
    """From the last approval until somebody merged."""
    label_to_decision: timedelta | None
    """From the label until IMQ would have merged, where it needed no update of the branch."""


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """The pull requests of repositories in shadow mode since an instant, the earliest merge or decision first."""

    since: datetime
    repositories: tuple[Repository, ...]
    """Those in shadow mode now."""
    pulls: tuple[ShadowPull, ...]
    figures: ShadowFigures

    @property
    def red_bases(self) -> tuple[tuple[ShadowPull, datetime | None], ...]:
        """Merges that made their base red, the earliest first, each with when its checks passed again."""
        red = (each for each in self.pulls if each.landing is not None and each.landing.made_red)
        return tuple((each, self._green_after(each)) for each in red)

    def _green_after(self, red: ShadowPull) -> datetime | None:
        branch = (red.repository.id, red.base_branch)
        assert red.landing is not None
        later = (
            each.landing.at
            for each in self.pulls
            if (each.repository.id, each.base_branch) == branch
            and each.landing is not None
            and each.landing.base is BaseState.GREEN
            and each.landing.at > red.landing.at
        )
        return min(later, default=None)

    @property
    def waits(self) -> tuple[timedelta, ...]:
        """How long merges that IMQ would have made in the same way came after the instant of IMQ's own."""
        return tuple(
            each.landing.at - each.decision.at
            for each in self.pulls
            if each.landing is not None
            and not each.landing.differences
            and each.decision is not None
            and each.decision.outcome is ShadowOutcome.MERGED
            and each.landing.at > each.decision.at
        )


async def load_shadow_report(tx: Transaction, since: datetime, *, repository: Repository | None = None) -> ShadowReport:
    """Load the report of one repository, or of all."""
    ids = None if repository is None else [repository.id]
    found = await tx.shadow.changed_since(since, repository_ids=ids)
    pulls = tuple(sorted((each for each in found if _happened(each) >= since), key=_happened))
    now_in_shadow = await tx.shadow.repositories()
    repositories = tuple(each for each in now_in_shadow if ids is None or each.id in ids)
    return ShadowReport(since, repositories, pulls, figures_of(pulls))


def figures_of(pulls: Sequence[ShadowPull]) -> ShadowFigures:
    """Count the decisions and merges of these pull requests."""
    decisions = [each.decision for each in pulls if each.decision is not None]
    landings = [each.landing for each in pulls if each.landing is not None]
    differences = Counter[ShadowRejection](one for each in landings for one in each.differences)
    return ShadowFigures(
        labeled=len(decisions),
        outcomes=dict(Counter(each.outcome.value for each in decisions)),
        merges=len(landings),
        agreed=sum(not each.differences for each in landings),
        differences={each.value: differences[each] for each in ShadowRejection if differences[each]},
        red_bases=sum(each.made_red for each in landings),
        label_to_merge=_median(
            each.landing.at - each.enqueued_at
            for each in pulls
            if each.landing is not None and each.enqueued_at is not None
        ),
        approval_to_merge=_median(each.at - each.approved_at for each in landings if each.approved_at is not None),
        label_to_decision=_median(
            each.decision.at - each.enqueued_at
            for each in pulls
            if each.decision is not None
            and each.decision.outcome is ShadowOutcome.MERGED
            and each.enqueued_at is not None
        ),
    )


def _happened(pull: ShadowPull) -> datetime:
    """Return when somebody merged the pull request, else when IMQ decided last."""
    if pull.landing is not None:
        return pull.landing.at
    assert pull.decision is not None, "a pull request is stored for a decision or a merge"
    return pull.decision.at


def _median(durations: Iterable[timedelta]) -> timedelta | None:
    # Imported when needed: it takes 200 kB, and a process at rest computes none.
    from statistics import median

    seconds = [each.total_seconds() for each in durations]
    return timedelta(seconds=median(seconds)) if seconds else None
