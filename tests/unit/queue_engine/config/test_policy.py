"""What a configuration makes of the operator's policy, branch by branch."""

from dataclasses import fields, replace
from datetime import date, time, timedelta
from operator import attrgetter
from zoneinfo import ZoneInfo

import pytest

from queue_engine.config.file import Config, as_keys, labels_of, policy_for, queue_only_labels_of
from queue_engine.config.model import (
    KEYS,
    BlockRules,
    CheckRules,
    CommentRules,
    EntryRules,
    FairShareRule,
    FreezeRules,
    MergeRules,
    OutcomeLabels,
    Policy,
    PriorityRules,
    PushRules,
    QueuePermissions,
    TrainRules,
    WaitLimits,
)
from queue_engine.config.parse import keys, read
from queue_engine.domain.facts import MergeMethod, Permission, RequiredCheck
from queue_engine.domain.policy import (
    Candidates,
    CommentPolicy,
    CulpritPolicy,
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
)

OPERATORS = {
    "test_edit",
    "fault",
    "is_named",
    "not_followed",
    "team_members",
    "unread_teams",
    "own_app",
    "outage_timeout",
    "later_workflows",
    "lost_merge_polls",
    "merge_refusals",
    "pending_merge_timeout",
    "permission_retry",
    "refusal_timeout",
    "stall_timeout",
    "ask_again",
    "update_poll",
    "update_refusals",
    "check_poll",
    "progress_edits",
    "comment_debounce",
}
"""What no repository sets: how IMQ treats GitHub, and its own verdict on the file."""

EVERYTHING = """\
mode: shadow
enabled: false
trigger_labels: [Land it, ship]
depth: 1000
tries: 5
when_not_ready: refuse
on_push: {queued: requeue, waiting: dequeue, requeue_for: "dependabot[bot]"}
auto_merge: refuse
update_label: Keep updated
who_may_queue: {permission: maintain, people: "Renovate[bot]", teams: ["@Acme/Core", ops]}
require: {approvals: 2, labels: QA, authors: "Renovate[bot]", files: docs/**, reviews_done: true}
blocking: {labels: [Do not merge], titles: "^WIP", authors: Mallory, files: .github/**}
priority:
  ageing: 30m
  labels:
    urgent: 10
    hotfix: {priority: 100, hotfix: true, preempts: true}
    mends: {fixes_base: true}
fair_share: {enabled: false, waiting: 5, agents: Robot-*}
merge:
  method: squash
  method_labels: {Keep Commits: rebase}
  title: "{title} (#{number})"
  body: "{body}"
  delete_branch: true
  queued_by: true
  green_branch: green/{base}
  tested_refs: [test, {name: build, app: 15368}]
  notes: true
checks:
  required: [test, {name: build, app: 15368}]
  queue_only: e2e
  testing_label: In test
  ignored: coverage/*
  land_without: true
  timeout: 90m
  fallback_timeout: 3h
  reruns: 0
  cancel_outdated: false
  prices: {Self-Hosted: 0.002}
  untested_paths: [CHANGELOG.md, docs/**]
  first_report: 1h
  settle: 30s
  flaky: [{name: e2e, until: 2026-12-31}]
timeouts: {update: 5m, hold: 1d, ready: 60d, run: 6h}
capacity: [{name: gpu, checks: [gpu/*, bench], runs: 2}]
trains: {candidates: dispatch, runs: 4, max_size: 8, fill_wait: 5m, first_report: 2m, split: single, forks: on}
culprit: revert
labels: {landed: Landed, failed: Needs work}
freeze:
  windows: [{from: "fri 16:00", to: "mon 08:00", zone: Europe/Berlin, why: Weekend}]
  exempt_labels: [Hotfix]
comments:
  level: outcomes
  texts: {queued: "Place {position} on {base}, by {label}."}
"""

