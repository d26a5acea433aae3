"""Notices, histories and replies for tests of the texts, as the engine makes them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from queue_engine.config.model import Policy
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.departure import Cause, FailingCheckFacts, NewCommits
from queue_engine.domain.facts import CheckReport, CheckState, FailingCheck
from queue_engine.domain.model import EntryStatus, Queue, Repository, TimelineEvent, UnmetRequirement
from queue_engine.domain.notice import (
    BlockerFacts,
    CommandReply,
    Notice,
    NoticeKind,
    Reply,
    ReplyKind,
    TrainNotice,
    TrainProgress,
)
from queue_engine.domain.reasons import REASONS, Outcome, Reason
from queue_engine.queries.pull_request_status import PullRequestStatus, QueueHistory, ReplyFacts
from queue_engine.queries.queue_status import EntryBlock, EntryView, GitHubOutage, Position, QueueStatus
from queue_engine.rules.priority import FairShare
from tests.store.examples import changed, entry

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
HEAD = "1" * 40
LANDED = "abcdef0123456789abcdef0123456789abcdef01"
REPOSITORY = Repository(id=7, owner="octo", name="garden", installation_id=1)

FAILING_CHECKS = (
    FailingCheck("build", "https://ci.example/runs/1"),
    FailingCheck("all passed", "https://ci.example/runs/2", ("all passed", "test (3.11)")),
    FailingCheck("lint", None),
)

TOGETHER = FailingCheckFacts(
    "6e499df" + "0" * 33,
    ("build",),
    green=("build",),
    on_base=True,
    merged=True,
    pushed=True,
    reruns=1,
    landed=(4, 10),
)
"""A check that passed on the queued head, and fails with what landed since."""
PUSHED = NewCommits("8f14e45" + "0" * 33, "grace", "9af3c1f" + "0" * 33)

KIND_OF_OUTCOME = {
    Outcome.FAILED: NoticeKind.FAILED,
    Outcome.CANCELLED: NoticeKind.CANCELLED,
    Outcome.REFUSED: NoticeKind.REFUSED,
    Outcome.HELD: NoticeKind.HELD,
    Outcome.PAUSED: NoticeKind.PAUSED,
    Outcome.SEQUENTIAL: NoticeKind.QUEUED,
}


def check(
    name: str = "build", conclusion: str = "failure", url: str | None = "https://ci.example/runs/1"
) -> CheckReport:
    """A check that finished two minutes ago, or is still running if its conclusion says so."""
    running = conclusion in {"queued", "in_progress"}
    return CheckReport(
        name=name,
        app_id=15368,
        state=CheckState.PENDING if running else CheckState.FAILED,
        conclusion=conclusion,
        url=url,
        started_at=NOW - timedelta(minutes=9),
        completed_at=None if running else NOW - timedelta(minutes=2),
    )


def notice(kind: NoticeKind = NoticeKind.QUEUED, **changes: Any) -> Notice:
    """A notice of octo/garden#42, queued an hour ago by bob; alice is the author, carol an assignee."""
    fields: dict[str, Any] = {
        "number": 42,
        "base_branch": "main",
        "head_sha": HEAD,
        "at": NOW,
        "people": ("alice", "carol"),
        "position": 2,
        "depth": 5,
        "enqueued_at": NOW - timedelta(minutes=65),
        "started_at": None if kind is NoticeKind.QUEUED else NOW - timedelta(minutes=10),
        "queued_by": "bob",
    }
    return Notice(kind=kind, **(fields | changes))


