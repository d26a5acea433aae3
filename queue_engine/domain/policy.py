"""Limits and choices on which decisions depend, as plain data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from queue_engine.core.timing.backoff import Backoff
from queue_engine.domain.facts import MergeMethod, Permission, RequiredCheck
from queue_engine.domain.train_policy import Candidates, TrainForks, TrainPolicy, TrainSplit

# No jitter in the polls of an entry: each counts from an instant of its own, and a check that takes exactly as long as
# the first wait must not be polled just before it ends. Fifteen minutes, because checks often take ten, or have a limit
# of ten: a check that ends by then costs no poll.
_ASK_AGAIN = Backoff(base=timedelta(seconds=2), maximum=timedelta(minutes=10), jitter=0)
_UPDATE_POLL = Backoff(base=timedelta(seconds=10), maximum=timedelta(minutes=10), jitter=0)
_CHECK_POLL = Backoff(base=timedelta(minutes=15), maximum=timedelta(days=1), jitter=0)


class PushPolicy(StrEnum):
    """How IMQ treats an entry after a push to its pull request."""

    DEQUEUE = "dequeue"
    REQUEUE = "requeue"
    """The entry moves to the end, with the new head, if the pusher may queue."""


class NotReadyPushPolicy(StrEnum):
    """How IMQ treats a push to a pull request that waits outside the queue until it is ready."""

    BIND = "bind"
    """The new head is consented to, if the pusher may queue."""
    DEQUEUE = "dequeue"
    """Any push ends the wait."""


class NotReadyPolicy(StrEnum):
    """How IMQ answers a request to queue a pull request that lacks what may still come by itself."""

    WAIT = "wait"
    """The pull request waits outside the queue, and joins by itself when it is ready."""
    REFUSE = "refuse"


class GithubMergePolicy(StrEnum):
    """How IMQ treats GitHub's auto-merge of a queued pull request, which merges past the queue."""

    DISABLE = "disable"
    REFUSE = "refuse"
    """A pull request with auto-merge is not queued, and an entry that gets it leaves."""
    IGNORE = "ignore"


class CommentPolicy(StrEnum):
    """How much IMQ comments on a pull request."""

    ALL = "all"
    OUTCOMES = "outcomes"
    """Only outcomes: landed, left, refused, held, paused, and answers to commands."""
    NONE = "none"


class Mode(StrEnum):
    """Whether IMQ acts in a repository."""

    QUEUE = "queue"
    """IMQ queues and merges."""
    SHADOW = "shadow"
    """IMQ judges what it would do, and writes nothing on GitHub."""


class SharedConfig(StrEnum):
    """The effect that the operator allows to an organisation's shared configuration."""

    OFF = "off"
    """IMQ does not read it."""
    TIGHTEN = "tighten"
    """It may only make rules stricter than the operator's."""
    TRUST = "trust"
    """It counts like a repository's own file."""


@dataclass(frozen=True, slots=True)
class PriorityLabel:
    """A label that gives a priority. A `hotfix` comes before other entries; `preempts` stops the front's run for it.

    `fixes_base` marks fixes of a red base: only these land while the base is red.
    """

    label: str
    priority: int
    hotfix: bool = False
    preempts: bool = False
    fixes_base: bool = False


FIX = PriorityLabel("merge-queue-fix", 0, fixes_base=True)
"""The default label of a fix: each queue can land the fix of its red base."""


