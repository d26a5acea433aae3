"""What GitHub sends of each event: a table of webhooks, each with its name and what makes its own fields."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from github_emulator import payloads
from github_emulator.events.check_events import CheckRunChanged, CheckSuiteChanged, StatusReported, WorkflowRunChanged
from github_emulator.events.events import (
    AccountRenamed,
    CommentChanged,
    InstallationChanged,
    LabelChanged,
    MembershipChanged,
    OrganisationRulesetChanged,
    ProtectionChanged,
    ProtectionsSwitched,
    PullRequestChanged,
    RefMoved,
    RepositoryChanged,
    RepositorySelectionChanged,
    ReviewChanged,
    ReviewCommentChanged,
    RulesetChanged,
    TeamChanged,
    ThreadChanged,
    WebhookEvent,
)
from github_emulator.payloads.source import Source
from github_emulator.state import App

Fields = dict[str, Any]
Content = Callable[[Source, Any], Fields]


@dataclass(frozen=True, slots=True)
class Webhook:
    """A row of the table: GitHub's name, what makes the own fields, and for which of the events it is sent.

    `only` names the app that it concerns alone.
    """

    name: str
    content: Content
    when: Callable[[Any], bool] = lambda _: True
    only: Callable[[Any], App | None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Message:
    """One webhook of one event before it is addressed: `content` is called when an app gets it."""

    name: str
    action: str | None
    content: Callable[[], Fields]
    only: App | None


def messages(source: Source, event: WebhookEvent) -> Iterator[Message]:
    """The webhooks of an event, in GitHub's order."""
    for row in WEBHOOKS[type(event)]:
        if row.when(event):
            content = partial(row.content, source, event)
            yield Message(row.name, getattr(event, "action", None), content, row.only(event))


def _pull_request(source: Source, event: PullRequestChanged) -> Fields:
    pull = event.pull
    shown: Fields = {"number": pull.number, "pull_request": payloads.pull_request(source, pull, ask=False)}
    if event.label is not None:
        shown["label"] = payloads.label(source, pull.repository, event.label)
    if event.assignee is not None:
        shown["assignee"] = payloads.user(source, event.assignee)
    if event.reviewer is not None:
        shown["requested_reviewer"] = payloads.user(source, event.reviewer)
    return shown | dict(event.details)


def _comment(source: Source, event: CommentChanged) -> Fields:
    comment = payloads.comment(source, event.pull, event.comment)
    return {"issue": payloads.issue(source, event.pull), "comment": comment} | dict(event.details)


def _review(source: Source, event: ReviewChanged) -> Fields:
    review = payloads.review(source, event.pull, event.review) | {"state": event.review.state.lower()}
    return {"review": review, "pull_request": payloads.simple_pull_request(source, event.pull)}


def _review_comment(source: Source, event: ReviewCommentChanged) -> Fields:
    comment = payloads.review_comment(source, event.pull, event.thread)
    return {"comment": comment, "pull_request": payloads.simple_pull_request(source, event.pull)}


def _thread(source: Source, event: ThreadChanged) -> Fields:
    thread = payloads.thread(source, event.pull, event.thread)
    return {"thread": thread, "pull_request": payloads.simple_pull_request(source, event.pull)}


def _check_run(source: Source, event: CheckRunChanged) -> Fields:
    return {"check_run": payloads.check_run(source, event.run)}


def _check_suite(source: Source, event: CheckSuiteChanged) -> Fields:
    return {"check_suite": payloads.check_suite(source, event.suite, webhook=True)}


def _workflow_run(source: Source, event: WorkflowRunChanged) -> Fields:
    workflow = payloads.workflow(source, event.run.repository, event.run.workflow)
    return {"workflow": workflow, "workflow_run": payloads.workflow_run(source, event.run, webhook=True)}


def _status(source: Source, event: StatusReported) -> Fields:
    return payloads.status_event(source, event.repository, event.status)


def _ref(source: Source, event: RefMoved) -> Fields:
    _, kind, name = event.ref.split("/", 2)
    return {"ref": name, "ref_type": "branch" if kind == "heads" else "tag", "pusher_type": "user"}


def _new_ref(source: Source, event: RefMoved) -> Fields:
    return _ref(source, event) | {"master_branch": event.repository.default_branch, "description": None}


def _label(source: Source, event: LabelChanged) -> Fields:
    return {"label": payloads.label(source, event.repository, event.label)} | dict(event.details)