def of_kind(kind: NoticeKind) -> Notice:
    """This kind's typical notice, without a reason."""
    soon = (NOW + timedelta(minutes=20), NOW + timedelta(minutes=35))
    changes: dict[NoticeKind, dict[str, Any]] = {
        NoticeKind.QUEUED: {"enqueued_at": NOW, "ahead": (12, 15), "eta": soon},
        NoticeKind.CHECKING: {
            "checks": (check("build", "in_progress"), check("docs / links", "queued", url=None)),
            "eta": (NOW, NOW + timedelta(minutes=10)),
        },
        NoticeKind.LANDED: {"landed_sha": LANDED},
        NoticeKind.NOT_READY: {
            "reason": Reason.DRAFT,
            "other_blockers": (BlockerFacts(reason=Reason.APPROVAL_MISSING, detail="0 of 1"),),
        },
    }
    return notice(kind, **changes.get(kind, {}))


def of_reason(reason: Reason) -> Notice:
    """The notice that this reason leads to."""
    changes: dict[Reason, dict[str, Any]] = {
        Reason.CHECKS_FAILED: {"checks": (check("build"), check("test (3.11)", "timed_out"))},
        Reason.CHECKS_TIMED_OUT: {"checks": (CheckReport("docs", None, CheckState.PENDING, "", None, None, None),)},
        Reason.BASE_CHANGED_AT_MERGE: {"detail": "merged into release as abcdef0"},
        Reason.CHECKS_NOT_REPEATED: {"detail": "lint"},
        Reason.WORKFLOWS_UNAPPROVED: {"detail": "ci", "checks": (check("ci", "action_required"),)},
        Reason.CHECKS_NOT_STARTING: {"detail": "build"},
        Reason.CHECK_NEVER_REPORTED: {"detail": "ci/misspelt"},
        Reason.CHECK_ABSENT: {"detail": "test: the message of the head has [skip ci]"},
        Reason.WORKFLOW_WITHOUT_JOBS: {"detail": "CI", "checks": (check("CI", "startup_failure"),)},
        Reason.REFUSED_BY_RULES: {"detail": "At least 1 approving review is required by reviewers with write access."},
        Reason.HEAD_PROTECTED: {"detail": "develop"},
        Reason.STACKED_ABOVE: {"detail": "#12, of the branch develop"},
        Reason.STACK_LANDED: {"detail": "#12"},
        Reason.STACK_ENDED: {"detail": "#12"},
        Reason.DEPENDENCY_OPEN: {"detail": "#12"},
        Reason.DEPENDENCY_HIDDEN: {"detail": "acme/library#12"},
        Reason.DEPENDENCY_ENDED: {"detail": "acme/library#12"},
        Reason.DEPENDENCY_CYCLE: {"detail": "#41 → acme/library#12 → #41"},
        Reason.SET_WAITING: {"detail": "acme/app#3 has landed; acme/library#12 is not queued"},
        Reason.SET_ENDED: {"detail": "acme/library#12"},
        Reason.HEAD_SHARED: {"detail": "#12, queued for develop"},
        Reason.UPDATED_FOR_ANOTHER: {"detail": "#12, queued for develop"},
        Reason.RULESET_BYPASSED: {"detail": "main: required deployments, code owner review"},
        Reason.PERMISSION_MISSING: {"detail": "refusing to allow a GitHub App to create or update workflow `ci.yml`"},
        Reason.INTERNAL_ERROR: {"detail": "TypeError, trace 4bf92f3577b34da6a3ce929d0e0e4736"},
        Reason.CI_SILENT_ON_CANDIDATES: {"detail": "test"},
        Reason.CI_SKIPPED_ON_CANDIDATES: {"detail": "test"},
        Reason.CI_UNPROVEN_ON_CANDIDATES: {"detail": "test"},
        Reason.CHECK_FAILS_ON_CANDIDATES: {"detail": "semantic-title"},
        Reason.CANDIDATES_REFUSED: {"detail": "Repository rule violations found: Changes must be made through a pull"},
        Reason.CANDIDATE_LANDING_REFUSED: {"detail": "Cannot update this protected ref."},
        Reason.FROZEN: {"detail": "Release week", "until": NOW + timedelta(days=2)},
        Reason.BASE_RED: {"detail": "build", "since": NOW - timedelta(minutes=50), "position": 1},
        Reason.TIP_UNTESTED: {"detail": "1 of 3 members landed, then IMQ stopped: #7 left"},
        Reason.MISCONFIGURED: {"detail": ".github/imq.yml of main, line 2: enabeld is unknown; did you mean enabled?"},
        Reason.PAUSED_BY_HAND: {
            "detail": "The runners are being replaced",
            "since": NOW - timedelta(minutes=50),
            "by": "carol",
        },
        Reason.TREE_MISMATCH: {"detail": "landed tree 2222222, tested tree 3333333"},
    }
    return notice(KIND_OF_OUTCOME[REASONS[reason].outcome], reason=reason, **changes.get(reason, {}))


