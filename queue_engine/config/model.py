"""The policy of a base branch, section by section; and the keys of `.github/imq.yml`, each declared once.

A key has its type, its default, its text, how the file writes it, and how far an organisation's shared configuration
may change it. Schema, documents, error messages and the values that a file sets are made from it. A file without a key
keeps the value of the operator or of the level above.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from queue_engine.config import keys, kinds
from queue_engine.config.keys import Shared, key, keys_of, section
from queue_engine.core.timing.backoff import Backoff
from queue_engine.domain.facts import MergeMethod, Permission, RequiredCheck
from queue_engine.domain.policy import (
    FIX,
    MOST_MEMBERS,
    Candidates,
    CommentPolicy,
    CulpritPolicy,
    FreezeWindow,
    GithubMergePolicy,
    Mode,
    NotReadyPolicy,
    NotReadyPushPolicy,
    PriorityLabel,
    PushPolicy,
    RerunLimit,
    RunSlots,
    TrainForks,
    TrainSplit,
    WeeklyFreeze,
    has_label,
)

# No jitter in the polls of an entry: each counts from an instant of its own, and a check that takes exactly as long as
# the first wait must not be polled just before it ends. Fifteen minutes, because checks often take ten, or have a limit
# of ten: a check that ends by then costs no poll.
_ASK_AGAIN = Backoff(base=timedelta(seconds=2), maximum=timedelta(minutes=10), jitter=0)
_UPDATE_POLL = Backoff(base=timedelta(seconds=10), maximum=timedelta(minutes=10), jitter=0)
_CHECK_POLL = Backoff(base=timedelta(minutes=15), maximum=timedelta(days=1), jitter=0)

_BRANCHES = "IMQ would push branches, and run changes with secrets, in repositories that did not ask for it"
_LATER = "longer waits would delay all queues"
_ORDER = "a member would decide whose pull request goes first, and which one lands on a red base"
_HISTORY = "a member's text would be in the history of all repositories"
_CI = "a member would decide how much CI runs"
_LABELS = "a member would have IMQ set a label that means something else elsewhere"
_UNQUEUED = "a head that was not queued would land"
_UNTESTED = "changes would land on a base that no check has tested"

_SHORTER = Shared(keys.lower, "a shorter one", _LATER)
_NO_ORDER = Shared(keys.operators, "nothing", _ORDER)


@dataclass(frozen=True, slots=True)
class PushRules:
    """What IMQ does after somebody pushes to a pull request."""

    queued: PushPolicy = key(
        PushPolicy.DEQUEUE,
        kinds.one_of(*PushPolicy),
        Shared(keys.rather(PushPolicy.DEQUEUE), "`dequeue`", _UNQUEUED),
        "Whether a push dequeues a queued pull request, or queues its new head at the end.",
    )
    waiting: NotReadyPushPolicy = key(
        NotReadyPushPolicy.BIND,
        kinds.one_of(*NotReadyPushPolicy),
        Shared(keys.rather(NotReadyPushPolicy.DEQUEUE), "`dequeue`", "a head that no one labelled would land"),
        "Whether a pull request that is not ready yet keeps waiting with a new head, if the pusher may queue.",
    )
    requeue_for: frozenset[str] = key(
        frozenset(),
        kinds.folded(kinds.Login),
        Shared(keys.common, "nothing", _UNQUEUED),
        "Bots, such as `dependabot[bot]`, whose pushes to their own pull requests never dequeue them.",
    )


@dataclass(frozen=True, slots=True)
class QueuePermissions:
    """Who may queue."""

    permission: Permission = key(
        Permission.WRITE,
        kinds.one_of(Permission.TRIAGE, Permission.WRITE, Permission.MAINTAIN, Permission.ADMIN),
        Shared(
            keys.rather(*reversed(Permission)),
            "a stronger permission, never one below write",
            "people would land changes who may not merge them",
        ),
        "The least permission on the repository that lets a person queue.",
    )
    people: frozenset[str] = key(
        frozenset(),
        kinds.folded(kinds.Login),
        Shared(keys.common, "nothing", "a member could name themselves, and land changes that they may not merge"),
        "Logins that may queue with any permission.",
    )
    teams: frozenset[str] = key(
        frozenset(),
        kinds.TEAMS,
        Shared(
            keys.common, "nothing", "a member could name a team of theirs, and land changes that they may not merge"
        ),
        "Teams of the organisation whose members may queue with any permission: `release-managers`.",
    )


@dataclass(frozen=True, slots=True)
class BlockRules:
    """What keeps a pull request out of the queue; a label or title also dequeues an entry."""

    labels: frozenset[str] = key(
        frozenset(),
        kinds.folded(kinds.Label),
        Shared(keys.added, "any labels"),
        "A pull request with one of these labels waits outside the queue.",
    )
    titles: tuple[str, ...] = key(
        (),
        kinds.listed(kinds.TitlePattern),
        Shared(keys.added, "any patterns"),
        "Regular expressions (RE2): a pull request whose title matches waits outside the queue. `(?i)` ignores case.",
    )
    authors: frozenset[str] = key(
        frozenset(),
        kinds.folded(kinds.Login),
        Shared(keys.added, "any authors"),
        "Pull requests of these authors, such as `dependabot[bot]`, are refused.",
    )
    files: tuple[str, ...] = key(
        (),
        kinds.listed(kinds.Wildcards),
        Shared(keys.added, "any files"),
        "Files, or wildcards: a pull request that changes one of them waits outside the queue.",
    )


@dataclass(frozen=True, slots=True)
class EntryRules:
    """What a pull request needs to join its queue, beside the rules of GitHub."""

    approvals: int = key(
        0,
        kinds.number(0, 10),
        Shared(keys.longer, "a higher number", "changes would land that fewer people approved"),
        "How many people with write access have to approve, if GitHub's rules require fewer.",
    )
    labels: frozenset[str] = key(
        frozenset(),
        kinds.folded(kinds.Label),
        Shared(keys.added, "any labels"),
        "Labels that a pull request needs, all of them, beside a trigger label.",
    )
    authors: frozenset[str] = key(
        frozenset(),
        kinds.folded(kinds.Login),
        Shared(keys.narrowed, "any authors, or some of the operator's", "pull requests of others would land"),
        "The only authors whose pull requests are queued; empty is all authors.",
    )
    files: tuple[str, ...] = key(
        (),
        kinds.listed(kinds.Wildcards),
        Shared(keys.narrowed, "any files, or some of the operator's", "changes of other files would land"),
        "Files, or wildcards: a pull request that changes any others waits outside the queue; empty is all files.",
    )
    reviews_done: bool = key(
        False,
        kinds.TRUTH,
        Shared(keys.longer, "`true`", "changes would land whose reviewers have not answered"),
        "Whether a pull request waits outside the queue while GitHub shows a requested review.",
    )


@dataclass(frozen=True, slots=True)
class PriorityRules:
    """The order of pull requests."""

    labels: tuple[PriorityLabel, ...] = key(
        (FIX,),
        kinds.PRIORITIES,
        _NO_ORDER,
        "By label a number, or a section of `priority`, `hotfix`, `preempts`, `fixes_base`. "
        "Where no label has `fixes_base`, `merge-queue-fix` is one.",
    )
    ageing: timedelta = key(
        timedelta(hours=1), kinds.TIMEOUT, _NO_ORDER, "By how much waiting time one point of priority may overtake."
    )


@dataclass(frozen=True, slots=True)
class FairShareRule:
    """How pull requests of others come between the many of one author."""

    enabled: bool = key(
        True, kinds.TRUTH, _NO_ORDER, "Whether they do; `fair_share: off` is short for `enabled: false`."
    )
    waiting: int = key(
        3, kinds.number(1, 100), _NO_ORDER, "How many pull requests of one author keep their place by arrival."
    )
    agents: tuple[str, ...] = key(
        (),
        kinds.AGENTS,
        _NO_ORDER,
        "Logins, or wildcards, of agents: they share one place with all bots, whose logins end in `[bot]`.",
    )


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How a pull request lands."""

    method: MergeMethod | None = key(
        None,
        kinds.METHOD,
        Shared(keys.free, "any method that the rules allow"),
        "`auto` is the first that repository and rules allow of merge, squash, rebase.",
    )
    method_labels: Mapping[str, MergeMethod] = key(
        {},
        kinds.METHODS,
        Shared(keys.free, "any labels and methods that the rules allow"),
        "Labels that override the method, each with its method.",
    )
    title: str | None = key(
        None,
        kinds.Kind(kinds.TitleTemplate),
        Shared(keys.operators, "nothing", _HISTORY),
        "Template of the commit's title; without it GitHub's own. Not for rebase.",
    )
    body: str | None = key(
        None,
        kinds.Kind(kinds.BodyTemplate),
        Shared(keys.operators, "nothing", _HISTORY),
        "Template of the commit's body; without it GitHub's own. Not for rebase.",
    )
    queued_by: bool = key(
        False,
        kinds.TRUTH,
        Shared(keys.free, "either"),
        "End the commit's body with `Queued-by:` and the login of the person who queued it. Without `body` the title "
        "precedes it. Not for rebase.",
    )
    green_branch: str | None = key(
        None,
        kinds.Kind(kinds.GreenBranch),
        Shared(keys.operators, "nothing", _BRANCHES),
        "A branch, such as `imq-green/{base}`, that IMQ moves to each commit that it proved; absent is off.",
    )
    tested_refs: frozenset[RequiredCheck] = key(
        frozenset(),
        kinds.CHECKS,
        Shared(keys.operators, "nothing", _BRANCHES),
        "Checks, as names or `name` with `app`. Before it lands a tree on which all of them passed, IMQ creates a ref "
        "that says so. Workflows need not test the tree again. Absent is off.",
    )
    notes: bool = key(
        False,
        kinds.TRUTH,
        Shared(keys.operators, "nothing", _BRANCHES),
        "Write the passport of each landing as a note into `refs/notes/imq`, within an hour.",
    )
    delete_branch: bool = key(
        False,
        kinds.TRUTH,
        Shared(keys.both, "`false`", "IMQ would delete branches whose owners did not ask for it"),
        "Delete the branch after landing, unless another open pull request is based on it.",
    )


