"""Normalize deliveries to events of the engine, or to nothing. Pure functions."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from bot.gateway.facts import PASSING_CONCLUSIONS
from bot.webhooks import known_facts
from bot.webhooks.payloads import (
    CheckRunEvent,
    CheckSuiteEvent,
    CommentEvent,
    Payload,
    PullRequestEvent,
    PushEvent,
    ReviewEvent,
    StatusEvent,
    WorkflowRunEvent,
)
from queue_engine.commands.comments import commands_in
from queue_engine.domain.known_facts import RULES, Fact, KnownName
from queue_engine.domain.webhook_event import WebhookEvent, WebhookKind

_BRANCH_PREFIX = "refs/heads/"

CONFIGURATION = ".github/imq.yml"
"""Where a repository keeps its own rules."""

_COMMITS_LISTED = 2048
"""The most commits that GitHub lists in a push ("Webhook events and payloads: push")."""

_CONSENT_ACTIONS = frozenset(
    {"unlabeled", "closed", "reopened", "converted_to_draft", "ready_for_review", "edited", "synchronize"}
)
_INSTALLED_ACTIONS: Mapping[str, frozenset[str]] = {
    "installation": frozenset({"created", "deleted", "suspend", "unsuspend", "new_permissions_accepted"}),
    "installation_repositories": frozenset({"added", "removed"}),
    "installation_target": frozenset({"renamed"}),
    "repository": frozenset({"renamed", "transferred", "archived", "unarchived"}),
}


_ACTIONS: Mapping[str, frozenset[str]] = {
    "pull_request": _CONSENT_ACTIONS | {"labeled"},
    "pull_request_review": frozenset({"submitted", "dismissed"}),
    "issue_comment": frozenset({"created"}),
    "check_run": frozenset({"completed"}),
    "check_suite": frozenset({"completed"}),
    **_INSTALLED_ACTIONS,
}
"""Event -> the only actions of it that can mean something to a queue."""


class MalformedPayload(Exception):
    """A payload lacks what GitHub documents for its event. The message names the places."""


def normalize(event: str, delivery: str, payload: Mapping[str, Any], *, own_app_id: int) -> WebhookEvent | None:
    """The hint in a delivery of this event (`X-GitHub-Event`); None when it means nothing to a queue.

    Check runs and suites of IMQ's own App mean nothing. Raises MalformedPayload.
    """
    distiller = _DISTILLERS.get(event)
    if distiller is None:
        return None
    try:
        return distiller(event, delivery, payload, own_app_id)
    except ValidationError as error:
        places = sorted({".".join(map(str, problem["loc"])) or "the payload" for problem in error.errors()})
        raise MalformedPayload(f"{event}: missing or wrong: {', '.join(places)}") from None


def may_matter(event: str, action: str | None) -> bool:
    """Whether a delivery of this event and action can have a hint in it, whatever else its payload says."""
    return event in _DISTILLERS and (event not in _ACTIONS or action in _ACTIONS[event])


def why_ignored(event: str, payload: Mapping[str, Any]) -> str:
    """Why a delivery of this event, for which `normalize` has no hint, means nothing: for readers of the App's
    log."""
    if event not in _DISTILLERS:
        return f"{event} is no event that a queue goes by"
    action = payload.get("action")
    said = f"{event}.{action}" if isinstance(action, str) and action.isidentifier() else event
    return f"{said}: nothing in it can change a queue"


def _pull_request(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    said = PullRequestEvent.model_validate(payload)
    head_sha = said.pull_request.head.sha
    which: dict[str, Any] = {
        "number": said.pull_request.number,
        "branch": said.pull_request.base and said.pull_request.base.ref,
        "facts": known_facts.of_pull_request_event(said),
    }
    label = said.label.name if said.label else None
    if said.action == "labeled":
        # Without a label it was deleted in the same moment: there is nothing to queue for.
        if label is None:
            return None
        updated_at = said.pull_request.updated_at
        return said.hint(WebhookKind.LABELED, delivery, **which, label=label, head_sha=head_sha, updated_at=updated_at)
    if said.action not in _CONSENT_ACTIONS:
        return None
    if said.action == "edited" and said.changes.base is None:
        if said.changes.title is None:
            return None
        return said.hint(WebhookKind.CONSENT, delivery, **which, title=said.pull_request.title)
    if said.action == "synchronize":
        return said.hint(WebhookKind.CONSENT, delivery, **which, before=said.before, head_sha=head_sha)
    return said.hint(WebhookKind.CONSENT, delivery, **which, label=label)


def _review(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    said = ReviewEvent.model_validate(payload)
    # An edited review says the same in other words.
    if said.action not in {"submitted", "dismissed"}:
        return None
    branch = said.pull_request.base and said.pull_request.base.ref
    return said.hint(
        WebhookKind.REVIEW,
        delivery,
        number=said.pull_request.number,
        branch=branch,
        facts=known_facts.of_review_event(said),
    )


def _comment(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    said = CommentEvent.model_validate(payload)
    # An edited comment is no command: people who may edit others' comments could speak in their name.
    if said.action != "created" or said.issue.pull_request is None:
        return None
    if said.sender is None or said.sender.type == "Bot":
        return None
    commands = commands_in(said.comment.body or "")
    if not commands:
        return None
    # When the comment was made, the pull request changed for the last time: by the comment.
    stamps = [stamp for stamp in (said.issue.updated_at, said.comment.created_at) if stamp is not None]
    return said.hint(
        WebhookKind.COMMENT,
        delivery,
        number=said.issue.number,
        comment_id=said.comment.id,
        commands=commands,
        association=said.comment.author_association,
        author=said.issue.user.login if said.issue.user else None,
        updated_at=max(stamps, default=None),
        facts=known_facts.of_comment_event(said),
    )


def _check_run(_event: str, delivery: str, payload: Mapping[str, Any], own_app_id: int) -> WebhookEvent | None:
    said = CheckRunEvent.model_validate(payload)
    run = said.check_run
    if said.action != "completed" or (run.app is not None and run.app.id == own_app_id):
        return None
    passed = run.conclusion in PASSING_CONCLUSIONS
    facts = known_facts.of_check_run_event(said)
    return said.hint(
        WebhookKind.CHECK, delivery, head_sha=run.head_sha, check_name=run.name, passed=passed, facts=facts
    )


def _check_suite(_event: str, delivery: str, payload: Mapping[str, Any], own_app_id: int) -> WebhookEvent | None:
    said = CheckSuiteEvent.model_validate(payload)
    suite = said.check_suite
    if said.action != "completed" or (suite.app is not None and suite.app.id == own_app_id):
        return None
    unapproved = suite.conclusion == "action_required"
    return said.hint(WebhookKind.CHECKS, delivery, head_sha=suite.head_sha, unapproved=unapproved)


def _workflow_run(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    """A run that waits for approval, told at once when it is requested (pytorch/test-infra #8028); one that starts."""
    said = WorkflowRunEvent.model_validate(payload)
    run = said.workflow_run
    unapproved = "action_required" in {run.status, run.conclusion} or run.status == "waiting"
    if not unapproved and said.action != "in_progress":
        return None
    return said.hint(WebhookKind.CHECKS, delivery, head_sha=run.head_sha, unapproved=unapproved)


def _status(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    said = StatusEvent.model_validate(payload)
    if said.state == "pending":
        return None
    passed = said.state == "success"
    facts = known_facts.of_status_event(said)
    return said.hint(
        WebhookKind.CHECK, delivery, head_sha=said.sha, check_name=said.context, passed=passed, facts=facts
    )


def _push(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    said = PushEvent.model_validate(payload)
    if not said.ref.startswith(_BRANCH_PREFIX):
        return None
    # A deleted branch has no tip; GitHub writes forty zeros, which are no commit.
    tip = None if said.deleted else said.after
    branch = said.ref.removeprefix(_BRANCH_PREFIX)
    default = said.repository.default_branch == branch
    named = not said.deleted and _touches(said, CONFIGURATION)
    return said.hint(
        WebhookKind.BASE_MOVED,
        delivery,
        branch=branch,
        before=said.before,
        head_sha=tip,
        config=named or not (said.deleted or _tells_all(said)),
        config_named=named,
        default_branch=default,
        facts=known_facts.of_push_event(said, branch),
    )


def _tells_all(push: PushEvent) -> bool:
    """Whether the commits that a push lists are all that it changed: what replaced history tells nothing."""
    return not (push.forced or push.created) and 0 < len(push.commits) < _COMMITS_LISTED


def _touches(push: PushEvent, path: str) -> bool:
    """Whether a commit that a push lists adds, changes or removes this file, or anything beneath it.

    Where a file is expected may stand a directory, which git tells by the files in it.
    """
    named = (name for each in push.commits for files in (each.added, each.removed, each.modified) for name in files)
    return any(name == path or name.startswith(f"{path}/") for name in named)


def _rules(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    # An organisation's ruleset comes without a repository: it concerns all of the installation.
    facts = (Fact(subject=RULES, told=KnownName()),)
    return Payload.model_validate(payload).hint(WebhookKind.RULES, delivery, facts=facts)


def _installed(event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> WebhookEvent | None:
    said = Payload.model_validate(payload)
    return said.hint(WebhookKind.INSTALLED, delivery) if said.action in _INSTALLED_ACTIONS[event] else None


_DISTILLERS: Mapping[str, Callable[[str, str, Mapping[str, Any], int], WebhookEvent | None]] = {
    "pull_request": _pull_request,
    "pull_request_review": _review,
    "issue_comment": _comment,
    "check_run": _check_run,
    "check_suite": _check_suite,
    "workflow_run": _workflow_run,
    "status": _status,
    "push": _push,
    "branch_protection_configuration": _rules,
    "branch_protection_rule": _rules,
    "repository_ruleset": _rules,
    "installation": _installed,
    "installation_repositories": _installed,
    "installation_target": _installed,
    "repository": _installed,
}