@dataclass(frozen=True, slots=True)
class WeeklyFreeze:
    """A freeze that repeats every week: from `start` on these days (Monday 0) for as long as `lasts`."""

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
    """The choices for one base branch, by its operator and its repository; every wait has a limit (P5)."""

    trigger_labels: tuple[str, ...] = ("merge-queue",)
    """Each of these labels queues; IMQ names and sets the first. Case does not count, as on GitHub."""
    mode: Mode = Mode.QUEUE
    """As this branch's file says. The default branch's file decides for the repository: `Policies.mode`."""
    served: bool = True
    """Whether this base branch has a queue at all."""
    fault: str | None = None
    """The error in the repository's configuration, with its line; its queues hold until somebody fixes it."""
    not_followed: tuple[str, ...] = ()
    """The parts of the organisation's shared configuration that do not count here, in sentences for people."""
    max_depth: int = 20
    """For how many entries a queue has room; further ones wait for room. 0 = no limit."""
    may_queue: Permission = Permission.WRITE
    """The least permission on the repository that lets a person queue."""
    may_queue_too: frozenset[str] = frozenset()
    """Logins, casefolded, that may queue with any permission."""
    may_queue_teams: frozenset[str] = frozenset()
    """Teams of the owner, casefolded slugs, perhaps after the owner and a slash: their members may queue, too."""
    team_members: frozenset[str] = frozenset()
    """Logins, casefolded: the members of these teams, as far as IMQ can read them."""
    unread_teams: tuple[str, ...] = ()
    """Which of the teams IMQ cannot read, and why, in sentences for people."""
    blocking_labels: frozenset[str] = frozenset()
    """Casefolded. IMQ refuses a pull request with one of these, and dequeues an entry that gets one."""
    blocking_titles: tuple[str, ...] = ()
    """Regular expressions of RE2, which match in linear time: IMQ refuses titles in which one is found."""
    priorities: tuple[PriorityLabel, ...] = (FIX,)
    ageing: timedelta = timedelta(hours=1)
    """The head start of one point of priority: a point overtakes no entry that has waited for longer."""
    fair_share: bool = True
    """Whether entries of others come between the many entries of one author; False: by arrival alone."""
    share_waiting: int = 3
    """How many entries of one share keep their place by arrival."""
    agents: tuple[str, ...] = ()
    """Patterns of logins, casefolded, whose entries are one share with those of bots."""
    method: MergeMethod | None = None
    """None: the first that repository and rules allow, of merge, squash, rebase."""
    method_labels: Mapping[str, MergeMethod] = field(default_factory=dict)
    """Labels, casefolded, that override the method."""
    commit_title: str | None = None
    """A template; None leaves the title to GitHub."""
    commit_body: str | None = None
    delete_branch: bool = False
    """Whether IMQ deletes the head branch after landing, unless another open pull request is based on it."""
    required_checks: frozenset[RequiredCheck] = frozenset()
    """Required in addition to those of protection and rulesets."""
    queue_only_checks: frozenset[RequiredCheck] = frozenset()
    """Required of each candidate, and of no other head. A run of one that was skipped does not count."""
    testing_label: str = "merge-queue-testing"
    """The label that IMQ sets while it tests an entry, where there are queue-only checks."""
    ignored_checks: tuple[str, ...] = ()
    """Names, or patterns with `*`, of checks that never count where nothing requires them."""
    land_without_checks: bool = False
    """Whether a head without any check may land."""
    own_app: int | None = None
    """The id of IMQ's own App, if known: IMQ cannot wait for a check of its own."""
    check_timeout: timedelta | None = None
    """How long required checks may take, once the head is bound. None: by this repository's history."""
    fallback_check_timeout: timedelta = timedelta(hours=2)
    """The same while there is no history."""
    stall_timeout: timedelta = timedelta(days=1)
    """How much longer a check may take to start while nothing starts; GitHub cancels jobs that wait for a day."""
    check_reruns: int = 1
    """How often IMQ runs the failed checks of one head again before they count."""
    cancel_outdated: bool = True
    """Whether IMQ cancels workflow runs on a former update of its own."""
    untested_paths: tuple[str, ...] = ()
    """Wildcards: a base that moved only in files that match keeps the result of a run."""
    first_report: timedelta = timedelta(minutes=10)
    """Where nothing is required: how long the first report of any check may take."""
    update_timeout: timedelta = timedelta(minutes=10)
    """How long GitHub may take to update a branch, and to compute whether it can be merged."""
    hold_timeout: timedelta = timedelta(days=7)
    """How long a pull request may wait for room in a full queue, and for a red base to pass again."""
    train_candidates: Candidates = Candidates.OFF
    train_runs: int | None = 1
    train_size: int = 32
    train_first_report: timedelta = timedelta(minutes=5)
    train_split: TrainSplit = TrainSplit.BISECT
    train_forks: TrainForks = TrainForks.REVIEWED
    """These six are the fields of `trains`, stored while trains are off too: the rule of a branch may want them."""
    when_not_ready: NotReadyPolicy = NotReadyPolicy.WAIT
    ready_timeout: timedelta = timedelta(days=30)
    """How long a pull request may wait outside the queue until it is ready."""
    on_push: PushPolicy = PushPolicy.DEQUEUE
    on_waiting_push: NotReadyPushPolicy = NotReadyPushPolicy.BIND
    requeue_for: frozenset[str] = frozenset()
    """Logins of bots, casefolded, whose pushes to their own pull requests end no consent."""
    auto_merge: GithubMergePolicy = GithubMergePolicy.DISABLE
    freezes: tuple[WeeklyFreeze | FreezeWindow, ...] = ()
    freeze_exempt_labels: frozenset[str] = frozenset()
    """Casefolded: a pull request with one of these lands even in a freeze."""
    comments: CommentPolicy = CommentPolicy.ALL
    texts: Mapping[str, str] = field(default_factory=dict)
    """The repository's own texts in place of IMQ's: by kind of notice (`landed`) or reason (`conflict`)."""
    outage_timeout: timedelta = timedelta(hours=1)
    """How long GitHub's own failures may delay an entry."""
    run_timeout: timedelta = timedelta(hours=12)
    """How long a run may start over because its base keeps moving."""
    lost_merge_polls: int = 5
    """How often IMQ checks for a merge whose answer was lost, when the base has moved."""
    is_named: bool = False
    """Whether a rule in `branches` names this base branch, by more than wildcards."""
    pending_merge_timeout: timedelta = timedelta(hours=1)
    """How long GitHub may take for a merge in the background, which takes "up to a few minutes" (gh-stack)."""
    update_refusals: int = 3
    """How often IMQ retries an update that GitHub refused without a known reason: as long as reads lag."""
    merge_refusals: int = 3
    """How many merge calls GitHub has to refuse before a refusal is final."""
    permission_retry: timedelta = timedelta(hours=1)
    """How long IMQ waits at least before it retries without a missing permission: the lifetime of a token."""
    refusal_timeout: timedelta = timedelta(minutes=10)
    """How long IMQ retries a merge after a refusal that may be temporary, counted from the first refusal."""
    settle: timedelta = timedelta(seconds=10)
    """Where nothing is required: how long after the last report later workflows may still start."""
    later_workflows: timedelta = timedelta(minutes=1)
    """Where nothing is required: how long after the first report on a head its other workflows may take to start."""
    ask_again: Backoff = _ASK_AGAIN
    """The polls of a value that GitHub computes in the background."""
    update_poll: Backoff = _UPDATE_POLL
    """The polls of an update whose webhook has not come."""
    check_poll: Backoff = _CHECK_POLL
    """The polls of checks: late and ever rarer, because webhooks come sooner, and so that long CI costs little."""
    progress_edits: tuple[timedelta, ...] = (timedelta(minutes=20), timedelta(hours=1))
    """When IMQ edits the check run to show the reports of long checks, counted from when the head was bound.

    Once each, and only if a check has reported since: short checks cost no edit.
    """
    comment_debounce: timedelta = timedelta(seconds=2)
    """How long the announcement of a transient state may wait, so that quick changes become one edit."""
    test_edit: timedelta = timedelta(minutes=30)
    """How long after the begin of a test the comment says so, if the outcome has not come before (P7)."""

    @property
    def trains(self) -> TrainPolicy | None:
        """The choices about trains; None where IMQ tests one pull request after the other."""
        if self.train_candidates is Candidates.OFF:
            return None
        return TrainPolicy(
            self.train_candidates,
            self.train_runs,
            self.train_size,
            self.train_first_report,
            self.train_split,
            self.train_forks,
        )

    @property
    def trigger_label(self) -> str:
        """The label that IMQ names and sets."""
        return self.trigger_labels[0]

    @property
    def fix_labels(self) -> tuple[str, ...]:
        """The labels of changes that fix a red base."""
        return tuple(each.label for each in self.priorities if each.fixes_base)

    def has_trigger_label(self, labels: Iterable[str]) -> bool:
        """Return whether a trigger label is among these."""
        return has_label(labels, self.trigger_labels)


def has_label(labels: Iterable[str], wanted: Iterable[str]) -> bool:
    """Return whether one of the wanted labels is among these, in any case."""
    folded = {label.casefold() for label in wanted}
    return any(label.casefold() in folded for label in labels)
