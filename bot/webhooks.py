"""Deliveries distilled to hints: what a payload may mean for a queue, or that it means nothing. Pure functions."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from bot.gateway.facts import PASSING_CONCLUSIONS
from queue_engine.hints import Hint, HintKind

_BRANCH_PREFIX = "refs/heads/"

_CONSENT_ACTIONS = frozenset(
    {"unlabeled", "closed", "reopened", "converted_to_draft", "ready_for_review", "edited", "synchronize"}
)
_INSTALLED_ACTIONS: Mapping[str, frozenset[str]] = {
    "installation": frozenset({"created", "unsuspend", "new_permissions_accepted"}),
    "installation_repositories": frozenset({"added"}),
    "repository": frozenset({"renamed", "transferred"}),
}


class MalformedPayload(Exception):
    """A payload lacks what GitHub documents for its event. The message names the places."""


class _Sender(BaseModel):
    login: str
    type: str = "User"


class _Repository(BaseModel):
    id: int
    full_name: str


class _Id(BaseModel):
    id: int


class _Payload(BaseModel):
    """What every delivery to an App has; the parts of its event are read by a model of their own."""

    installation: _Id
    action: str | None = None
    repository: _Repository | None = None
    sender: _Sender | None = None

    def hint(self, kind: HintKind, delivery: str, **parts: Any) -> Hint:
        owner, _, name = self.repository.full_name.partition("/") if self.repository else ("", "", "")
        return Hint(
            kind=kind,
            delivery=delivery,
            action=self.action,
            installation_id=self.installation.id,
            repository_id=self.repository.id if self.repository else None,
            owner=owner or None,
            name=name or None,
            sender=self.sender.login if self.sender else None,
            sender_is_bot=self.sender is not None and self.sender.type == "Bot",
            **parts,
        )


class _OfRepository(_Payload):
    repository: _Repository


class _Label(BaseModel):
    name: str


class _Head(BaseModel):
    sha: str


class _PullRequest(BaseModel):
    number: int
    head: _Head
    updated_at: datetime | None = None


class _Changes(BaseModel):
    base: dict[str, Any] | None = None


class _PullRequestEvent(_OfRepository):
    action: str
    pull_request: _PullRequest
    label: _Label | None = None
    before: str | None = None
    changes: _Changes = Field(default_factory=_Changes)


class _CheckRun(BaseModel):
    name: str
    head_sha: str
    conclusion: str | None = None
    app: _Id | None = None


class _CheckRunEvent(_OfRepository):
    action: str
    check_run: _CheckRun


class _CheckSuite(BaseModel):
    head_sha: str
    app: _Id | None = None


class _CheckSuiteEvent(_OfRepository):
    action: str
    check_suite: _CheckSuite


class _StatusEvent(_OfRepository):
    sha: str
    context: str
    state: str


class _PushEvent(_OfRepository):
    ref: str
    after: str
    before: str
    deleted: bool = False


def distil(event: str, delivery: str, payload: Mapping[str, Any], *, own_app_id: int) -> Hint | None:
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


def _pull_request(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> Hint | None:
    said = _PullRequestEvent.model_validate(payload)
    number, head_sha = said.pull_request.number, said.pull_request.head.sha
    label = said.label.name if said.label else None
    if said.action == "labeled":
        # Without a label it was deleted in the same moment: there is nothing to queue for.
        if label is None:
            return None
        updated_at = said.pull_request.updated_at
        return said.hint(
            HintKind.LABELED, delivery, number=number, label=label, head_sha=head_sha, updated_at=updated_at
        )
    if said.action not in _CONSENT_ACTIONS or (said.action == "edited" and said.changes.base is None):
        return None
    if said.action == "synchronize":
        return said.hint(HintKind.CONSENT, delivery, number=number, before=said.before, head_sha=head_sha)
    return said.hint(HintKind.CONSENT, delivery, number=number, label=label)


def _check_run(_event: str, delivery: str, payload: Mapping[str, Any], own_app_id: int) -> Hint | None:
    said = _CheckRunEvent.model_validate(payload)
    run = said.check_run
    if said.action != "completed" or (run.app is not None and run.app.id == own_app_id):
        return None
    passed = run.conclusion in PASSING_CONCLUSIONS
    return said.hint(HintKind.CHECK, delivery, head_sha=run.head_sha, check_name=run.name, passed=passed)


def _check_suite(_event: str, delivery: str, payload: Mapping[str, Any], own_app_id: int) -> Hint | None:
    said = _CheckSuiteEvent.model_validate(payload)
    suite = said.check_suite
    if said.action != "completed" or (suite.app is not None and suite.app.id == own_app_id):
        return None
    return said.hint(HintKind.CHECKS, delivery, head_sha=suite.head_sha)


def _status(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> Hint | None:
    said = _StatusEvent.model_validate(payload)
    if said.state == "pending":
        return None
    passed = said.state == "success"
    return said.hint(HintKind.CHECK, delivery, head_sha=said.sha, check_name=said.context, passed=passed)


def _push(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> Hint | None:
    said = _PushEvent.model_validate(payload)
    if not said.ref.startswith(_BRANCH_PREFIX):
        return None
    # A deleted branch has no tip; GitHub writes forty zeros, which are no commit.
    tip = None if said.deleted else said.after
    branch = said.ref.removeprefix(_BRANCH_PREFIX)
    return said.hint(HintKind.BASE_MOVED, delivery, branch=branch, before=said.before, head_sha=tip)


def _rules(_event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> Hint | None:
    # An organisation's ruleset comes without a repository: it concerns all of the installation.
    return _Payload.model_validate(payload).hint(HintKind.RULES, delivery)


def _installed(event: str, delivery: str, payload: Mapping[str, Any], _own_app_id: int) -> Hint | None:
    said = _Payload.model_validate(payload)
    return said.hint(HintKind.INSTALLED, delivery) if said.action in _INSTALLED_ACTIONS[event] else None


_DISTILLERS: Mapping[str, Callable[[str, str, Mapping[str, Any], int], Hint | None]] = {
    "pull_request": _pull_request,
    "check_run": _check_run,
    "check_suite": _check_suite,
    "status": _status,
    "push": _push,
    "branch_protection_rule": _rules,
    "repository_ruleset": _rules,
    "installation": _installed,
    "installation_repositories": _installed,
    "repository": _installed,
}
