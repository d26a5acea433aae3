"""Classify GitHub's refusals to update, to merge, and to move the base.

One HTTP status has several causes, which facts and then GitHub's message distinguish.

Sources: GitHub's documentation of `update-branch` (422, 403) and of merging (405, 409), and messages that people have
reported.
"""

import re
from dataclasses import replace
from datetime import datetime, timedelta

from queue_engine.config.model import Policy
from queue_engine.core.timing.backoff import no_jitter, wait
from queue_engine.domain.facts import OWN_CHECK, CheckState, MergeMethod, PullRequest
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import RunState
from queue_engine.planner.actions import Action, Block, Dequeue, FactKind, Facts, HoldLanding, ReadFact, Save, Wait
from queue_engine.planner.check_limits import check_limit, timed_out
from queue_engine.rules.eligibility import why_not_editable
from queue_engine.rules.transitions import after_poll, blocked, enter, up_to_date, with_new_head

PHRASES: tuple[tuple[str, Reason], ...] = (
    # Obstacles that only a maintainer or the operator can remove come first: an approval would not help.
    ("merge queue", Reason.NATIVE_QUEUE_REQUIRED),
    # An App lacks a permission (kong-operator #4536, auto-pull-request-merge #481), a token of a person a scope (mantid
    # #41541).
    ("without `workflows` permission", Reason.WORKFLOWS_PERMISSION),
    ("without `workflow` scope", Reason.WORKFLOWS_PERMISSION),
    # REST with 403 (Kodiak #923), GraphQL (git-stk #306), and a branch that lacks the tip of the one below.
    ("merging stacked prs", Reason.STACKED),
    ("is part of a stack", Reason.STACKED),
    ("not a linear descendant", Reason.STACKED),
    ("locked branch", Reason.BRANCH_LOCKED),
    ("cannot update this protected ref", Reason.BRANCH_LOCKED),
    ("not authorized to push to this branch", Reason.PUSH_RESTRICTED),
    # The repository's setting (mergify #48, dependabot-pr-action #17), and a ruleset (termux-packages #23456).
    ("are not allowed on this repository", Reason.METHOD_NOT_ALLOWED),
    ("is not an allowed merge method", Reason.METHOD_NOT_ALLOWED),
    # Rules for commit messages, e-mail addresses and the like. GitHub's pages "Available rules for rulesets" and
    # "Creating rulesets" have these operators, each with "must" and "must not". A refused branch and a refused tag are
    # quoted in the words of the operator; no thread quotes one with "must not".
    ("a given regex pattern", Reason.COMMIT_RULES),
    ("a matching pattern", Reason.COMMIT_RULES),
    # GitHub cannot replay the commits (kangarko/Boss #1455).
    ("can't be rebased", Reason.REBASE_IMPOSSIBLE),
    ("requesting changes", Reason.CHANGES_REQUESTED),
    ("code owner review", Reason.CODE_OWNER_MISSING),
    ("approving review", Reason.APPROVAL_MISSING),
    ("someone other than the last pusher", Reason.APPROVAL_MISSING),
    ("conversation must be resolved", Reason.CONVERSATIONS_UNRESOLVED),
    ("must have verified signatures", Reason.SIGNATURES_MISSING),
    ("missing successful active", Reason.DEPLOYMENT_MISSING),
)
"""Phrases of GitHub's messages, in lower case, and the reason that each stands for; the first match counts."""

