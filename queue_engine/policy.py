"""The figures and choices that decisions depend on, as plain data."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from queue_engine.core.backoff import Backoff

# No jitter in the monitors of an entry: each counts from an instant of its own, and a check that takes exactly as long
# as the first wait must not be looked at just before it ends.
_ASK_AGAIN = Backoff(base=timedelta(seconds=2), maximum=timedelta(minutes=10), jitter=0)
_UPDATE_LOOK = Backoff(base=timedelta(seconds=10), maximum=timedelta(minutes=10), jitter=0)
_CHECK_LOOK = Backoff(base=timedelta(minutes=10), maximum=timedelta(days=1), jitter=0)


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
    ask_again: Backoff = _ASK_AGAIN
    """The monitor of something that GitHub computes in the background."""
    update_look: Backoff = _UPDATE_LOOK
    """The monitor of an update whose webhook has not come."""
    check_look: Backoff = _CHECK_LOOK
    """The monitor of checks: webhooks tell sooner, so it looks late and ever less often, and long CI costs little."""
    progress_edits: tuple[timedelta, ...] = (timedelta(minutes=20), timedelta(hours=1))
    """When the check run is brought up to the reports of long checks, counted from the moment that the head was bound.
    Once each, and only if something has reported since: what ends sooner costs no edit."""
    courtesy: timedelta = timedelta(seconds=2)
    """How long a passing state may wait to be told, so that quick changes become one edit."""

    def triggered(self, labels: Iterable[str]) -> bool:
        """Whether the trigger label is among these."""
        return self.trigger_label.casefold() in {label.casefold() for label in labels}
