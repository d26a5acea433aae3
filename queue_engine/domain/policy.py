"""Limits and choices on which decisions depend, as plain data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from queue_engine.core.timing.backoff import Backoff
from queue_engine.domain.facts import MergeMethod, Permission, RequiredCheck

# No jitter in the monitors of an entry: each counts from an instant of its own, and a check that takes exactly as long
# as the first wait must not be looked at just before it ends. Fifteen minutes, because checks often take or are given
# ten, and one that ends on its own then costs no look.
_ASK_AGAIN = Backoff(base=timedelta(seconds=2), maximum=timedelta(minutes=10), jitter=0)
_UPDATE_LOOK = Backoff(base=timedelta(seconds=10), maximum=timedelta(minutes=10), jitter=0)
_CHECK_LOOK = Backoff(base=timedelta(minutes=15), maximum=timedelta(days=1), jitter=0)


class PushPolicy(StrEnum):
    """What becomes of an entry to which somebody pushed."""

    DEQUEUE = "dequeue"
    REQUEUE = "requeue"
    """It joins again at the end, with the new head, if the pusher may queue."""


class CommentPolicy(StrEnum):
    """How much IMQ says on a pull request."""

    ALL = "all"
    OUTCOMES = "outcomes"
    """Only what became of it: landed, left, refused, held, paused, and answers to commands."""
    NONE = "none"


class SharedConfig(StrEnum):
    """What the operator lets an organisation's shared configuration do."""

    OFF = "off"
    """It is not read."""
    TIGHTEN = "tighten"
    """It may only make rules stricter than the operator's."""
    TRUST = "trust"
    """It counts as a repository's own file does."""


@dataclass(frozen=True, slots=True)
class PriorityLabel:
    """A label that gives a priority. `first` goes before every other; `interrupts` even takes the turn of who has it.

    `fixes_base` marks what mends a red base: it alone is let through while the base is red.
    """

    label: str
    priority: int
    hotfix: bool = False
    preempts: bool = False
    fixes_base: bool = False


FIX = PriorityLabel("merge-queue-fix", 0, fixes_base=True)
"""The label of a fix where the configuration names none: a red base can be mended through its queue anywhere."""


@dataclass(frozen=True, slots=True)
class WeeklyFreeze:
    """A freeze that comes again every week: from `start` on these days (Monday 0) for as long as `lasts`."""

    days: frozenset[int]
    start: time
    lasts: timedelta
    zone: ZoneInfo
    why: str = ""