_OF_RULESETS = "repository rule violations"
"""What a refusal by rulesets begins with (DSACMS/repo-scaffolder #342)."""
_OF_UPDATES = (
    "expected head sha",  # mergify #443
    "no new commits",  # jules-sdk #126
    "conflict",
    "permission to update",  # gitea-backporter #101, pyvista-tutorial #564
    "status check",  # mislav/hub #2644, dependabot-core #3998
    "protected branch",  # dependabot-core #3998, kubeflow/pipelines #4384
)
"""Of the 422 answers to `update-branch`: a head that moved, nothing to update, a merge that fails, a fork that keeps
others out, and rules of the head branch."""
_BASE_MODIFIED = "base branch was modified"
"""With 405, for a base that has moved (cli #12748), and also for one that has not (php-github-api #497)."""
_HEAD_OUTDATED = "head branch is out of date"
"""With 405 or 409 (strands-labs/robots #2538). The base has moved (fullsend-ai/fullsend #2432, gabrielkoerich/orch
#3371), or for some minutes GitHub does not know a new head. Then GitHub may also say "Head branch was modified" of a
head that has not moved (open-learning-exchange/myplanet #15713, dlang-bot #77)."""
_HEAD_MODIFIED = "head branch was modified"
_STATUS_CHECK = "status check"
_ENDED_BADLY = ("fail", "error", "cancel", "timed out", "action required", "stale")
_AWAITS_RESULTS = ("waiting for results", "waiting for code scanning results", "still expecting")
"""Code scanning: "Code scanning is waiting for results from CodeQL for the commits ..." (codeql #19459), "Waiting for
Code Scanning results. Code Scanning may not be configured for the target branch." (agent-state-dashboard #71), "Code
scanning is still expecting 2 results from CodeQL" (microsoft/apm #2968)."""
_CHECK_NAMED = re.compile(
    r'status check "([^"]+)"|(?:waiting for results|still expecting \d+ results?) from ([^.\n]+?)(?: for |[.\n]|$)',
    re.IGNORECASE,
)
_QUOTED = re.compile(r""""[^"\n]*"|`[^`\n]*/[^`\n]*`|(?<=required workflow )'[^\n]*?'(?= is )""")
"""Names of checks, workflows and files, as GitHub quotes them; they are no phrases, even if one is "merge queue"."""
_PASSING = (_BASE_MODIFIED, _HEAD_OUTDATED, _HEAD_MODIFIED, _STATUS_CHECK, *_AWAITS_RESULTS)
"""Phrases of refusals that pass by themselves and have nothing to do with conflicts."""


_OF_PULL = frozenset(
    {
        Reason.STACKED,
        Reason.CHANGES_REQUESTED,
        Reason.CODE_OWNER_MISSING,
        Reason.APPROVAL_MISSING,
        Reason.CONVERSATIONS_UNRESOLVED,
        Reason.SIGNATURES_MISSING,
        Reason.DEPLOYMENT_MISSING,
        Reason.REBASE_IMPOSSIBLE,
        Reason.COMMIT_RULES,
    }
)
"""What the pull request itself lacks: others of its train may land without it."""


def explains_update(message: str) -> bool:
    """Whether GitHub's message says why it updates no branch; any other one may come from GitHub in trouble."""
    small = _without_names(message)
    return _names_rule(message) or forbids_merge_commits(message) or any(words in small for words in _OF_UPDATES)


def _names_rule(message: str) -> bool:
    return named(message) is not None or _OF_RULESETS in _without_names(message)


def named(message: str) -> Reason | None:
    """Return the reason that GitHub's message stands for, None if unknown; names of checks and files do not count."""
    small = _without_names(message)
    return next((reason for phrase, reason in PHRASES if phrase in small), None)


def judge_refused_update(entry: Entry, message: str, facts: Facts, policy: Policy, now: datetime) -> Action:
    """Find the cause of a refused update (422) by facts: a new head, nothing to update, a conflict, or a rule.

    GitHub refuses by its present data, but answers reads from replicas: a head that was pushed meanwhile (mergify #443)
    may show seconds later.
    """
    if facts.head_protected:
        return Dequeue(Reason.HEAD_PROTECTED, detail=message)
    if facts.pull is None:
        return ReadFact(FactKind.PULL)
    if facts.pull.head_sha != entry.head_sha:
        return Save(with_new_head(entry, facts.pull.head_sha, policy, now))
    if facts.comparison is None:
        return ReadFact(FactKind.COMPARISON)
    if facts.comparison.behind == 0:
        return Save(up_to_date(entry, facts.comparison, now))
    if named(message) is Reason.WORKFLOWS_PERMISSION:
        return await_permission(entry, message, policy, now)
    if forbids_merge_commits(message):
        return Dequeue(Reason.HEAD_LINEAR, detail=message)
    if facts.update_forbidden:
        return Dequeue(_why_forbidden(entry, facts.pull), detail=message)
    if facts.pull.mergeable is False or "conflict" in _without_names(message):
        return Dequeue(Reason.CONFLICT)
    failing = entry.run.github_failing_since
    ended = now - (failing or entry.status_since) >= policy.timeouts.update
    unexplained = not _names_rule(message) and entry.run.polls < policy.update_refusals
    if facts.pull.mergeable is True and (ended or not unexplained):
        return Dequeue(Reason.UPDATE_REFUSED, detail=message)
    if ended:
        return Dequeue(Reason.MERGEABLE_UNKNOWN, detail=message)
    waiting = after_poll(entry.run, policy.ask_again, now)
    return Wait(waiting, waiting.next_poll_at or now, failing=failing is not None)