def event(name: str, minutes: float, *, number: int = 42, reason: Reason | None = None, **data: Any) -> TimelineEvent:
    """Something that happened to octo/garden#42, or with `number=0` to its queue, so many minutes before NOW."""
    return TimelineEvent(
        id=10_000 - int(minutes),
        at=NOW - timedelta(minutes=minutes),
        event=name,
        repository_id=REPOSITORY.id,
        base_branch="main",
        number=number,
        reason=reason,
        data=data,
    )


FLAKY_EVENTS = (
    event("queued", 65, by="bob", head=HEAD, position=2),
    event("paused", 50, number=0, reason=Reason.PAUSED_BY_HAND, by="carol", detail="", until=None),
    event("resumed", 40, number=0, reason=Reason.PAUSED_BY_HAND, by="carol", detail=""),
    event("updating", 30, head=HEAD, base_tip="2" * 40),
    event("checking", 29, head="3" * 40, base_tip="2" * 40),
    event("rerun", 20, checks=["build"], head="3" * 40),
    event("flaky", 5, checks=["build"], head="3" * 40),
    event("ready", 5, head="3" * 40, checks=1440),
)
"""It landed at second try of one check, after its queue had been paused for ten minutes."""

LANDED_EVENTS = (*FLAKY_EVENTS, event("landed", 0, sha=LANDED, queue=3900, front=1800, checks=1440))

