"""Normalize deliveries to events of the engine, or to nothing. Pure functions."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from bot.gateway.facts import PASSING_CONCLUSIONS
from bot.webhooks import known_facts, reviews
from bot.webhooks.payloads import (
    CheckRunEvent,
    CheckSuiteEvent,
    CommentEvent,
    Payload,
    PullRequestEvent,
    PushEvent,
    StatusEvent,
    WorkflowRunEvent,
)
from queue_engine.commands.comments import commands_in
from queue_engine.domain.known_facts import RULES, Fact, KnownName
from queue_engine.domain.webhook_event import WebhookEvent, WebhookKind
from queue_engine.rules.check_timing import safe_link

_BRANCH_PREFIX = "refs/heads/"

CONFIGURATION = ".github/imq.yml"
"""The path of a repository's configuration."""

_WORKFLOWS = (".github/workflows", ".github/actions")
"""Where the files are that say which checks run on candidates."""

_OWN_RUN = re.compile(r"imq:\d+:(?P<number>[1-9]\d{0,9}):")
"""The beginning of the external id that `notifications.render.check_run` gives to IMQ's check runs."""

_CONSENT_ACTIONS = frozenset(
    {"unlabeled", "closed", "reopened", "converted_to_draft", "ready_for_review", "edited", "synchronize"}
    | {"auto_merge_enabled", "auto_merge_disabled"}
)
_INSTALLED_ACTIONS: Mapping[str, frozenset[str]] = {
    "installation": frozenset({"created", "deleted", "suspend", "unsuspend", "new_permissions_accepted"}),
    "installation_repositories": frozenset({"added", "removed"}),
    "installation_target": frozenset({"renamed"}),
    "repository": frozenset({"renamed", "transferred", "archived", "unarchived", "privatized", "publicized"}),
}


_ACTIONS: Mapping[str, frozenset[str]] = {
    "pull_request": _CONSENT_ACTIONS | {"labeled", "unlocked"},
    "pull_request_review": reviews.REVIEW_ACTIONS,
    "pull_request_review_thread": reviews.THREAD_ACTIONS,
    "issue_comment": frozenset({"created"}),
    "check_run": frozenset({"completed", "rerequested"}),
    "check_suite": frozenset({"completed", "rerequested"}),
    **_INSTALLED_ACTIONS,
}
"""Event -> its actions that can concern a queue."""


class MalformedPayload(Exception):
    """A payload lacks what GitHub documents for its event. The message names the places."""


def normalize(event: str, delivery: str, payload: Mapping[str, Any], *, own_app_id: int) -> WebhookEvent | None:
    """Normalize a delivery of this event (`X-GitHub-Event`); return None when it concerns no queue.

    Check runs and suites of IMQ's own App concern none. Raises MalformedPayload.
    """
    normalizer = _NORMALIZERS.get(event)
    if normalizer is None:
        return None
    try:
        return normalizer(event, delivery, payload, own_app_id)
    except ValidationError as error:
        places = sorted({".".join(map(str, problem["loc"])) or "the payload" for problem in error.errors()})
        raise MalformedPayload(f"{event}: missing or wrong: {', '.join(places)}") from None


def may_matter(event: str, action: str | None) -> bool:
    """Whether a delivery of this event and action can concern a queue."""
    return event in _NORMALIZERS and (event not in _ACTIONS or action in _ACTIONS[event])


def why_ignored(event: str, payload: Mapping[str, Any]) -> str:
    """Say why `normalize` ignored a delivery, for readers of the App's log of deliveries."""
    if event not in _NORMALIZERS:
        return f"{event} is no event that concerns a queue"
    action = payload.get("action")
    name = f"{event}.{action}" if isinstance(action, str) and action.isidentifier() else event
    return f"{name}: nothing in it can change a queue"


