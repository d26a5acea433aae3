"""What an organisation's shared configuration may change: only what makes the operator's rules stricter."""

from dataclasses import replace
from datetime import timedelta
from operator import attrgetter
from typing import Any

from queue_engine.config.file import policy_for
from queue_engine.config.model import (
    KEYS,
    BlockRules,
    CheckRules,
    CommentRules,
    EntryRules,
    FreezeRules,
    MergeRules,
    Policy,
    PushRules,
    QueuePermissions,
    WaitLimits,
)
from queue_engine.config.parse import read
from queue_engine.config.shared import limited, tightened
from queue_engine.domain.facts import MergeMethod, Permission, RequiredCheck
from queue_engine.domain.policy import (
    FIX,
    Candidates,
    CommentPolicy,
    CulpritPolicy,
    GithubMergePolicy,
    NotReadyPolicy,
    NotReadyPushPolicy,
    PushPolicy,
    SharedConfig,
    TrainForks,
    TrainSplit,
)

HOUR = timedelta(hours=1)

LOOSENING: dict[str, tuple[str, Any]] = {
    "trigger_labels": ("trigger_labels: [bug, merge-queue]", ("merge-queue",)),
    "depth": ("depth: 1000", 20),
    "tries": ("tries: 20", 2),
    "timeouts.ready": ("timeouts: {ready: 90d}", timedelta(days=30)),
    "on_push.queued": ("on_push: requeue", PushPolicy.DEQUEUE),
    "on_push.requeue_for": ("on_push: {requeue_for: mallory}", frozenset()),
    "auto_merge": ("auto_merge: ignore", GithubMergePolicy.DISABLE),
    "update_label": ("update_label: mine", None),
    "who_may_queue.permission": ("who_may_queue: {permission: triage}", Permission.WRITE),
    "who_may_queue.people": ("who_may_queue: {people: mallory}", frozenset()),
    "who_may_queue.teams": ("who_may_queue: {teams: friends}", frozenset()),
    "priority.labels": ("priority: {labels: {mine: {hotfix: true, preempts: true, fixes_base: true}}}", (FIX,)),
    "priority.ageing": ("priority: {ageing: 7d}", HOUR),
    "fair_share.enabled": ("fair_share: off", True),
    "fair_share.waiting": ("fair_share: {waiting: 100}", 3),
    "fair_share.agents": ("fair_share: {agents: ada}", ()),
    "labels.landed": ("labels: {landed: shipped}", None),
    "labels.failed": ("labels: {failed: broken}", None),
    "merge.title": ('merge: {title: "{title} [skip ci]"}', None),
    "merge.body": ('merge: {body: "Reviewed-by: rhea"}', None),
    "merge.delete_branch": ("merge: {delete_branch: true}", False),
    "merge.green_branch": ("merge: {green_branch: 'release/{base}'}", None),
    "merge.tested_refs": ("merge: {tested_refs: test}", frozenset()),
    "merge.notes": ("merge: {notes: true}", False),
    "checks.testing_label": ("checks: {testing_label: deploy}", "merge-queue-testing"),
    "checks.ignored": ("checks: {ignored: '*'}", ()),
    "checks.land_without": ("checks: {land_without: true}", False),
    "checks.timeout": ("checks: {timeout: 7d}", None),
    "checks.fallback_timeout": ("checks: {fallback_timeout: 7d}", 2 * HOUR),
    "checks.reruns": ("checks: {reruns: 5}", 1),
    "checks.flaky": ("checks: {flaky: {name: e2e, until: 2026-12-31}}", ()),
    "capacity": ("capacity: {name: gpu, checks: gpu, runs: 1}", ()),
    "checks.untested_paths": ("checks: {untested_paths: src/**}", ()),
    "checks.first_report": ("checks: {first_report: 7d}", HOUR / 6),
    "checks.settle": ("checks: {settle: 1s}", timedelta(seconds=10)),
    "timeouts.update": ("timeouts: {update: 7d}", HOUR / 6),
    "timeouts.run": ("timeouts: {run: 7d}", 12 * HOUR),
    "trains.candidates": ("trains: auto", Candidates.OFF),
    "culprit": ("culprit: revert", CulpritPolicy.OFF),
    "trains.runs": ("trains: {runs: auto}", 1),
    "trains.first_report": ("trains: {first_report: 1h}", HOUR / 12),
    "trains.fill_wait": ("trains: {fill_wait: 1h}", None),
    "trains.split": ("trains: {split: single}", TrainSplit.BISECT),
    "trains.forks": ("trains: {forks: on}", TrainForks.REVIEWED),
    "comments.level": ("comments: {level: none}", CommentPolicy.ALL),
    "comments.texts": ("comments: {texts: {landed: Sign in at evil.example}}", {}),
}
"""By key what would loosen the operator's rules, and what counts instead."""