def _repository(source: Source, event: RepositoryChanged) -> Fields:
    former = event.former_owner
    if former is None:
        return dict(event.details)
    kind = "organization" if former.kind == "Organization" else "user"
    shown = payloads.organization if kind == "organization" else payloads.user
    return {"changes": {"owner": {"from": {kind: shown(source, former)}}}}


def _protection(source: Source, event: ProtectionChanged) -> Fields:
    rule: Fields = {"rule": payloads.protection_rule(event.repository, event.protection)}
    return rule | {"changes": {}} if event.action == "edited" else rule


def _ruleset(source: Source, event: RulesetChanged | OrganisationRulesetChanged) -> Fields:
    repository = event.repository if isinstance(event, RulesetChanged) else None
    return {"repository_ruleset": payloads.ruleset(source, repository, event.ruleset)}


def _team(source: Source, event: TeamChanged) -> Fields:
    return {"team": payloads.team(source, event.team)}


def _membership(source: Source, event: MembershipChanged) -> Fields:
    member = payloads.user(source, event.member)
    return {"team": payloads.team(source, event.team), "scope": "team", "member": member}


def _installation(source: Source, event: InstallationChanged) -> Fields:
    return {
        "installation": payloads.installation(source, event.installation),
        "repositories": [payloads.repository_stub(source, repository) for repository in event.repositories],
        "requester": None,
    }


def _selection(source: Source, event: RepositorySelectionChanged) -> Fields:
    installation = event.installation
    return {
        "installation": payloads.installation(source, installation),
        "repository_selection": "all" if installation.repositories is None else "selected",
        "repositories_added": [payloads.repository_stub(source, repository) for repository in event.added],
        "repositories_removed": [payloads.repository_stub(source, repository) for repository in event.removed],
        "requester": None,
    }


def _account(source: Source, event: AccountRenamed) -> Fields:
    installation = event.installation
    return {
        "account": payloads.user(source, installation.account),
        "changes": {"login": {"from": event.before}},
        "installation": {"id": installation.id, "node_id": payloads.node_id("Installation", installation.id)},
        "target_type": installation.account.kind,
    }


def _asked_run(event: CheckRunChanged) -> App | None:
    """A rerequest concerns the run's own app alone."""
    return event.run.app if event.action == "rerequested" else None


def _asked_suite(event: CheckSuiteChanged) -> App | None:
    """A request and a rerequest concern the suite's own app alone."""
    return event.suite.app if event.action in {"requested", "rerequested"} else None


WEBHOOKS: Mapping[type[WebhookEvent], tuple[Webhook, ...]] = {
    PullRequestChanged: (Webhook("pull_request", _pull_request),),
    CommentChanged: (Webhook("issue_comment", _comment),),
    ReviewChanged: (Webhook("pull_request_review", _review),),
    ReviewCommentChanged: (Webhook("pull_request_review_comment", _review_comment),),
    ThreadChanged: (Webhook("pull_request_review_thread", _thread),),
    CheckRunChanged: (Webhook("check_run", _check_run, only=_asked_run),),
    CheckSuiteChanged: (Webhook("check_suite", _check_suite, only=_asked_suite),),
    WorkflowRunChanged: (Webhook("workflow_run", _workflow_run),),
    StatusReported: (Webhook("status", _status),),
    RefMoved: (
        Webhook("push", payloads.push),
        Webhook("create", _new_ref, when=lambda event: event.before is None),
        Webhook("delete", _ref, when=lambda event: event.after is None),
    ),
    LabelChanged: (Webhook("label", _label),),
    RepositoryChanged: (Webhook("repository", _repository),),
    ProtectionChanged: (Webhook("branch_protection_rule", _protection),),
    ProtectionsSwitched: (Webhook("branch_protection_configuration", lambda source, event: {}),),
    RulesetChanged: (Webhook("repository_ruleset", _ruleset),),
    OrganisationRulesetChanged: (Webhook("repository_ruleset", _ruleset),),
    TeamChanged: (Webhook("team", _team),),
    MembershipChanged: (Webhook("membership", _membership),),
    InstallationChanged: (Webhook("installation", _installation),),
    RepositorySelectionChanged: (Webhook("installation_repositories", _selection),),
    AccountRenamed: (Webhook("installation_target", _account),),
}
"""Every event that apps get a webhook of."""