ALL_OF_IT = Policy(
    mode=Mode.SHADOW,
    enabled=False,
    trigger_labels=("Land it", "ship"),
    depth=1000,
    tries=5,
    when_not_ready=NotReadyPolicy.REFUSE,
    on_push=PushRules(
        queued=PushPolicy.REQUEUE, waiting=NotReadyPushPolicy.DEQUEUE, requeue_for=frozenset({"dependabot[bot]"})
    ),
    auto_merge=GithubMergePolicy.REFUSE,
    update_label="Keep updated",
    who_may_queue=QueuePermissions(
        permission=Permission.MAINTAIN, people=frozenset({"renovate[bot]"}), teams=frozenset({"acme/core", "ops"})
    ),
    require=EntryRules(
        approvals=2,
        labels=frozenset({"qa"}),
        authors=frozenset({"renovate[bot]"}),
        files=("docs/**",),
        reviews_done=True,
    ),
    blocking=BlockRules(
        labels=frozenset({"do not merge"}),
        titles=("^WIP",),
        authors=frozenset({"mallory"}),
        files=(".github/**",),
    ),
    priority=PriorityRules(
        ageing=timedelta(minutes=30),
        labels=(
            PriorityLabel("urgent", 10),
            PriorityLabel("hotfix", 100, hotfix=True, preempts=True),
            PriorityLabel("mends", 0, fixes_base=True),
        ),
    ),
    fair_share=FairShareRule(enabled=False, waiting=5, agents=("robot-*",)),
    merge=MergeRules(
        method=MergeMethod.SQUASH,
        method_labels={"keep commits": MergeMethod.REBASE},
        title="{title} (#{number})",
        body="{body}",
        delete_branch=True,
        queued_by=True,
        green_branch="green/{base}",
        tested_refs=frozenset({RequiredCheck("test", None), RequiredCheck("build", 15368)}),
        notes=True,
    ),
    checks=CheckRules(
        required=frozenset({RequiredCheck("test", None), RequiredCheck("build", 15368)}),
        queue_only=frozenset({RequiredCheck("e2e", None)}),
        testing_label="In test",
        ignored=("coverage/*",),
        land_without=True,
        timeout=timedelta(minutes=90),
        fallback_timeout=timedelta(hours=3),
        reruns=0,
        cancel_outdated=False,
        prices={"self-hosted": 0.002},
        untested_paths=("CHANGELOG.md", "docs/**"),
        first_report=timedelta(hours=1),
        settle=timedelta(seconds=30),
        flaky=(RerunLimit("e2e", date(2026, 12, 31)),),
    ),
    capacity=(RunSlots("gpu", ("gpu/*", "bench"), 2),),
    timeouts=WaitLimits(
        update=timedelta(minutes=5), hold=timedelta(days=1), ready=timedelta(days=60), run=timedelta(hours=6)
    ),
    trains=TrainRules(
        candidates=Candidates.DISPATCH,
        runs=4,
        max_size=8,
        fill_wait=timedelta(minutes=5),
        first_report=timedelta(minutes=2),
        split=TrainSplit.SINGLE,
        forks=TrainForks.ON,
    ),
    culprit=CulpritPolicy.REVERT,
    labels=OutcomeLabels(landed="Landed", failed="Needs work"),
    freeze=FreezeRules(
        windows=(
            WeeklyFreeze(frozenset({4}), time(16), timedelta(days=2, hours=16), ZoneInfo("Europe/Berlin"), "Weekend"),
        ),
        exempt_labels=frozenset({"hotfix"}),
    ),
    comments=CommentRules(level=CommentPolicy.OUTCOMES, texts={"queued": "Place {position} on {base}, by {label}."}),
)


def test_policy_for_has_everything_that_the_file_sets() -> None:
    """Every key arrives where decisions are made, and nothing else changes."""
    assert policy_for(read(EVERYTHING), Policy(), "main") == ALL_OF_IT


def test_policy_for_can_set_every_field_but_the_operators() -> None:
    """A field that is added to the policy is either given a key or named here as the operator's."""
    default = Policy()
    sections = {key.sections[0]: attrgetter(key.sections[0])(default) for key in KEYS if key.sections}
    values = {f"{name}.{each.name}" for name, section in sections.items() for each in fields(section)}
    values |= {each.name for each in fields(Policy)} - sections.keys() - OPERATORS
    assert sorted(key.name for key in KEYS) == sorted(values)
    for key in KEYS:
        assert attrgetter(key.name)(ALL_OF_IT) != attrgetter(key.name)(default), key.name


def test_keys_are_those_of_the_model() -> None:
    """No key can be written that is then not followed."""
    written = set()
    for name, field in keys(Config).items():
        sections = [part for part in getattr(field.annotation, "__args__", ()) if hasattr(part, "model_fields")]
        written |= {f"{name}.{inner}" for inner in keys(sections[0])} if sections else {name}
    assert written == {key.name for key in KEYS} | {"branches"}


def test_policy_for_nothing_is_the_operators() -> None:
    """Absent = defaults."""
    operators = Policy(trigger_labels=("go",), depth=7)
    assert policy_for(Config(), operators, "main") == operators


def test_policy_for_a_key_without_a_value_is_as_without_the_key() -> None:
    """A value that is commented out behind its colon is unset, and breaks nothing."""
    windows = "freeze: {windows: [{from: '16:00', to: '17:00', zone: }]}\n"
    text = "depth:\nmerge: {title: , method: }\nchecks:\n  timeout:\nbranches: [{match: main, depth: }]\n" + windows
    policy = policy_for(read(text), Policy(depth=7), "main")
    assert replace(policy, freeze=replace(policy.freeze, windows=()), is_named=False) == Policy(depth=7)
    assert len(policy.freeze.windows) == 1


