"""Messages about references, labels, protections, rulesets, and repositories themselves."""

from collections.abc import Iterable
from typing import Any

from github_emulator import payloads
from github_emulator.events.events import (
    LabelChanged,
    ProtectionChanged,
    ProtectionsSwitched,
    RefMoved,
    RepositoryChanged,
    RulesetChanged,
)
from github_emulator.payloads.source import Source
from github_emulator.webhooks.message import Composers, Message


def _ref(source: Source, event: RefMoved) -> Iterable[Message]:
    """A push; a creation and a deletion have an event of their own besides."""
    yield Message("push", None, lambda: payloads.push(source, event))
    if event.before is not None and event.after is not None:
        return
    _, kind, name = event.ref.split("/", 2)
    ref_type = "branch" if kind == "heads" else "tag"
    content: dict[str, Any] = {"ref": name, "ref_type": ref_type, "pusher_type": "user"}
    if event.after is not None:
        content |= {"master_branch": event.repository.default_branch, "description": None}
    yield Message("delete" if event.after is None else "create", None, lambda: content)


def _label(source: Source, event: LabelChanged) -> Iterable[Message]:
    def content() -> dict[str, Any]:
        return {"label": payloads.label(source, event.repository, event.label)} | dict(event.details)

    yield Message("label", event.action, content)


def _repository(source: Source, event: RepositoryChanged) -> Iterable[Message]:
    def content() -> dict[str, Any]:
        former = event.former_owner
        if former is None:
            return dict(event.details)
        kind = "organization" if former.kind == "Organization" else "user"
        shown = payloads.organization if kind == "organization" else payloads.user
        return {"changes": {"owner": {"from": {kind: shown(source, former)}}}}

    yield Message("repository", event.action, content)


def _protection(source: Source, event: ProtectionChanged) -> Iterable[Message]:
    def content() -> dict[str, Any]:
        rule: dict[str, Any] = {"rule": payloads.protection_rule(event.repository, event.protection)}
        return rule | {"changes": {}} if event.action == "edited" else rule

    yield Message("branch_protection_rule", event.action, content)


def _protections(source: Source, event: ProtectionsSwitched) -> Iterable[Message]:
    yield Message("branch_protection_configuration", event.action, dict)


def _ruleset(source: Source, event: RulesetChanged) -> Iterable[Message]:
    def content() -> dict[str, Any]:
        return {"repository_ruleset": payloads.ruleset(source, event.repository, event.ruleset)}

    yield Message("repository_ruleset", event.action, content)


COMPOSERS: Composers = {
    RefMoved: _ref,
    LabelChanged: _label,
    RepositoryChanged: _repository,
    ProtectionChanged: _protection,
    ProtectionsSwitched: _protections,
    RulesetChanged: _ruleset,
}