def _why_forbidden(entry: Entry, pull: PullRequest) -> Reason:
    if pull.head_repository == entry.repository.full_name:
        return Reason.PERMISSION_MISSING
    return Reason.UPDATE_REFUSED if pull.maintainer_can_modify else why_not_editable(pull)


def judge_refused_merge(entry: Entry, message: str, facts: Facts, policy: Policy, now: datetime) -> Action | None:
    """Judge a refused merge: 405 and 409 may pass or may be final. None: try again at once with fresh facts."""
    if named(message) is Reason.WORKFLOWS_PERMISSION:
        return await_permission(entry, message, policy, now)
    if facts.merge_denied is not None:
        return Dequeue(named(message) or facts.merge_denied, detail=message)
    if facts.pull is not None and facts.pull.mergeable is False:
        return Dequeue(Reason.CONFLICT)
    if _HEAD_OUTDATED in message.lower() and _lacks_base(facts) is not False:
        return None
    known = named(message)
    if known is Reason.METHOD_NOT_ALLOWED and facts.refused_methods:
        return None
    if known is not None:
        return Dequeue(known, detail=message)
    unexplained = not any(phrase in message.lower() for phrase in _PASSING) and not forbids_merge_commits(message)
    if facts.pull is not None and facts.pull.mergeable is None and unexplained:
        # GitHub refuses like this until it has computed whether there is a conflict, which may take minutes.
        return _await_mergeable(entry, message, policy, now)
    if misses_own_check(message) and entry.own_check_required:
        return _await_own_check(entry, message, policy, now)
    if awaits_check(message):
        return _await_check(entry, message, _names(message), facts, policy, now)
    if forbids_merge_commits(message):
        lasting = Dequeue(Reason.LINEAR_HISTORY_REQUIRED, detail=message)
        return None if facts.refused_methods or entry.run.merge_refusals < policy.merge_refusals else lasting
    return _await_workflow(entry, message, facts, policy, now) or _ask_again(entry, message, policy, now)


def judge_refused_member(entry: Entry, message: str, facts: Facts, policy: Policy, now: datetime) -> Action | None:
    """Judge the refused merge of a train's member. None: try again at once with fresh facts.

    A member leaves alone for what its own pull request lacks. IMQ's own check may have become required meanwhile: then
    it passes first. Any other obstacle stops the landing, at once if it is final: the base must not rest for long on
    members whose tree no run tested. One that GitHub names holds for all.
    """
    known = named(message)
    if known is Reason.WORKFLOWS_PERMISSION:
        return await_permission(entry, message, policy, now)
    if known in _OF_PULL:
        return Dequeue(known, detail=message)
    if known is Reason.METHOD_NOT_ALLOWED and facts.refused_methods:
        return None
    if known is not None:
        return HoldLanding(message, reason=known)
    if misses_own_check(message) and not entry.own_check_required:
        return Save(replace(entry, own_check_required=True, run=replace(entry.run, merge_requested_at=None)))
    deadline = (entry.run.refused_since or now) + policy.refusal_timeout
    if facts.merge_denied is not None or (now >= deadline and entry.run.merge_refusals >= policy.merge_refusals):
        return HoldLanding(message)
    again = now + wait(policy.ask_again, entry.run.merge_refusals, random=no_jitter)
    run = replace(entry.run, merge_requested_at=None, next_poll_at=again)
    return Wait(run, again)


def _lacks_base(facts: Facts) -> bool | None:
    """Whether the head lacks commits of its base; None if this pass has not read that."""
    if facts.comparison is not None:
        return facts.comparison.behind > 0
    return None if facts.snapshot is None or facts.snapshot.behind is None else facts.snapshot.behind > 0


