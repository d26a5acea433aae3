"""The configuration's keys, from which the schema, the documents' tables, the policies and the error messages are made.

Each key is declared once: its type, its text, its field of the policy, whose default is that of the key, and how far an
organisation's shared configuration may change it.

No key has a default here: a missing key keeps the value of the operator or of the level above.
"""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from queue_engine.config import freezes, keys
from queue_engine.config.keys import Key
from queue_engine.config.kinds import (
    MOST,
    AutoRuns,
    AutoTimeout,
    BodyTemplate,
    CheckName,
    ConfigModel,
    Label,
    Login,
    LongTimeout,
    Many,
    NoticeName,
    OwnText,
    PathWildcards,
    Settling,
    Some,
    Team,
    Timeout,
    TitlePattern,
    TitleTemplate,
    Triggers,
    Why,
    Wildcards,
)
from queue_engine.domain.facts import Permission
from queue_engine.domain.policy import (
    CommentPolicy,
    GithubMergePolicy,
    Mode,
    NotReadyPolicy,
    NotReadyPushPolicy,
    PushPolicy,
)
from queue_engine.domain.train_policy import MOST_MEMBERS, Candidates, TrainForks, TrainSplit

_BRANCHES = "IMQ would push branches, and run changes with secrets, in repositories that did not ask for it"
_LATER = "longer waits would delay all queues"
_ORDER = "a member would decide whose pull request goes first, and which one lands on a red base"
_HISTORY = "a member's text would be in the history of all repositories"


class WaitLimits(ConfigModel):
    """How long other waits may last."""

    update: Annotated[Timeout | None, Key("update_timeout", "a shorter one", _LATER, keys.lower, keys.DURATION)] = (
        Field(None, description="GitHub's update of a branch, and of whether it can be merged.")
    )
    hold: Annotated[Timeout | None, Key("hold_timeout", "a shorter one", _LATER, keys.lower, keys.DURATION)] = Field(
        None, description="Waiting for room in a full queue, or for a red base to pass."
    )
    ready: Annotated[
        LongTimeout | None,
        Key("ready_timeout", "a shorter one", "pull requests would wait longer", keys.lower, keys.DURATION),
    ] = Field(None, description="Waiting outside the queue until the pull request is ready (`when_not_ready: wait`).")
    run: Annotated[Timeout | None, Key("run_timeout", "a shorter one", _LATER, keys.lower, keys.DURATION)] = Field(
        None, description="Starting over because other pushes keep moving the base branch."
    )


CandidatesName = Literal["off", "auto", "push", "pull_request", "dispatch"]


def _off_or_auto(value: object) -> object:
    """Accept `on`, and truth values in place of both words."""
    words = {True: "auto", False: "off", "on": "auto"}
    return words.get(value, value) if isinstance(value, str | bool) else value