def _pull_request(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    event = PullRequestEvent.model_validate(payload)
    head_sha = event.pull_request.head.sha
    fields: dict[str, Any] = {
        "number": event.pull_request.number,
        "branch": event.pull_request.base and event.pull_request.base.ref,
        "facts": known_facts.of_pull_request_event(event),
    }
    label = event.label.name if event.label else None
    if event.action == "labeled":
        # A label that was deleted at the same time is missing here.
        if label is None:
            return None
        updated_at = event.pull_request.updated_at
        return event.webhook_event(
            WebhookKind.LABELED, delivery, **fields, label=label, head_sha=head_sha, updated_at=updated_at
        )
    if event.action == "unlocked":
        return event.webhook_event(WebhookKind.UNLOCKED, delivery, **fields)
    if event.action not in _CONSENT_ACTIONS:
        return None
    if event.action == "edited" and event.changes.base is None:
        if event.changes.title is None:
            return None
        return event.webhook_event(WebhookKind.CONSENT, delivery, **fields, title=event.pull_request.title)
    if event.action == "synchronize":
        return event.webhook_event(WebhookKind.CONSENT, delivery, **fields, before=event.before, head_sha=head_sha)
    return event.webhook_event(WebhookKind.CONSENT, delivery, **fields, label=label)


def _comment(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    event = CommentEvent.model_validate(payload)
    # An edited comment is no command: people who may edit others' comments could give commands in their name.
    if event.action != "created" or event.issue.pull_request is None:
        return None
    if event.sender is None or event.sender.type == "Bot" or event.comment.performed_via_github_app is not None:
        return None
    commands = commands_in(event.comment.body or "")
    if not commands:
        return None
    # The comment itself was the last change of the pull request.
    stamps = [stamp for stamp in (event.issue.updated_at, event.comment.created_at) if stamp is not None]
    return event.webhook_event(
        WebhookKind.COMMENT,
        delivery,
        number=event.issue.number,
        comment_id=event.comment.id,
        commands=commands,
        association=event.comment.author_association,
        author=event.issue.user.login if event.issue.user else None,
        updated_at=max(stamps, default=None),
        facts=known_facts.of_comment_event(event),
    )


def _check_run(_event: str, delivery: str, payload: Mapping[str, Any], own_app_id: int) -> WebhookEvent | None:
    event = CheckRunEvent.model_validate(payload)
    run = event.check_run
    if event.action == "rerequested" and run.app is not None and run.app.id == own_app_id:
        known = _OWN_RUN.match(run.external_id or "")
        return _rerun(event, delivery, run.head_sha, [int(known["number"])] if known else [])
    if event.action != "completed" or (run.app is not None and run.app.id == own_app_id):
        return None
    passed = run.conclusion in PASSING_CONCLUSIONS
    facts = known_facts.of_check_run_event(event)
    return event.webhook_event(
        WebhookKind.CHECK,
        delivery,
        head_sha=run.head_sha,
        check_name=run.name,
        check_url=safe_link(run.html_url or run.details_url),
        check_started=run.started_at,
        check_ended=run.completed_at,
        passed=passed,
        skipped=run.conclusion == "skipped",
        facts=facts,
    )


def _rerun(event: CheckRunEvent | CheckSuiteEvent, delivery: str, head: str, numbers: list[int]) -> WebhookEvent | None:
    """Normalize a person's "Re-run" on IMQ's own check. A bot's does not count: each answer could cause the next."""
    if event.sender is None or event.sender.type == "Bot":
        return None
    return event.webhook_event(WebhookKind.RERUN, delivery, head_sha=head, numbers=tuple(numbers))


def _check_suite(_event: str, delivery: str, payload: Mapping[str, Any], own_app_id: int) -> WebhookEvent | None:
    event = CheckSuiteEvent.model_validate(payload)
    suite = event.check_suite
    if event.action == "rerequested" and suite.app is not None and suite.app.id == own_app_id:
        return _rerun(event, delivery, suite.head_sha, [pull.number for pull in suite.pull_requests])
    if event.action != "completed" or (suite.app is not None and suite.app.id == own_app_id):
        return None
    without_jobs = suite.conclusion == "action_required" or suite.broke_at_once
    how = {"without_jobs": without_jobs, "skipped": suite.conclusion == "skipped"}
    return event.webhook_event(WebhookKind.CHECKS, delivery, head_sha=suite.head_sha, **how)


def _workflow_run(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    """Normalize a run that starts, or that has no jobs: it waits for approval, which its request already says
    (pytorch/test-infra #8028), or its file is invalid."""
    event = WorkflowRunEvent.model_validate(payload)
    run = event.workflow_run
    without_jobs = {"action_required", "startup_failure"} & {run.status, run.conclusion} or run.status == "waiting"
    if not without_jobs and event.action != "in_progress":
        return None
    return event.webhook_event(WebhookKind.CHECKS, delivery, head_sha=run.head_sha, without_jobs=bool(without_jobs))


def _status(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    event = StatusEvent.model_validate(payload)
    if event.state == "pending":
        return None
    passed = event.state == "success"
    facts = known_facts.of_status_event(event)
    return event.webhook_event(
        WebhookKind.CHECK,
        delivery,
        head_sha=event.sha,
        check_name=event.context,
        check_url=safe_link(event.target_url),
        check_ended=event.updated_at,
        passed=passed,
        facts=facts,
    )


def _push(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    event = PushEvent.model_validate(payload)
    if not event.ref.startswith(_BRANCH_PREFIX):
        return None
    # A deleted branch has no tip; GitHub writes forty zeros, which are no commit.
    tip = None if event.deleted else event.after
    branch = event.ref.removeprefix(_BRANCH_PREFIX)
    default = event.repository.default_branch == branch
    named = not event.deleted and event.touches(CONFIGURATION)
    workflows = not event.deleted and any(map(event.touches, _WORKFLOWS))
    return event.webhook_event(
        WebhookKind.BASE_MOVED,
        delivery,
        branch=branch,
        before=event.before,
        head_sha=tip,
        config=named or workflows or not (event.deleted or event.lists_all_changes),
        config_named=named,
        default_branch=default,
        facts=known_facts.of_push_event(event, branch),
    )


def _rules(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    # An organisation's ruleset comes without a repository: it concerns the whole installation.
    facts = (Fact(subject=RULES, statement=KnownName()),)
    return Payload.model_validate(payload).webhook_event(WebhookKind.RULES, delivery, facts=facts)


def _teams(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    return Payload.model_validate(payload).webhook_event(WebhookKind.TEAMS, delivery)


def _installation(event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    parsed = Payload.model_validate(payload)
    return parsed.webhook_event(WebhookKind.INSTALLED, delivery) if parsed.action in _INSTALLED_ACTIONS[event] else None


_NORMALIZERS: Mapping[str, Callable[[str, str, Mapping[str, Any], int], WebhookEvent | None]] = {
    "pull_request": _pull_request,
    "pull_request_review": reviews.of_review,
    "pull_request_review_thread": reviews.of_thread,
    "issue_comment": _comment,
    "check_run": _check_run,
    "check_suite": _check_suite,
    "workflow_run": _workflow_run,
    "status": _status,
    "push": _push,
    "branch_protection_configuration": _rules,
    "branch_protection_rule": _rules,
    "repository_ruleset": _rules,
    "membership": _teams,
    "team": _teams,
    "installation": _installation,
    "installation_repositories": _installation,
    "installation_target": _installation,
    "repository": _installation,
}