REPLIES: dict[ReplyKind, dict[str, Any]] = {
    ReplyKind.QUEUED: {"position": 1, "depth": 2, "base_branch": "main"},
    ReplyKind.ALREADY_QUEUED: {"position": 0, "depth": 2, "base_branch": "main"},
    ReplyKind.REQUEUED: {"position": 4, "depth": 5, "base_branch": "main"},
    ReplyKind.HELD: {"ahead": 3, "base_branch": "main"},
    ReplyKind.NOT_READY: {"reason": Reason.APPROVAL_MISSING.value, "detail": "0 of 1", "base_branch": "main"},
    ReplyKind.REFUSED: {
        "reason": Reason.BLOCKED_BY_LABEL.value,
        "label": "merge-queue",
        "detail": "needs `design`",
    },
    ReplyKind.TRYING: {"base_branch": "main", "head": "c" * 40, "on": "main"},
    ReplyKind.TRY_PASSED: {"base_branch": "main", "head": "c" * 40, "on": "main@1234567 + #3"},
    ReplyKind.TRY_FAILED: {"base_branch": "main", "head": "c" * 40, "on": "main@1234567", "detail": "build, lint"},
    ReplyKind.TRY_ENDED: {"base_branch": "main", "head": "c" * 40, "detail": "somebody pushed to the pull request"},
    ReplyKind.TRY_REFUSED: {"base_branch": "main", "detail": "a test of it is under way"},
    ReplyKind.DELEGATED: {"base_branch": "main", "author": "ada", "until": "2026-03-31T08:00:00+00:00"},
    ReplyKind.UNDELEGATED: {"base_branch": "main", "author": "ada"},
    ReplyKind.NOT_DELEGATED: {"base_branch": "main", "author": "ada"},
    ReplyKind.LEFT: {
        "base_branch": "main",
        "effect": {"runs": 2, "jobs": {"minutes": 38.0, "cost": 0.414}, "delayed": 4, "holds": False},
    },
    ReplyKind.REVERTED: {"base_branch": "main", "revert": 12},
    ReplyKind.REVERT_OPENED: {
        "base_branch": "main",
        "revert": 12,
        "reason": Reason.NOT_ALLOWED_TO_QUEUE.value,
        "detail": "",
    },
    ReplyKind.RELANDS: {"base_branch": "main", "reland": 13},
    ReplyKind.NOT_LANDED: {"base_branch": "main"},
    ReplyKind.NOT_REVERTED: {"base_branch": "main"},
    ReplyKind.LANDING: {"base_branch": "main"},
    ReplyKind.NOT_QUEUED: {},
    ReplyKind.CLOSED: {"merged": False},
    ReplyKind.PRIORITY: {
        "priority": 10,
        "position": 1,
        "depth": 4,
        "base_branch": "main",
        "overtakes": [[12, 540], [15, None]],
        "preempts": 12,
        "lost": 240,
    },
    ReplyKind.PAUSED: {
        "base_branch": "main",
        "depth": 2,
        "detail": "the runners are being replaced",
        "effect": {"runs": 1, "jobs": {"minutes": 5.0, "cost": None}, "delayed": 2, "holds": True},
    },
    ReplyKind.FROZEN: {"base_branch": "main", "depth": 2, "until": "2026-03-16T08:00:00+00:00", "detail": ""},
    ReplyKind.RESUMED: {"base_branch": "main", "depth": 2, "reason": Reason.PAUSED_BY_HAND.value},
    ReplyKind.NOT_PAUSED: {"base_branch": "main", "depth": 2},
    ReplyKind.STATUS: {"base_branch": "main"},
    ReplyKind.WHY: {"base_branch": "main"},
    ReplyKind.HELP: {},
    ReplyKind.NOT_ALLOWED: {"needs": "maintain", "has": "read"},
    ReplyKind.NOT_UNDERSTOOD: {"name": "freeze", "argument": "some day", "usage": "/freeze until <when> [reason]"},
    ReplyKind.CHANGED_SINCE: {},
    ReplyKind.TOO_MANY: {"limit": 5},
    ReplyKind.FAILED: {"detail": "Resource not accessible by integration"},
    ReplyKind.GAVE_UP: {},
}
"""The facts of each code, as its docstring lists them."""

_DONE = frozenset(ReplyKind) - {
    ReplyKind.REFUSED,
    ReplyKind.NOT_ALLOWED,
    ReplyKind.NOT_UNDERSTOOD,
    ReplyKind.CLOSED,
    ReplyKind.CHANGED_SINCE,
    ReplyKind.TOO_MANY,
    ReplyKind.FAILED,
    ReplyKind.TRY_REFUSED,
}


_ENTRY = changed(
    entry(42),
    status=EntryStatus.CHECKING,
    position=0,
    queued_by="bob",
    priority=10,
    status_since=NOW - timedelta(minutes=9, seconds=26),
    enqueued_at=NOW - timedelta(minutes=65),
)
_FROZEN = Blocker(Reason.FROZEN, "Release week", datetime(2026, 3, 16, 8, tzinfo=UTC))
_RED = Blocker(Reason.BASE_RED, "build")


def entry_status(
    ahead: tuple[int, ...] = (), depth: int = 4, *, view: Any = None, **of_entry: Any
) -> PullRequestStatus:
    """The status of an entry that is checked, or as given; `view` are changes of its view."""
    shown = changed(_ENTRY, **of_entry)
    checks = ("build", "docs / links") if shown.status is EntryStatus.CHECKING else ()
    found = EntryView(shown, Position(shown.position, depth, ahead, None), None, (), checks, None, None)
    return PullRequestStatus(42, shown.status.value, "main", depth, replace(found, **(view or {})))