TIGHTENING: dict[str, tuple[str, Any]] = {
    "enabled": ("enabled: false", False),
    "trigger_labels": ("trigger_labels: Merge-Queue", ("Merge-Queue",)),
    "depth": ("depth: 5", 5),
    "who_may_queue.permission": ("who_may_queue: {permission: maintain}", Permission.MAINTAIN),
    "require.approvals": ("require: {approvals: 2}", 2),
    "require.labels": ("require: {labels: qa}", frozenset({"qa"})),
    "require.authors": ("require: {authors: bob}", frozenset({"bob"})),
    "require.files": ("require: {files: docs/**}", ("docs/**",)),
    "require.reviews_done": ("require: {reviews_done: true}", True),
    "blocking.authors": ("blocking: {authors: bob}", frozenset({"bob"})),
    "blocking.files": ("blocking: {files: docs/**}", ("docs/**",)),
    "blocking.labels": ("blocking: {labels: hold}", frozenset({"hold"})),
    "blocking.titles": ("blocking: {titles: ^WIP}", ("^WIP",)),
    "merge.method": ("merge: {method: squash}", MergeMethod.SQUASH),
    "merge.method_labels": ("merge: {method_labels: {keep: rebase}}", {"keep": MergeMethod.REBASE}),
    "trains.forks": ("trains: {forks: off}", TrainForks.OFF),
    "checks.required": ("checks: {required: test}", frozenset({RequiredCheck("test", None)})),
    "checks.queue_only": ("checks: {queue_only: e2e}", frozenset({RequiredCheck("e2e", None)})),
    "checks.timeout": ("checks: {timeout: 2h}", 2 * HOUR),
    "checks.fallback_timeout": ("checks: {fallback_timeout: 1h}", HOUR),
    "checks.reruns": ("checks: {reruns: 0}", 0),
    "checks.cancel_outdated": ("checks: {cancel_outdated: false}", False),
    "checks.prices": ("checks: {prices: {Big: 0.5}}", {"big": 0.5}),
    "checks.first_report": ("checks: {first_report: 1m}", HOUR / 60),
    "checks.settle": ("checks: {settle: 1m}", HOUR / 60),
    "timeouts.update": ("timeouts: {update: 1m}", HOUR / 60),
    "timeouts.hold": ("timeouts: {hold: 1h}", HOUR),
    "timeouts.ready": ("timeouts: {ready: 1h}", HOUR),
    "on_push.waiting": ("on_push: {waiting: dequeue}", NotReadyPushPolicy.DEQUEUE),
    "when_not_ready": ("when_not_ready: refuse", NotReadyPolicy.REFUSE),
    "timeouts.run": ("timeouts: {run: 1h}", HOUR),
    "culprit": ("culprit: off", CulpritPolicy.OFF),
    "trains.candidates": ("trains: off", Candidates.OFF),
    "trains.max_size": ("trains: {max_size: 4}", 4),
    "trains.first_report": ("trains: {first_report: 1m}", HOUR / 60),
    "freeze.exempt_labels": ("freeze: {exempt_labels: hotfix}", frozenset({"hotfix"})),
}
"""By key, what makes rules stricter, or is harmless, and is followed."""

FIELDS = {key.name: attrgetter(key.name) for key in KEYS}


def wanted(text: str, operator: Policy | None = None) -> Policy:
    return policy_for(read(text), operator or Policy(), "main")


def test_every_key_is_attacked_here_unless_nothing_loosens_it() -> None:
    """A key without an example in LOOSENING is one with which nothing can be loosened from IMQ's defaults."""
    harmless = {key.name for key in KEYS if key.shared.risk == "nothing"}
    # Other operators' settings loosen nothing by these: the defaults are at their end already.
    at_their_end = {"mode", "enabled", "checks.cancel_outdated", "timeouts.hold", "freeze.exempt_labels"}
    at_their_end |= {"require.approvals", "require.authors", "require.files", "require.reviews_done"}
    at_their_end |= {"when_not_ready", "on_push.waiting", "trains.max_size"}
    assert LOOSENING.keys() == FIELDS.keys() - harmless - at_their_end


def test_loosening_key_is_ignored_and_named() -> None:
    """What counts is the operator's; the key is named, with what it may do and why."""
    for key in LOOSENING:
        text, counts = LOOSENING[key]
        policy, loosening = tightened(wanted(text), Policy())
        assert FIELDS[key](policy) == counts, key
        assert [each.key.name for each in loosening] == [key], key
        assert str(loosening[0]).startswith(f"{key} is ignored: in a shared configuration it may "), key


def test_tightening_key_counts() -> None:
    """An organisation can ask for more in all of its repositories."""
    for key in TIGHTENING:
        text, counts = TIGHTENING[key]
        policy, loosening = tightened(wanted(text), Policy())
        assert FIELDS[key](policy) == counts, key
        assert loosening == (), key


def test_freeze_of_the_organisation_counts_with_its_exemptions() -> None:
    """Its own windows, and the labels that are exempt from these."""
    text = "freeze: {windows: [{from: 'fri 16:00', to: 'mon 08:00'}], exempt_labels: [hotfix]}"
    policy, loosening = tightened(wanted(text), Policy())
    assert (len(policy.freeze.windows), policy.freeze.exempt_labels, loosening) == (1, frozenset({"hotfix"}), ())