def _await_workflow(entry: Entry, message: str, facts: Facts, policy: Policy, now: datetime) -> Action | None:
    """Wait for workflows where a ruleset requires them. None: there is no such rule, or nothing is under way.

    GitHub lists no checks for that rule. It says "Required workflow 'X' is not satisfied" (devantler-tech/platform
    #3136, of its own merge queue), whether X runs, failed or never started. So IMQ reads rules, checks, and workflow
    runs, which may have no job yet.
    """
    if any(phrase in message.lower() for phrase in _PASSING):
        return None
    if facts.rules is None:
        return ReadFact(FactKind.RULES)
    if not facts.rules.workflows:
        return None
    if facts.reports is None:
        return ReadFact(FactKind.CHECKS)
    under_way = sorted({report.name for report in facts.reports if report.state is CheckState.PENDING})
    if not under_way and facts.workflow_runs is None:
        return ReadFact(FactKind.WORKFLOW_RUNS)
    names = tuple(under_way) or _not_started(facts)
    return _await_check(entry, message, names, facts, policy, now) if names else None


def _not_started(facts: Facts) -> tuple[str, ...]:
    """Return the names of workflow runs under way of which no job has started."""
    started = {report.suite for report in facts.reports or () if report.started}
    return tuple(sorted({run.name for run in facts.workflow_runs or () if run.under_way and run.suite not in started}))


def _ask_again(entry: Entry, message: str, policy: Policy, now: datetime) -> Action | None:
    """Retry until the time limit of refusals that may pass. IMQ also retries a final refusal that it does not know.

    GitHub may say "is expected" or "is in progress" for minutes after the check has passed (automerge-action #35, kargo
    #6397).
    """
    tried_enough = entry.run.merge_refusals >= policy.merge_refusals
    deadline = (entry.run.refused_since or now) + policy.refusal_timeout
    if now >= deadline and tried_enough:
        return Dequeue(Reason.REFUSED_BY_RULES, detail=message)
    if _BASE_MODIFIED in message.lower() and not tried_enough:
        return None
    again = now + wait(policy.ask_again, entry.run.merge_refusals, random=no_jitter)
    if now < deadline:
        again = min(again, deadline)
    if _STATUS_CHECK in message.lower():
        return _checked_again(entry, now, again, now)
    return Wait(replace(entry.run, next_poll_at=again), again)


def await_permission(entry: Entry, message: str, policy: Policy, now: datetime) -> Block | Dequeue:
    """Block an entry until a maintainer grants IMQ the permission to change workflows; its queue proceeds (P5).

    A webhook reports the grant. In case that webhook is lost, IMQ retries, and doubles its wait each time. The entry is
    dequeued only at the limit of all waits.
    """
    since = now if entry.blocked_for else entry.blocked_since or now
    if now - since >= policy.timeouts.hold:
        return Dequeue(Reason.WORKFLOWS_PERMISSION, detail=message)
    again = min(max(now - since, policy.permission_retry), policy.timeouts.hold - (now - since))
    return Block(blocked(entry, since, now + again, now), Reason.WORKFLOWS_PERMISSION, message)


def awaits_check(message: str | None) -> bool:
    """Whether GitHub refuses a merge only because checks have not completed, or not started."""
    small = (message or "").lower()
    awaited = _STATUS_CHECK in small or any(phrase in small for phrase in _AWAITS_RESULTS)
    outcome = _without_names(_CHECK_NAMED.sub("", small))
    return awaited and not any(phrase in outcome for phrase in _ENDED_BADLY)


def misses_checks(message: str) -> bool:
    """Whether GitHub refuses to move the base for checks alone, whatever their outcome."""
    small = _without_names(message)
    return any(phrase in small for phrase in (_STATUS_CHECK, *_AWAITS_RESULTS)) and "pull request" not in small


def misses_own_check(message: str | None) -> bool:
    """Whether GitHub refuses a merge only because it does not know yet that IMQ's own check passes."""
    return message is not None and awaits_check(message) and OWN_CHECK in _names(message)


def _names(message: str) -> tuple[str, ...]:
    """Return the missing checks and code scanning tools that GitHub's message names."""
    return tuple(check or tool for check, tool in _CHECK_NAMED.findall(message))


