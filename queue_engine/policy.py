"""The figures and choices that decisions depend on, as plain data."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Policy:
    """One installation's choices; every wait has its limit here (P5)."""

    trigger_label: str = "merge-queue"
    """GitHub tells labels apart without regard to case, and so does IMQ."""
    max_depth: int = 20
    """Entries per queue; further pull requests are held until a place frees. 0 = no limit."""
    check_timeout: timedelta = timedelta(hours=2)
    """How long required checks may take, counted from the moment that the head was bound."""
    first_report: timedelta = timedelta(minutes=10)
    """Where nothing is required: how long the first report of any check may take."""
    update_timeout: timedelta = timedelta(minutes=10)
    """How long GitHub may take to update a branch."""
    trouble_timeout: timedelta = timedelta(hours=1)
    """How long GitHub's own faults may hold up an entry."""
    turn_timeout: timedelta = timedelta(hours=12)
    """How long the front may start over and over because its base keeps moving."""
    doubt_looks: int = 5
    """How often a merge whose answer was lost is looked for again when the base has moved."""
    merge_refusals: int = 3
    """Merge calls refused in a row, with nothing else wrong, before the refusal is taken as final."""
    settle: timedelta = timedelta(seconds=10)
    """Where nothing is required: how long after the last report later workflows may still start."""
    ask_again: timedelta = timedelta(seconds=2)
    """First wait before GitHub is asked again for something that it computes in the background."""
    update_look: timedelta = timedelta(seconds=10)
    """First wait before an update whose webhook has not come is looked for; doubles."""
    check_look: timedelta = timedelta(minutes=10)
    """First wait before checks whose webhooks have not come are looked for; doubles, so that long CI costs little."""
    courtesy: timedelta = timedelta(seconds=2)
    """How long a passing state may wait to be told, so that quick changes become one edit."""

    def triggered(self, labels: Iterable[str]) -> bool:
        """Whether the trigger label is among these."""
        return self.trigger_label.casefold() in {label.casefold() for label in labels}


def doubling(first: timedelta, times: int, ceiling: timedelta) -> timedelta:
    """`first` doubled `times` times, at most `ceiling`."""
    return min(ceiling, first * (1 << min(times, 20)))