def test_operators_own_rules_are_kept_beside_those_of_the_organisation() -> None:
    """A list in the file replaces no rule of the operator's, and exempts from no freeze of theirs."""
    freeze = wanted("freeze: {windows: [{from: '16:00', to: '18:00'}]}").freeze.windows
    operator = Policy(
        blocking=BlockRules(labels=frozenset({"held"}), titles=("^draft",)),
        require=EntryRules(2, authors=frozenset({"rhea"}), files=("docs/**",), reviews_done=True),
        checks=CheckRules(required=frozenset({RequiredCheck("lint", 7)}), cancel_outdated=False),
        freeze=FreezeRules(windows=freeze),
        enabled=False,
        depth=0,
        who_may_queue=QueuePermissions(permission=Permission.ADMIN),
        merge=MergeRules(delete_branch=True),
        timeouts=WaitLimits(hold=HOUR),
    )
    text = """\
enabled: true
depth: 9
who_may_queue: {permission: maintain}
blocking: {labels: mine, titles: ^WIP}
require: {approvals: 1, authors: mallory, files: src/**, reviews_done: false}
merge: {delete_branch: true}
checks: {required: test, cancel_outdated: true}
timeouts: {hold: 2h}
freeze: {windows: [{from: '10:00', to: '11:00'}], exempt_labels: [mine]}
"""
    policy, loosening = tightened(wanted(text, operator), operator)
    assert policy.blocking.labels == {"held", "mine"}
    assert policy.blocking.titles == ("^WIP", "^draft")
    assert policy.require == operator.require
    assert policy.checks.required == {RequiredCheck("lint", 7), RequiredCheck("test", None)}
    assert set(freeze) < set(policy.freeze.windows)
    assert (policy.depth, policy.who_may_queue.permission, policy.merge.delete_branch) == (9, Permission.ADMIN, True)
    ignored = {"enabled", "who_may_queue.permission", "checks.cancel_outdated", "timeouts.hold", "freeze.exempt_labels"}
    ignored |= {"require.approvals", "require.authors", "require.files", "require.reviews_done"}
    assert {each.key.name for each in loosening} == ignored


def test_trigger_labels_without_any_of_the_operators_leave_those() -> None:
    """A queue that no label reaches would be none."""
    policy, _ = tightened(wanted("trigger_labels: [bug]"), Policy())
    assert policy.trigger_labels == Policy().trigger_labels


def test_values_that_the_operator_names_may_be_fewer() -> None:
    """Of two of the operator's the file keeps one; a third counts for nothing, and none counts twice."""
    operator = Policy(
        who_may_queue=QueuePermissions(people=frozenset({"ann", "bob"})),
        checks=CheckRules(ignored=("docs", "lint"), timeout=HOUR),
        comments=CommentRules(level=CommentPolicy.OUTCOMES),
        on_push=PushRules(queued=PushPolicy.REQUEUE),
        blocking=BlockRules(titles=("^draft",)),
        freeze=FreezeRules(
            windows=wanted("freeze: {windows: [{from: '16:00', to: '18:00'}]}").freeze.windows,
            exempt_labels=frozenset({"hotfix", "docs"}),
        ),
    )
    text = """\
who_may_queue: {people: [bob, mallory]}
blocking: {titles: [^WIP, ^draft]}
checks: {ignored: [lint, test], timeout: 90m}
on_push: dequeue
freeze: {exempt_labels: [docs, mine]}
comments: {level: all}
"""
    policy, loosening = tightened(wanted(text, operator), operator)
    assert (policy.who_may_queue.people, policy.checks.ignored) == (frozenset({"bob"}), ("lint",))
    assert (policy.blocking.titles, policy.freeze.exempt_labels) == (("^WIP", "^draft"), frozenset({"docs"}))
    assert policy.comments.level is CommentPolicy.ALL, "more comments relax no rule"
    assert (policy.on_push.queued, policy.checks.timeout) == (PushPolicy.DEQUEUE, HOUR)
    ignored = {"who_may_queue.people", "checks.ignored", "checks.timeout", "freeze.exempt_labels"}
    assert {each.key.name for each in loosening} == ignored


def test_empty_file_changes_nothing() -> None:
    """Neither is anything said of it."""
    assert tightened(wanted("# nothing\n"), Policy()) == (Policy(), ())


def test_trusted_configuration_counts_as_it_is() -> None:
    """An operator who trusts its writers says so."""
    policy = wanted("who_may_queue: {people: mallory}")
    assert limited(policy, Policy(), SharedConfig.TRUST) == policy
    for allowed in (SharedConfig.TIGHTEN, SharedConfig.OFF):
        found = limited(policy, Policy(), allowed)
        assert len(found.not_followed) == 1
        assert replace(found, not_followed=()) == Policy()


def test_shared_rule_of_a_branch_does_not_name_it() -> None:
    """Who writes it does not decide in other repositories which branches pull requests are meant to land on."""
    policy = replace(Policy(), is_named=True)
    assert not limited(policy, Policy(), SharedConfig.TIGHTEN).is_named
    assert limited(policy, Policy(), SharedConfig.TRUST).is_named