@dataclass(frozen=True, slots=True)
class CheckRules:
    """Which checks have to pass, and how long they may take."""

    required: frozenset[RequiredCheck] = key(
        frozenset(),
        kinds.CHECKS,
        Shared(keys.added, "any checks"),
        "Required beside the checks of branch protection and rulesets: names, or `name` with `app`.",
    )
    queue_only: frozenset[RequiredCheck] = key(
        frozenset(),
        kinds.CHECKS,
        Shared(keys.added, "any checks"),
        "Required checks that run in the queue alone, on each candidate: names, or `name` with `app`. "
        "Their jobs may be skipped elsewhere.",
    )
    testing_label: str = key(
        "merge-queue-testing",
        kinds.Kind(kinds.Label),
        Shared(keys.operators, "nothing", _LABELS),
        "The label that IMQ sets while it tests a pull request, and that starts the `queue_only` checks.",
    )
    ignored: tuple[str, ...] = key(
        (),
        kinds.listed(kinds.Wildcards),
        Shared(keys.common, "nothing", "failing checks would not count"),
        "Names, or wildcards, of checks that do not count unless a rule requires them.",
    )
    land_without: bool = key(
        False,
        kinds.TRUTH,
        Shared(keys.both, "`false`", "changes would land that no check has tested"),
        "Whether a pull request may land on which no check reports.",
    )
    timeout: timedelta | None = key(
        None,
        kinds.AUTO_TIMEOUT,
        Shared(keys.check_timeout, "a shorter one than `fallback_timeout`", _LATER),
        "How long a required check may take at most. `auto`: three times its usual time, a day at most.",
    )
    fallback_timeout: timedelta = key(
        timedelta(hours=2),
        kinds.TIMEOUT,
        _SHORTER,
        "The same for a check that IMQ has not measured on this branch.",
    )
    reruns: int = key(
        1,
        kinds.number(0, 5),
        Shared(keys.lower, "a lower number", "a failed check would get more tries to pass"),
        "How often IMQ reruns failed jobs of GitHub Actions before they count. "
        "It cannot rerun another App's check: if one of those fails too, IMQ reruns nothing.",
    )
    flaky: tuple[RerunLimit, ...] = key(
        (),
        kinds.FLAKY,
        Shared(keys.operators, "nothing", "a failed check would get more tries to pass"),
        "Checks that people know to be flaky, each with `name` and `until`, its last day in UTC: in the queue, IMQ "
        "reruns them twice more. One that still fails then has failed.",
    )
    cancel_outdated: bool = key(
        True,
        kinds.TRUTH,
        Shared(keys.both, "`false`", "IMQ would cancel runs whose repository did not ask for it"),
        "Whether IMQ cancels runs of GitHub Actions that its own update of a branch, or its testing label, "
        "caused. It does so when the pull request leaves without landing, or a newer update replaces that one.",
    )
    prices: Mapping[str, float] | None = key(
        None,
        kinds.PRICES,
        Shared(keys.free, "any prices"),
        "What a minute of a runner costs, in US dollars by label: `{self-hosted: 0.002}`. Other runners have GitHub's "
        "prices; `github` is those alone. IMQ then reads the runner of each job once a day. Absent is off.",
    )
    untested_paths: tuple[str, ...] = key(
        (),
        kinds.listed(kinds.PathWildcards),
        Shared(keys.common, "nothing", _UNTESTED),
        "Files, or wildcards, that need no test on the base: commits of a release bot that change only these do "
        "not restart the checks.",
    )
    first_report: timedelta = key(
        timedelta(minutes=10),
        kinds.TIMEOUT,
        _SHORTER,
        "Where nothing is required: how long the first report of any check may take.",
    )
    settle: timedelta = key(
        timedelta(seconds=10),
        kinds.SETTLING,
        Shared(keys.longer, "a longer one", "checks that start late would be missed"),
        "Where nothing is required: how long after the last report later checks may still start.",
    )


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """How long other waits may last."""

    update: timedelta = key(
        timedelta(minutes=10),
        kinds.TIMEOUT,
        _SHORTER,
        "GitHub's update of a branch, and of whether it can be merged.",
    )
    hold: timedelta = key(
        timedelta(days=7), kinds.TIMEOUT, _SHORTER, "Waiting for room in a full queue, or for a red base to pass."
    )
    ready: timedelta = key(
        timedelta(days=30),
        kinds.LONG_TIMEOUT,
        Shared(keys.lower, "a shorter one", "pull requests would wait longer"),
        "Waiting outside the queue until the pull request is ready (`when_not_ready: wait`).",
    )
    run: timedelta = key(
        timedelta(hours=12),
        kinds.TIMEOUT,
        _SHORTER,
        "Starting over because other pushes keep moving the base branch.",
    )