LAYERED = """\
depth: 10
checks: {required: [test, lint], timeout: 1h}
branches:
  - match: [main, release/**]
    depth: 5
    checks: {required: lint}
  - match: release/*
    depth: 3
  - match: "**"
    enabled: false
    checks: {timeout: auto}
"""


@pytest.mark.parametrize(
    ("branch", "depth", "checks", "timeout", "served"),
    [
        ("main", 5, {"lint"}, timedelta(hours=1), True),
        ("release/1", 5, {"lint"}, timedelta(hours=1), True),
        ("other", 10, {"test", "lint"}, None, False),
    ],
)
def test_policy_for_takes_the_first_rule_that_matches(
    branch: str, depth: int, checks: set[str], timeout: timedelta | None, served: bool
) -> None:
    """A branch's rule replaces what it sets, a list as a whole, and leaves the rest as above it."""
    policy = policy_for(read(LAYERED), Policy(), branch)
    assert policy.depth == depth
    assert {check.name for check in policy.checks.required} == checks
    assert policy.checks.timeout == timeout
    assert policy.enabled is served


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("", ("merge-queue",)),
        ("trigger_labels: [a, b]", ("a", "b")),
        ("branches: [{match: main, trigger_labels: [land, Merge-Queue]}, {match: x}]", ("merge-queue", "land")),
        ("trigger_labels: a\nbranches: [{match: main, trigger_labels: A}, {match: x, trigger_labels: c}]", ("a", "c")),
    ],
)
def test_trigger_labels_of_all_branches_once_each(text: str, labels: tuple[str, ...]) -> None:
    """A sweep asks GitHub once for each label that may queue somewhere."""
    assert labels_of(read(text), Policy()) == labels


def test_as_keys_shows_what_was_written() -> None:
    """What is printed as effective is in the words of the file, so that it can be compared."""
    shown = as_keys(ALL_OF_IT)
    assert shown["checks"] == {
        "required": [{"name": "build", "app": 15368}, "test"],
        "queue_only": ["e2e"],
        "testing_label": "In test",
        "ignored": ["coverage/*"],
        "land_without": True,
        "timeout": "1h30m",
        "fallback_timeout": "3h",
        "reruns": 0,
        "cancel_outdated": False,
        "prices": {"self-hosted": 0.002},
        "untested_paths": ["CHANGELOG.md", "docs/**"],
        "first_report": "1h",
        "settle": "30s",
        "flaky": [{"name": "e2e", "until": "2026-12-31"}],
    }
    assert shown["capacity"] == [{"name": "gpu", "checks": ["gpu/*", "bench"], "runs": 2}]
    assert shown["priority"] == {
        "labels": {
            "urgent": 10,
            "hotfix": {"priority": 100, "hotfix": True, "preempts": True},
            "mends": {"priority": 0, "fixes_base": True},
        },
        "ageing": "30m",
    }
    assert shown["freeze"]["windows"] == ["fri 16:00 to mon 08:00 Europe/Berlin (Weekend)"]
    assert as_keys(Policy())["merge"] == {
        "method": "auto",
        "method_labels": {},
        "title": None,
        "body": None,
        "delete_branch": False,
        "queued_by": False,
        "green_branch": None,
        "tested_refs": [],
        "notes": False,
    }


@pytest.mark.parametrize(
    ("labels", "fixes"),
    [
        (None, ("merge-queue-fix",)),
        ("{}", ("merge-queue-fix",)),
        ("{hotfix: {hotfix: true}}", ("merge-queue-fix",)),
        ("{mends: {fixes_base: true}}", ("mends",)),
        ("{mends: {fixes_base: true}, Mends too: {fixes_base: true}}", ("mends", "Mends too")),
        ("{Merge-Queue-Fix: 7}", ()),
    ],
)
def test_red_base_can_be_fixed_whatever_labels_are_configured(labels: str | None, fixes: tuple[str, ...]) -> None:
    """Where no label marks a fix the usual one does, unless the configuration gives that label another meaning."""
    text = "" if labels is None else f"priority: {{labels: {labels}}}\n"
    policy = policy_for(read(text), Policy(), "main")
    assert policy.fix_labels == fixes
    assert policy_for(read(text), policy, "main") == policy


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("", ()),
        ("checks: {testing_label: a}", ()),
        ("checks: {queue_only: e2e}", ("merge-queue-testing",)),
        ("checks: {queue_only: e2e}\nbranches: [{match: x, checks: {testing_label: a}}]", ("merge-queue-testing", "a")),
        ("branches: [{match: main, checks: {queue_only: e2e, testing_label: a}}, {match: x}]", ("a",)),
    ],
)
def test_testing_labels_are_those_of_branches_with_queue_only_checks(text: str, labels: tuple[str, ...]) -> None:
    """P7: IMQ creates no label that it does not set."""
    assert queue_only_labels_of(read(text), Policy()) == labels