def _off_or_on(value: object) -> object:
    """Accept truth values: YAML 1.1 reads both words as such."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


class TrainRules(ConfigModel):
    """Whether IMQ tests several pull requests in one CI run, and how."""

    candidates: Annotated[
        Annotated[CandidatesName, BeforeValidator(_off_or_auto)] | None,
        Key("train_candidates", "`off`", _BRANCHES, keys.train_candidates, keys.ValueKind(Candidates, str)),
    ] = Field(
        None,
        description="What starts CI on a branch with several pull requests; `trains: auto` is short for "
        "`candidates: auto`.",
    )
    runs: Annotated[
        AutoRuns | None,
        Key("train_runs", "a lower number", "a member would decide how much CI runs", keys.limit(None), keys.OR_AUTO),
    ] = Field(
        None,
        description="How many CI runs may be active at once; `auto` is one more than CI ran at once before, up to 16.",
    )
    max_size: Annotated[
        int | None, Key("train_size", "a lower number", "more pull requests would wait for one CI run", keys.lower)
    ] = Field(None, ge=1, le=MOST_MEMBERS, description="How many pull requests one CI run may test.")
    first_report: Annotated[
        Timeout | None, Key("train_first_report", "a shorter one", _LATER, keys.lower, keys.DURATION)
    ] = Field(
        None,
        description="How long a required check may take to start on a train's branch, before IMQ tests one pull "
        "request at a time.",
    )
    split: Annotated[
        Literal["bisect", "single"] | None,
        Key(
            "train_split",
            "nothing",
            "a member would decide how much CI runs",
            keys.operators,
            keys.ValueKind(TrainSplit, str),
        ),
    ] = Field(
        None,
        description="Whether IMQ bisects a run that failed, or tests each of its pull requests alone.",
    )
    forks: Annotated[
        Annotated[Literal["off", "reviewed", "on"], BeforeValidator(_off_or_on)] | None,
        Key(
            "train_forks",
            "`off`, or `reviewed` in place of `on`",
            "changes of forks would run with secrets in repositories that did not ask for it",
            keys.rather(*TrainForks),
            keys.ValueKind(TrainForks, str),
        ),
    ] = Field(
        None,
        description="Which pull requests of forks a train may test: CI has the repository's secrets there. "
        "`reviewed` are those whose queued head somebody with write access has approved. Others are tested alone, by "
        "their own heads, and so is each that changes workflow files or local actions.",
    )


def _choice_or_trains(value: object) -> object:
    return {"candidates": value} if isinstance(value, str | bool) else value


Trains = Annotated[
    TrainRules,
    BeforeValidator(_choice_or_trains, json_schema_input_type=CandidatesName | TrainRules),
]
"""A section, or the value of its key `candidates`."""


class PushRules(ConfigModel):
    """What IMQ does after somebody pushes to a pull request."""

    queued: Annotated[
        Literal["dequeue", "requeue"] | None,
        Key(
            "on_push", "`dequeue`", "a head that was not queued would land", keys.PUSH, keys.ValueKind(PushPolicy, str)
        ),
    ] = Field(None, description="Whether a push dequeues a queued pull request, or queues its new head at the end.")
    waiting: Annotated[
        Literal["bind", "dequeue"] | None,
        Key(
            "on_waiting_push",
            "`dequeue`",
            "a head that no one labelled would land",
            keys.WAITING_PUSH,
            keys.ValueKind(NotReadyPushPolicy, str),
        ),
    ] = Field(
        None,
        description="Whether a pull request that is not ready yet keeps waiting with a new head, if the pusher may "
        "queue.",
    )
    requeue_for: Annotated[
        Many[Login] | None,
        Key("requeue_for", "nothing", "a head that was not queued would land", keys.common, keys.NAMES),
    ] = Field(
        None,
        description="Bots, such as `dependabot[bot]`, whose pushes to their own pull requests never dequeue them.",
    )


def _choice_or_push(value: object) -> object:
    return {"queued": value} if isinstance(value, str) else value


OnPush = Annotated[
    PushRules,
    BeforeValidator(_choice_or_push, json_schema_input_type=Literal["dequeue", "requeue"] | PushRules),
]


Method = Literal["merge", "squash", "rebase"]

_MOST_FREEZES = 20


class QueuePermissions(ConfigModel):
    """Who may queue."""

    permission: Annotated[
        Literal["triage", "write", "maintain", "admin"] | None,
        Key(
            "may_queue",
            "a stronger permission, never one below write",
            "people would land changes who may not merge them",
            keys.PERMISSION,
            keys.ValueKind(Permission, str),
        ),
    ] = Field(None, description="The least permission on the repository that lets a person queue.")
    people: Annotated[
        Many[Login] | None,
        Key(
            "may_queue_too",
            "nothing",
            "a member could name themselves, and land changes that they may not merge",
            keys.common,
            keys.NAMES,
        ),
    ] = Field(None, description="Logins that may queue with any permission.")
    teams: Annotated[
        Many[Team] | None,
        Key(
            "may_queue_teams",
            "nothing",
            "a member could name a team of theirs, and land changes that they may not merge",
            keys.common,
            keys.TEAMS,
        ),
    ] = Field(
        None,
        description="Teams of the organisation whose members may queue with any permission: `release-managers`.",
    )


class BlockRules(ConfigModel):
    """Labels and titles that keep a pull request out of the queue."""

    labels: Annotated[Many[Label] | None, Key("blocking_labels", "any labels", "nothing", keys.added, keys.NAMES)] = (
        Field(None, description="A pull request with one of these labels waits outside the queue.")
    )
    titles: Annotated[
        Many[TitlePattern] | None, Key("blocking_titles", "any patterns", "nothing", keys.added, keys.LIST)
    ] = Field(
        None,
        description="Regular expressions (RE2): a pull request whose title matches waits outside the queue. `(?i)` "
        "ignores case.",
    )


class PriorityRule(ConfigModel):
    """The priority that one label gives."""

    priority: int = Field(0, ge=-1000, le=1000, description="Higher goes first.")
    hotfix: bool = Field(False, description="Lands before all others.")
    preempts: bool = Field(False, description="Preempts even the pull request that is being checked.")
    fixes_base: bool = Field(False, description="May land while the base branch is red, because it is the fix.")


def _number_or_rule(value: object) -> object:
    return {"priority": value} if isinstance(value, int) and not isinstance(value, bool) else value


LabelPriority = Annotated[
    PriorityRule,
    BeforeValidator(_number_or_rule, json_schema_input_type=int | PriorityRule),
]


class Priority(ConfigModel):
    """The order of pull requests."""

    labels: Annotated[
        dict[Label, LabelPriority] | None, Key("priorities", "nothing", _ORDER, keys.operators, keys.PRIORITIES)
    ] = Field(
        None,
        max_length=MOST,
        description="By label a number, or a section of `priority`, `hotfix`, `preempts`, `fixes_base`. "
        "Where no label has `fixes_base`, `merge-queue-fix` is one.",
    )
    ageing: Annotated[Timeout | None, Key("ageing", "nothing", _ORDER, keys.operators, keys.DURATION)] = Field(
        None, description="By how much waiting time one point of priority may overtake."
    )


class FairShareRule(ConfigModel):
    """How pull requests of others come between the many of one author."""

    enabled: Annotated[bool | None, Key("fair_share", "nothing", _ORDER, keys.operators)] = Field(
        None, description="Whether they do; `fair_share: off` is short for `enabled: false`."
    )
    waiting: Annotated[int | None, Key("share_waiting", "nothing", _ORDER, keys.operators)] = Field(
        None, ge=1, le=100, description="How many pull requests of one author keep their place by arrival."
    )
    agents: Annotated[Many[Wildcards] | None, Key("agents", "nothing", _ORDER, keys.operators, keys.AGENTS)] = Field(
        None,
        description="Logins, or wildcards, of agents: they share one place with all bots, whose logins end in `[bot]`.",
    )


def _off_or_share(value: object) -> object:
    return {"enabled": value in (True, "on")} if value in (True, False, "on", "off") else value


FairShare = Annotated[
    FairShareRule, BeforeValidator(_off_or_share, json_schema_input_type=Literal["on", "off"] | bool | FairShareRule)
]


class Merge(ConfigModel):
    """How a pull request lands."""

    method: Annotated[
        Literal["auto", "merge", "squash", "rebase"] | None,
        Key("method", "any method that the rules allow", "nothing", keys.free, keys.METHOD),
    ] = Field(None, description="`auto` is the first that repository and rules allow of merge, squash, rebase.")
    method_labels: Annotated[
        dict[Label, Method] | None,
        Key("method_labels", "any labels and methods that the rules allow", "nothing", keys.free, keys.METHODS),
    ] = Field(None, max_length=MOST, description="Labels that override the method, each with its method.")
    title: Annotated[TitleTemplate | None, Key("commit_title", "nothing", _HISTORY, keys.operators)] = Field(
        None, description="Template of the commit's title; without it GitHub's own. Not for rebase."
    )
    body: Annotated[BodyTemplate | None, Key("commit_body", "nothing", _HISTORY, keys.operators)] = Field(
        None, description="Template of the commit's body; without it GitHub's own. Not for rebase."
    )
    delete_branch: Annotated[
        bool | None,
        Key("delete_branch", "`false`", "IMQ would delete branches whose owners did not ask for it", keys.both),
    ] = Field(None, description="Delete the branch after landing, unless another open pull request is based on it.")


class CheckRule(ConfigModel):
    """A check of one App."""

    name: CheckName = Field(description="The check's name, as GitHub shows it.")
    app: int | None = Field(None, ge=1, description="The App's numeric id (GitHub Actions is 15368).")

    def __str__(self) -> str:
        return self.name if self.app is None else f"{self.name} of App {self.app}"


def _name_or_check(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


Check = Annotated[CheckRule, BeforeValidator(_name_or_check, json_schema_input_type=str | CheckRule)]


class Checks(ConfigModel):
    """Which checks have to pass, and how long they may take."""

    required: Annotated[
        Many[Check] | None, Key("required_checks", "any checks", "nothing", keys.added, keys.CHECKS)
    ] = Field(
        None, description="Required beside the checks of branch protection and rulesets: names, or `name` with `app`."
    )
    queue_only: Annotated[
        Many[Check] | None, Key("queue_only_checks", "any checks", "nothing", keys.added, keys.CHECKS)
    ] = Field(
        None,
        description="Required checks that run in the queue alone, on each candidate: names, or `name` with `app`. "
        "Their jobs may be skipped elsewhere.",
    )
    testing_label: Annotated[
        Label | None,
        Key(
            "testing_label",
            "nothing",
            "a member would have IMQ set a label that means something else elsewhere",
            keys.operators,
        ),
    ] = Field(
        None,
        description="The label that IMQ sets while it tests a pull request, and that starts the `queue_only` checks.",
    )
    ignored: Annotated[
        Many[Wildcards] | None,
        Key("ignored_checks", "nothing", "failing checks would not count", keys.common, keys.LIST),
    ] = Field(None, description="Names, or wildcards, of checks that do not count unless a rule requires them.")
    land_without: Annotated[
        bool | None, Key("land_without_checks", "`false`", "changes would land that no check has tested", keys.both)
    ] = Field(None, description="Whether a pull request may land on which no check reports.")
    timeout: Annotated[
        AutoTimeout | None,
        Key("check_timeout", "a shorter one than `fallback_timeout`", _LATER, keys.check_timeout, keys.LIMIT),
    ] = Field(
        None,
        description="How long a required check may take at most. `auto`: three times its usual time, a day at most.",
    )
    fallback_timeout: Annotated[
        Timeout | None, Key("fallback_check_timeout", "a shorter one", _LATER, keys.lower, keys.DURATION)
    ] = Field(None, description="The same for a check that IMQ has not measured on this branch.")
    reruns: Annotated[
        int | None, Key("check_reruns", "a lower number", "a failed check would get more tries to pass", keys.lower)
    ] = Field(
        None,
        ge=0,
        le=5,
        description="How often IMQ reruns failed jobs of GitHub Actions before they count. "
        "It cannot rerun another App's check: if one of those fails too, IMQ reruns nothing.",
    )
    cancel_outdated: Annotated[
        bool | None,
        Key("cancel_outdated", "`false`", "IMQ would cancel runs whose repository did not ask for it", keys.both),
    ] = Field(
        None,
        description="Whether IMQ cancels runs of GitHub Actions that its own update of a branch, or its testing label, "
        "caused. It does so when the pull request leaves without landing, or a newer update replaces that one.",
    )
    untested_paths: Annotated[
        Many[PathWildcards] | None,
        Key(
            "untested_paths", "nothing", "changes would land on a base that no check has tested", keys.common, keys.LIST
        ),
    ] = Field(
        None,
        description="Files, or wildcards, that need no test on the base: commits of a release bot that change only "
        "these do not restart the checks.",
    )
    first_report: Annotated[Timeout | None, Key("first_report", "a shorter one", _LATER, keys.lower, keys.DURATION)] = (
        Field(None, description="Where nothing is required: how long the first report of any check may take.")
    )
    settle: Annotated[
        Settling | None,
        Key("settle", "a longer one", "checks that start late would be missed", keys.longer, keys.DURATION),
    ] = Field(
        None, description="Where nothing is required: how long after the last report later checks may still start."
    )


class FreezeRule(ConfigModel):
    """A time in which nothing lands."""

    start: str = Field(
        alias="from", description='When it begins: "16:00", "fri 16:00", "2026-12-23" or "2026-12-23 16:00".'
    )
    end: str = Field(alias="to", description="When it ends, in the same form; a date includes its day.")
    days: Some[str] | None = Field(None, description="Days of the week on which times of the day begin: mon, tue, ...")
    zone: str = Field("UTC", description="The time zone, such as Europe/Berlin.")
    why: Why = Field("", description="The reason that people read.")

    @model_validator(mode="after")
    def _is_a_window(self) -> Self:
        self.freeze()
        return self

    def freeze(self) -> freezes.Freeze:
        """Convert the window for the engine. Raises ValueError."""
        return freezes.window(self.start, self.end, self.days, self.zone, self.why)


class Freeze(ConfigModel):
    """When nothing lands."""

    windows: Annotated[list[FreezeRule] | None, Key("freezes", "any windows", "nothing", keys.added, keys.WINDOWS)] = (
        Field(None, max_length=_MOST_FREEZES, description="Times in which nothing lands; pull requests wait.")
    )
    exempt_labels: Annotated[
        Many[Label] | None,
        Key(
            "freeze_exempt_labels",
            "labels that are exempt from the shared file's own windows",
            "changes would land in a freeze of the operator's",
            keys.exempt_labels,
            keys.NAMES,
        ),
    ] = Field(None, description="A pull request with one of these labels lands during a freeze too.")


class Comments(ConfigModel):
    """What IMQ writes on pull requests."""

    level: Annotated[
        Literal["all", "outcomes", "none"] | None,
        Key(
            "comments",
            "a level with more comments",
            "people would not learn what IMQ does",
            keys.LEVEL,
            keys.ValueKind(CommentPolicy, str),
        ),
    ] = Field(None, description="`outcomes` reports only results, and replies to commands; `none` writes nothing.")
    texts: Annotated[
        dict[NoticeName, OwnText] | None,
        Key(
            "texts",
            "nothing",
            "people would take a member's text for IMQ's",
            keys.operators,
            keys.ValueKind(dict, dict),
        ),
    ] = Field(
        None,
        max_length=MOST,
        description="Texts that replace IMQ's, by kind of comment or reason code; {base}, {label} and {position} "
        "are filled in.",
    )


class Rules(ConfigModel):
    """Keys for all base branches, and again for some."""

    enabled: Annotated[bool | None, Key("served", "`false`", "a branch that has no queue would get one", keys.both)] = (
        Field(None, description="Whether the base branch has a queue at all.")
    )
    trigger_labels: Annotated[
        Triggers[Label] | None,
        Key(
            "trigger_labels",
            "some of the operator's labels",
            "a label that maintainers set for another purpose would land pull requests",
            keys.known_labels,
            keys.LIST,
        ),
    ] = Field(None, description="Labels that queue, in any case; the first is the one that IMQ names and sets.")
    depth: Annotated[
        int | None,
        Key("max_depth", "a lower number", "a longer queue would cost what the operator limited", keys.limit(0)),
    ] = Field(None, ge=1, le=1000, description="Entries per queue; later ones wait for room.")
    when_not_ready: Annotated[
        Literal["wait", "refuse"] | None,
        Key(
            "when_not_ready",
            "`refuse`",
            "pull requests would wait that the operator refuses",
            keys.NOT_READY,
            keys.ValueKind(NotReadyPolicy, str),
        ),
    ] = Field(
        None,
        description="Whether a pull request waits outside the queue for what may still come, such as an approval, or "
        "is refused.",
    )
    on_push: OnPush | None = Field(
        None, description="What IMQ does after a push; `on_push: requeue` is short for `queued: requeue`."
    )
    auto_merge: Annotated[
        Literal["disable", "refuse", "ignore"] | None,
        Key(
            "auto_merge",
            "`disable`, `refuse`",
            "GitHub would merge past the queue",
            keys.auto_merge,
            keys.ValueKind(GithubMergePolicy, str),
        ),
    ] = Field(
        None, description="Whether IMQ disables GitHub's auto-merge of a queued pull request, or does not queue it."
    )
    who_may_queue: QueuePermissions | None = Field(None, description="Who may queue.")
    blocking: BlockRules | None = Field(
        None, description="Labels and titles that keep a pull request out of the queue."
    )
    priority: Priority | None = Field(None, description="The order of pull requests.")
    fair_share: FairShare | None = Field(
        None, description="How pull requests of others come between the many of one author; `off` is by arrival alone."
    )
    merge: Merge | None = Field(None, description="How a pull request lands.")
    checks: Checks | None = Field(None, description="Which checks have to pass, and how long they may take.")
    timeouts: WaitLimits | None = Field(None, description="How long other waits may last.")
    trains: Trains | None = Field(None, description="Whether IMQ tests several pull requests in one CI run, and how.")
    freeze: Freeze | None = Field(None, description="When nothing lands.")
    comments: Comments | None = Field(None, description="What IMQ writes on pull requests.")


class BranchRules(Rules):
    """Rules for the base branches that match; other keys are as at the top level."""

    match: Some[Wildcards] = Field(
        description="Base branches, or wildcards: `main`, `release/*`, `**`. The first rule that matches holds."
    )


class Config(Rules):
    """Rules of IMQ's merge queue: `.github/imq.yml`."""

    mode: Annotated[
        Literal["queue", "shadow"] | None,
        Key(
            "mode",
            "`shadow`",
            "IMQ would write where the operator does not let it",
            keys.MODE,
            keys.ValueKind(Mode, str),
        ),
    ] = Field(
        None,
        description="`shadow` writes nothing on GitHub, and only reports what IMQ would do. The file of the default "
        "branch decides this for the whole repository.",
    )

    branches: list[BranchRules] | None = Field(
        None, max_length=MOST, description="Rules for some base branches, which replace those at the top level."
    )


KEYS = (*keys.keys_of(Config, own=True), *keys.keys_of(Rules))
"""Every key, in the order of the model. Only the operator sets the other fields of a policy."""