@dataclass(frozen=True, slots=True)
class TrainRules:
    """Whether IMQ tests several pull requests in one CI run, and how."""

    candidates: Candidates = key(
        Candidates.OFF,
        kinds.CANDIDATES,
        Shared(keys.train_candidates, "`off`", _BRANCHES),
        "What starts CI on a branch with several pull requests; `trains: auto` is short for `candidates: auto`.",
    )
    runs: int | None = key(
        1,
        kinds.RUNS,
        Shared(keys.limit(None), "a lower number", _CI),
        "How many CI runs may be active at once; `auto` is one more than CI ran at once before, up to 16.",
    )
    max_size: int = key(
        MOST_MEMBERS,
        kinds.number(1, MOST_MEMBERS),
        Shared(keys.lower, "a lower number", "more pull requests would wait for one CI run"),
        "How many pull requests one CI run may test.",
    )
    fill_wait: timedelta | None = key(
        None,
        kinds.OR_NONE,
        Shared(keys.operators, "nothing", _LATER),
        "How long a pull request may wait until `max_size` wait for a run together; absent is not at all. "
        "A hotfix ends the wait, and so does a queue that no other may join.",
    )
    first_report: timedelta = key(
        timedelta(minutes=5),
        kinds.TIMEOUT,
        _SHORTER,
        "How long a required check may take to start on a train's branch, before IMQ tests one pull request at a time.",
    )
    split: TrainSplit = key(
        TrainSplit.BISECT,
        kinds.one_of(*TrainSplit),
        Shared(keys.operators, "nothing", _CI),
        "Whether IMQ bisects a run that failed, or tests each of its pull requests alone.",
    )
    forks: TrainForks = key(
        TrainForks.REVIEWED,
        kinds.FORKS,
        Shared(
            keys.rather(*TrainForks),
            "`off`, or `reviewed` in place of `on`",
            "changes of forks would run with secrets in repositories that did not ask for it",
        ),
        "Which pull requests of forks a train may test: CI has the repository's secrets there. "
        "`reviewed` are those whose queued head somebody with write access has approved. Others are tested alone, "
        "by their own heads, and so is each that changes workflow files or local actions.",
    )

    @property
    def enabled(self) -> bool:
        """Whether there are trains; without them IMQ tests one pull request after the other."""
        return self.candidates is not Candidates.OFF