@dataclass(frozen=True, slots=True)
class FreezeWindow:
    """A freeze from one instant to another."""

    start: datetime
    end: datetime
    why: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """The choices for one base branch: the operator's, and those of its repository; every wait has its limit (P5)."""

    trigger_labels: tuple[str, ...] = ("merge-queue",)
    """Any of them queues; the first is the one that IMQ names and sets. GitHub tells labels apart without regard to
    case, and so does IMQ."""
    served: bool = True
    """Whether this base branch has a queue at all."""
    fault: str | None = None
    """What is wrong with the repository's configuration, with its line; its queues hold until that is fixed."""
    not_followed: tuple[str, ...] = ()
    """What of the organisation's shared configuration does not count here, in sentences for people."""
    max_depth: int = 20
    """For how many entries a queue has room; further ones wait for room. 0 = no limit."""
    may_queue: Permission = Permission.WRITE
    """The least right on the repository that lets a person queue."""
    may_queue_too: frozenset[str] = frozenset()
    """Logins, casefolded, that may queue whatever their right."""
    blocking_labels: frozenset[str] = frozenset()
    """Casefolded. A pull request that carries one of these is refused, and leaves."""
    blocking_titles: tuple[str, ...] = ()
    """Regular expressions of RE2, which match in linear time: titles in which one is found are refused."""
    priorities: tuple[PriorityLabel, ...] = (FIX,)
    ageing: timedelta = timedelta(hours=1)
    """The head start of one point of priority: who waits longer than that is not overtaken by it any more."""
    method: MergeMethod | None = None
    """None: the first that repository and rules allow, of merge, squash, rebase."""
    method_labels: Mapping[str, MergeMethod] = field(default_factory=dict)
    """Labels, casefolded, that override the method."""
    commit_title: str | None = None
    """A template; None leaves the words to GitHub."""
    commit_body: str | None = None
    delete_branch: bool = False
    """After landing, unless another open pull request is based on it."""
    required_checks: frozenset[RequiredCheck] = frozenset()
    """Demanded beside what protection and rulesets demand."""
    ignored_checks: tuple[str, ...] = ()
    """Names, or patterns with `*`, that never count where nothing requires them."""
    land_without_checks: bool = False
    """Whether what nothing reports on may land."""
    own_app: int | None = None
    """The number of the App that IMQ is, if it is known: no check of its own can be waited for."""
    check_timeout: timedelta | None = None
    """How long required checks may take, once the head is bound. None: by this repository's history."""
    fallback_check_timeout: timedelta = timedelta(hours=2)
    """The same while there is no history."""
    stall_timeout: timedelta = timedelta(days=1)
    """How much longer a check may take to start while nothing starts; GitHub cancels jobs that wait for a day."""
    check_reruns: int = 1
    """How often the failed checks of one head are run again before they count."""
    cancel_outdated: bool = True
    """Whether runs of GitHub Actions on an update of IMQ's are cancelled once that update is left behind."""
    first_report: timedelta = timedelta(minutes=10)
    """Where nothing is required: how long the first report of any check may take."""
    update_timeout: timedelta = timedelta(minutes=10)
    """How long GitHub may take to update a branch, and to work out whether it can be merged."""
    hold_timeout: timedelta = timedelta(days=7)
    """How long a pull request may wait for room in a full queue, and for a red base to be green again."""
    on_push: PushPolicy = PushPolicy.DEQUEUE
    freezes: tuple[WeeklyFreeze | FreezeWindow, ...] = ()
    freeze_exempt_labels: frozenset[str] = frozenset()
    """Casefolded: what carries one of these lands in a freeze all the same."""
    comments: CommentPolicy = CommentPolicy.ALL
    texts: Mapping[str, str] = field(default_factory=dict)
    """Texts of the repository's own, in the place of IMQ's: by kind of notice (`landed`) or reason (`conflict`)."""
    trouble_timeout: timedelta = timedelta(hours=1)
    """How long GitHub's own faults may hold up an entry."""
    turn_timeout: timedelta = timedelta(hours=12)
    """How long the front may start over and over because its base keeps moving."""
    doubt_looks: int = 5
    """How often a merge whose answer was lost is looked for again when the base has moved."""
    update_refusals: int = 3
    """How often IMQ asks again after an update that GitHub refused without a known reason: as long as reads lag."""
    merge_refusals: int = 3
    """Merge calls that GitHub must refuse at least before a refusal is final."""
    permission_look: timedelta = timedelta(hours=1)
    """How soon at least IMQ tries again what it lacked a permission for: as long as a token lives."""
    refusal_timeout: timedelta = timedelta(minutes=10)
    """How long a merge is asked for again after a refusal that may pass, counted from the first one."""
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
    comment_debounce: timedelta = timedelta(seconds=2)
    """How long a transient state may wait to be announced, so that quick changes become one edit."""

    @property
    def trigger_label(self) -> str:
        """The label that IMQ names and sets."""
        return self.trigger_labels[0]

    @property
    def fix_labels(self) -> tuple[str, ...]:
        """The labels of changes that fix a red base."""
        return tuple(each.label for each in self.priorities if each.fixes_base)

    def has_trigger_label(self, labels: Iterable[str]) -> bool:
        """Whether a trigger label is among these."""
        return has_label(labels, self.trigger_labels)


def has_label(labels: Iterable[str], wanted: Iterable[str]) -> bool:
    """Whether one of the wanted labels is among these."""
    folded = {label.casefold() for label in wanted}
    return any(label.casefold() in folded for label in labels)