def left(event: str, reason: Reason | None, detail: str | None = None, **facts: Any) -> PullRequestStatus:
    """The status of a pull request that left its queue an hour ago."""
    at = NOW - timedelta(minutes=69, seconds=26)
    return PullRequestStatus(42, "not_queued", None, 0, previous=QueueHistory(event, reason, detail, at, **facts))


_BISECTED = TrainNotice(
    progress=TrainProgress.BISECTING,
    members=(41, 42),
    run=31,
    branch="imq/main/31",
    failed=(41, 42, 43, 44),
    suspicion=0.29,
)
_FRESH = TrainNotice(progress=TrainProgress.TESTING, members=(42, 43), branch="imq/main/31", suspicion=0.1)

WHY: dict[str, PullRequestStatus] = {
    "pending": entry_status(
        (7, 9), 14, status=EntryStatus.PENDING, position=12, hotfix=True, view={"blockers": (_FROZEN, _RED)}
    ),
    "trouble": entry_status(
        status=EntryStatus.UPDATING, view={"outage": GitHubOutage(NOW - timedelta(minutes=6, seconds=26), None)}
    ),
    "blocked": entry_status(
        status=EntryStatus.PENDING, view={"deferral": EntryBlock(Reason.WORKFLOWS_PERMISSION, None, None)}
    ),
    "ready": entry_status(status=EntryStatus.READY),
    "train": entry_status((41,), position=1, view={"train": _BISECTED}),
    "train_of_fresh": entry_status(view={"train": _FRESH}),
    "share": entry_status(view={"fair_share": FairShare("bob", 7)}),
    "held": PullRequestStatus(42, "held", "main", 20, held_behind=2, fair_share=FairShare("robot[bot]", 0)),
    "not_ready": PullRequestStatus(
        42,
        "not_ready",
        "main",
        4,
        unmet=(
            UnmetRequirement(Reason.DRAFT),
            UnmetRequirement(Reason.APPROVAL_MISSING, "0 of `1`"),
            UnmetRequirement(Reason.CHECKS_FAILED, failing=FAILING_CHECKS),
        ),
    ),
    "never": PullRequestStatus(42, "not_queued", None, 0),
    "left": left("failed", Reason.APPROVAL_MISSING, "0 of 1"),
    "landed": left("landed", None),
    "together": left("failed", Reason.CHECKS_FAILED, failure=TOGETHER),
    "pushed": left("cancelled", Reason.HEAD_CHANGED, cause=Cause("mallory"), new_commits=PUSHED),
}
"""What `/why` finds in each situation."""

STATUS = QueueStatus(
    Queue(1, REPOSITORY, "main", None, 0),
    tuple(
        EntryView(each, Position(each.position, 12, (), None), None, (), (), None, None)
        for each in (
            replace(_ENTRY, number=12),
            changed(
                _ENTRY, position=1, status=EntryStatus.PENDING, status_since=NOW - timedelta(minutes=4, seconds=26)
            ),
        )
    ),
    (_ENTRY,) * 3,
    (_FROZEN,),
)
"""What `/status` finds."""


def facts(why: str = "checking", queue: QueueStatus | None = STATUS, policy: Policy | None = None) -> ReplyFacts:
    """What IMQ finds when it sends the reply to a question."""
    return ReplyFacts(WHY.get(why) or entry_status(), queue, policy)


def why() -> CommandReply:
    """The answer to bob's `/why`."""
    reply = Reply(command="why", accepted=True, code=ReplyKind.WHY, facts={"base_branch": "main"})
    return CommandReply(at=NOW, by="bob", replies=(reply,))


def answer(*codes: ReplyKind, by: str = "bob", command: str = "queue", **changes: Any) -> CommandReply:
    """What became of bob's commands."""
    replies = tuple(
        Reply(command=command, accepted=code in _DONE, code=code, facts=REPLIES[code] | changes) for code in codes
    )
    return CommandReply(at=NOW, by=by, replies=replies)