@dataclass(frozen=True, slots=True)
class OutcomeLabels:
    """Labels that IMQ sets when a pull request leaves its queue, for people and workflows to see."""

    landed: str | None = key(
        None, kinds.Kind(kinds.Label), Shared(keys.operators, "nothing", _LABELS), "The label of what landed."
    )
    failed: str | None = key(
        None,
        kinds.Kind(kinds.Label),
        Shared(keys.operators, "nothing", _LABELS),
        "The label of what left because of a fault; IMQ removes it when the pull request is queued again, or landed.",
    )

    @property
    def own(self) -> tuple[str, ...]:
        """Those that are set."""
        return tuple(each for each in (self.landed, self.failed) if each is not None)


@dataclass(frozen=True, slots=True)
class FreezeRules:
    """When nothing lands."""

    windows: tuple[WeeklyFreeze | FreezeWindow, ...] = key(
        (), kinds.WINDOWS, Shared(keys.added, "any windows"), "Times in which nothing lands; pull requests wait."
    )
    exempt_labels: frozenset[str] = key(
        frozenset(),
        kinds.folded(kinds.Label),
        Shared(
            keys.exempt_labels,
            "labels that are exempt from the shared file's own windows",
            "changes would land in a freeze of the operator's",
        ),
        "A pull request with one of these labels lands during a freeze too.",
    )