def _await_check(
    entry: Entry, message: str, names: tuple[str, ...], facts: Facts, policy: Policy, now: datetime
) -> Action:
    """Wait for a check that GitHub misses, within the time limit of checks, from the first refusal on.

    As for every check, the limit counts from its start: while a workflow run waits for a machine, so does IMQ.

    A few quick polls come first, in case that the check was rerun or became required just now. Then IMQ waits for its
    report.
    """
    since, limit = entry.run.refused_since or now, check_limit(entry.run, policy, names)
    if now - since >= limit and entry.run.merge_refusals >= policy.merge_refusals:
        if facts.reports is None:
            return ReadFact(FactKind.CHECKS)
        if facts.workflow_runs is None:
            return ReadFact(FactKind.WORKFLOW_RUNS)
        if now - since >= limit + policy.stall_timeout or not _starts_late(facts, limit, now):
            return timed_out(entry.run, names or (message,), policy)
    slow = entry.run.merge_refusals - policy.merge_refusals
    waiting = wait(policy.ask_again, entry.run.merge_refusals, random=no_jitter)
    if slow > 0:
        waiting = wait(policy.check_poll, slow - 1, random=no_jitter)
    return _checked_again(replace(entry, run=replace(entry.run, pending_checks=names)), since, now + waiting, now)


def _starts_late(facts: Facts, limit: timedelta, now: datetime) -> bool:
    """Whether a workflow run has not started yet, or a job of Actions started so late that it has time left."""
    running = (each.started_at for each in facts.reports or () if each.by_actions and each.state is CheckState.PENDING)
    return bool(_not_started(facts)) or any(at is not None and now - at < limit for at in running)


def _checked_again(entry: Entry, since: datetime, again: datetime, now: datetime) -> Save:
    """Check the entry again: a check has become required, or was rerun."""
    checking = enter(entry, RunState.TESTING, now)
    run = replace(checking.run, merge_requested_at=None, next_poll_at=again, checks_since=since)
    return Save(replace(checking, run=run))


def _await_own_check(entry: Entry, message: str, policy: Policy, now: datetime) -> Action:
    """Retry until the time limit of refusals that may pass: GitHub may know the check of a moment ago only later."""
    deadline = (entry.run.refused_since or now) + policy.refusal_timeout
    if now >= deadline and entry.run.merge_refusals >= policy.merge_refusals:
        return Dequeue(Reason.REFUSED_BY_RULES, detail=message)
    again = now + wait(policy.ask_again, entry.run.merge_refusals, random=no_jitter)
    return Wait(replace(entry.run, next_poll_at=again), again)


def _await_mergeable(entry: Entry, message: str, policy: Policy, now: datetime) -> Action:
    """Retry until the time limit for GitHub's computation ends, but at least as often as after any other refusal.

    The limit counts from the first refusal: a ready entry may have waited for hours before, at a freeze.
    """
    deadline = (entry.run.refused_since or now) + policy.timeouts.update
    if now >= deadline and entry.run.merge_refusals >= policy.merge_refusals:
        return Dequeue(Reason.MERGEABLE_UNKNOWN, detail=message)
    again = now + wait(policy.ask_again, entry.run.merge_refusals, random=no_jitter)
    if now < deadline:
        again = min(again, deadline)
    return Wait(replace(entry.run, next_poll_at=again), again)


def refused_merge(message: str, method: MergeMethod, refused: frozenset[MergeMethod]) -> Facts:
    """Return the facts after a refused merge; `refused` are the methods that GitHub refused before in this pass.

    A refusal that names the method excludes the method: GitHub does not show an App which ones a repository allows.
    """
    excludes = named(message) is Reason.METHOD_NOT_ALLOWED or (
        method is MergeMethod.MERGE and forbids_merge_commits(message)
    )
    return Facts(merge_refused=message, refused_methods=refused | {method} if excludes else refused)


def forbids_merge_commits(message: str | None) -> bool:
    """Whether GitHub refuses merge commits. Without the right to read settings, only this refusal shows that rule."""
    return message is not None and "merge commits" in _without_names(message)


def _without_names(message: str) -> str:
    return _QUOTED.sub("", message.lower())