@dataclass(frozen=True, slots=True)
class CommentRules:
    """What IMQ writes on pull requests."""

    level: CommentPolicy = key(
        CommentPolicy.ALL,
        kinds.one_of(*CommentPolicy),
        Shared(keys.rather(*CommentPolicy), "a level with more comments", "people would not learn what IMQ does"),
        "`outcomes` reports only results, and replies to commands; `none` writes nothing.",
    )
    texts: Mapping[str, str] = key(
        {},
        kinds.TEXTS,
        Shared(keys.operators, "nothing", "people would take a member's text for IMQ's"),
        "Texts that replace IMQ's, by kind of comment or reason code; {base}, {label} and {position} are filled in.",
    )


@dataclass(frozen=True, slots=True)
class Policy:
    """The choices for one base branch, by its operator and its repository; every wait has a limit (P5).

    What has a `Key` a file may set; the rest is the operator's, or IMQ's own.
    """

    mode: Mode = key(
        Mode.QUEUE,
        kinds.one_of(*Mode),
        Shared(keys.rather(Mode.SHADOW), "`shadow`", "IMQ would write where the operator does not let it"),
        "`shadow` writes nothing on GitHub, and only reports what IMQ would do. The file of the default branch "
        "decides this for the whole repository.",
    )
    """As this branch's file says; the repository's is `Policies.mode`. Only the file's top level may set it."""
    enabled: bool = key(
        True,
        kinds.TRUTH,
        Shared(keys.both, "`false`", "a branch that has no queue would get one"),
        "Whether the base branch has a queue at all.",
    )
    trigger_labels: tuple[str, ...] = key(
        ("merge-queue",),
        kinds.TRIGGERS,
        Shared(
            keys.known_labels,
            "some of the operator's labels",
            "a label that maintainers set for another purpose would land pull requests",
        ),
        "Labels that queue, in any case; the first is the one that IMQ names and sets.",
    )
    depth: int = key(
        20,
        kinds.number(1, 1000),
        Shared(keys.limit(0), "a lower number", "a longer queue would cost what the operator limited"),
        "Entries per queue; later ones wait for room.",
    )
    """0 = no limit, which only the operator may set."""
    tries: int = key(
        2,
        kinds.number(0, 20),
        Shared(keys.limit(0), "a lower number", "each person could have more CI run than the operator limited"),
        "How many tests by `/try` each person may have under way in the repository. With 0 nothing is tested.",
    )
    when_not_ready: NotReadyPolicy = key(
        NotReadyPolicy.WAIT,
        kinds.one_of(*NotReadyPolicy),
        Shared(keys.rather(NotReadyPolicy.REFUSE), "`refuse`", "pull requests would wait that the operator refuses"),
        "Whether a pull request waits outside the queue for what may still come, such as an approval, or is refused.",
    )
    on_push: PushRules = section(
        PushRules,
        "What IMQ does after a push; `on_push: requeue` is short for `queued: requeue`.",
        lambda value: {"queued": value} if isinstance(value, str) else value,
        Literal["dequeue", "requeue"],
    )
    auto_merge: GithubMergePolicy = key(
        GithubMergePolicy.DISABLE,
        kinds.one_of(*GithubMergePolicy),
        Shared(keys.auto_merge, "`disable`, `refuse`", "GitHub would merge past the queue, or its button would queue"),
        "Whether IMQ disables GitHub's auto-merge of a queued pull request, or does not queue it. With `queue` the "
        "button queues, too: the head that it showed, as the label does; then IMQ disables auto-merge.",
    )
    update_label: str | None = key(
        None,
        kinds.Kind(kinds.Label),
        Shared(keys.operators, "nothing", "IMQ would push to pull requests and start CI where nothing is queued"),
        "A label that keeps pull requests up to date outside the queue: IMQ updates them after each push to their base "
        "branch. Each update starts CI.",
    )
    who_may_queue: QueuePermissions = section(QueuePermissions, "Who may queue.")
    require: EntryRules = section(EntryRules, "What a pull request needs to join its queue, beside GitHub's rules.")
    blocking: BlockRules = section(BlockRules, "What keeps a pull request out of the queue.")
    priority: PriorityRules = section(PriorityRules, "The order of pull requests.")
    fair_share: FairShareRule = section(
        FairShareRule,
        "How pull requests of others come between the many of one author; `off` is by arrival alone.",
        lambda value: {"enabled": value in (True, "on")} if value in (True, False, "on", "off") else value,
        Literal["on", "off"] | bool,
    )
    merge: MergeRules = section(MergeRules, "How a pull request lands.")
    checks: CheckRules = section(CheckRules, "Which checks have to pass, and how long they may take.")
    timeouts: WaitLimits = section(WaitLimits, "How long other waits may last.")
    capacity: tuple[RunSlots, ...] = key(
        (),
        kinds.CAPACITY,
        Shared(keys.operators, "nothing", "pull requests would wait for runners that others have"),
        "Runners of which there are few, each with `name`, `checks` and `runs`: a run that needs one waits for a free "
        "one, and others pass.",
    )
    trains: TrainRules = section(
        TrainRules,
        "Whether IMQ tests several pull requests in one CI run, and how.",
        lambda value: {"candidates": value} if isinstance(value, str | bool) else value,
        Literal["off", "auto", "push", "pull_request", "dispatch"],
    )
    culprit: CulpritPolicy = key(
        CulpritPolicy.OFF,
        kinds.CULPRIT,
        Shared(keys.rather(*CulpritPolicy), "`off`, or `name` in place of `revert`", _BRANCHES),
        "What IMQ does when the base fails a check that had passed for the landing. `name` finds and names the pull "
        "request that broke the base, by tests on branches of its own. `revert` also opens and queues its revert.",
    )
    labels: OutcomeLabels = section(OutcomeLabels, "Labels that IMQ sets when a pull request leaves its queue.")
    freeze: FreezeRules = section(FreezeRules, "When nothing lands.")
    comments: CommentRules = section(CommentRules, "What IMQ writes on pull requests.")

    fault: str | None = None
    """The error in the repository's configuration, with its line; its queues hold until somebody fixes it."""
    not_followed: tuple[str, ...] = ()
    """The parts of the organisation's shared configuration that do not count here, in sentences for people."""
    is_named: bool = False
    """Whether a rule in `branches` names this base branch, by more than wildcards."""
    team_members: frozenset[str] = frozenset()
    """Logins, casefolded: the members of these teams, as far as IMQ can read them."""
    unread_teams: tuple[str, ...] = ()
    """Which of the teams IMQ cannot read, and why, in sentences for people."""
    own_app: int | None = None
    """The id of IMQ's own App, if known: IMQ cannot wait for a check of its own."""
    stall_timeout: timedelta = timedelta(days=1)
    """How much longer a check may take to start while nothing starts; GitHub cancels jobs that wait for a day."""
    outage_timeout: timedelta = timedelta(hours=1)
    """How long GitHub's own failures may delay an entry."""
    lost_merge_polls: int = 5
    """How often IMQ checks for a merge whose answer was lost, when the base has moved."""
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
    def trigger_label(self) -> str:
        """The label that IMQ names and sets."""
        return self.trigger_labels[0]

    @property
    def fix_labels(self) -> tuple[str, ...]:
        """The labels of changes that fix a red base."""
        return tuple(each.label for each in self.priority.labels if each.fixes_base)

    def has_trigger_label(self, labels: Iterable[str]) -> bool:
        """Return whether a trigger label is among these."""
        return has_label(labels, self.trigger_labels)


KEYS = tuple(keys_of(Policy))
"""Every key, in the order of the policy."""
