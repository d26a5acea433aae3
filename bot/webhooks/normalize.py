"""Normalize deliveries to events of the engine, or to nothing. Pure functions."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from bot.gateway.conversions import ACTIONS, PASSING_CONCLUSIONS
from bot.webhooks.payloads import (
    BranchName,
    CheckRunEvent,
    CheckSuiteEvent,
    CommentEvent,
    InstallationEvent,
    LabelEvent,
    Payload,
    PullRequestEvent,
    PushEvent,
    ReviewEvent,
    ReviewThreadEvent,
    StatusEvent,
    WorkflowRunEvent,
)
from queue_engine.commands.commands import commands_in, may_join, may_withdraw
from queue_engine.domain import webhooks
from queue_engine.domain.known_facts import (
    DEFAULT_BRANCH,
    RULES,
    CheckResult,
    CommitStatus,
    ConversationChange,
    Fact,
    KnownName,
    PullRequestState,
    Push,
    ReviewChange,
    of_branch,
    of_comment,
    of_commit,
    of_pull,
)
from queue_engine.domain.model import Repository
from queue_engine.rules.check_progress import safe_link
from queue_engine.rules.landing_order import order_lines


def of_pull_request_event(event: PullRequestEvent) -> tuple[Fact, ...]:
    """Extract the pull request's state, and that its head exists."""
    pull = event.pull_request
    subject = of_pull(pull.number)
    changed = event.label if event.action in {"labeled", "unlabeled"} else None
    state = PullRequestState(
        updated_at=pull.updated_at,
        head_sha=pull.head.sha,
        base=pull.base.ref,
        open=pull.state == "open",
        merged=bool(pull.merged),
        draft=bool(pull.draft),
        labels=tuple(label.name for label in pull.labels),
        title=pull.title,
        label=changed.name if changed else None,
        label_set=event.action == "labeled",
        before=event.before if event.action == "synchronize" else None,
        base_changed=event.action == "edited" and event.changes.base is not None,
        by=event.sender.login if event.sender else None,
        by_bot=event.sender is not None and event.sender.type == "Bot",
        action=event.action,
        auto_merge=pull.auto_merge is not None if "auto_merge" in pull.model_fields_set else None,
        order=order_lines(pull.body or ""),
    )
    facts = [Fact(subject=subject, statement=state)]
    if event.action == "synchronize":
        facts.append(Fact(subject=of_commit(pull.head.sha), statement=KnownName()))
    return tuple(facts)


def of_push_event(event: PushEvent, branch: str) -> tuple[Fact, ...]:
    """Extract that a branch moved, and that its new tip exists."""
    push = Push(before=event.before, after=event.after, at=event.repository.pushed_at)
    subjects = [of_branch(branch)]
    if event.repository.default_branch == branch:
        subjects.append(DEFAULT_BRANCH)
    named = () if event.deleted else (Fact(subject=of_commit(event.after), statement=KnownName()),)
    return (*(Fact(subject=subject, statement=push) for subject in subjects), *named)


def of_check_run_event(event: CheckRunEvent) -> tuple[Fact, ...]:
    """Extract that a check run completed."""
    run = event.check_run
    if run.id is None or run.conclusion is None:
        return ()
    ended = CheckResult(
        id=run.id,
        name=run.name,
        app_id=run.app.id if run.app else None,
        conclusion=run.conclusion,
        started_at=run.started_at,
        completed_at=run.completed_at,
    )
    return (Fact(subject=of_commit(run.head_sha), statement=ended),)


def of_status_event(event: StatusEvent) -> tuple[Fact, ...]:
    """Extract that a commit status was set."""
    return (
        Fact(
            subject=of_commit(event.sha),
            statement=CommitStatus(name=event.context, state=event.state, at=event.updated_at),
        ),
    )


def of_comment_event(event: CommentEvent) -> tuple[Fact, ...]:
    """Extract that a comment and its pull request exist."""
    subjects = (of_pull(event.issue.number), of_comment(event.comment.id))
    return tuple(Fact(subject=subject, statement=KnownName()) for subject in subjects)


def of_review_event(event: ReviewEvent) -> tuple[Fact, ...]:
    """Extract that a pull request exists, and the state of a review."""
    subject, review = of_pull(event.pull_request.number), event.review
    named = Fact(subject=subject, statement=KnownName())
    if review is None or review.user is None:
        return (named,)
    by, by_bot = (None, False) if event.sender is None else (event.sender.login, event.sender.type == "Bot")
    change = ReviewChange(author=review.user.login, state=review.state.lower(), by=by, by_bot=by_bot)
    return named, Fact(subject=subject, statement=change)


def of_review_thread_event(event: ReviewThreadEvent) -> tuple[Fact, ...]:
    """Extract that a pull request exists, and the state of one of its conversations."""
    subject = of_pull(event.pull_request.number)
    change = ConversationChange(id=event.thread.node_id, resolved=event.action == "resolved")
    return Fact(subject=subject, statement=KnownName()), Fact(subject=subject, statement=change)


_BRANCH_PREFIX = "refs/heads/"
_OWN_BRANCHES = "imq/", "imq-build/"

CONFIGURATION = ".github/imq.yml"

_WORKFLOWS = (".github/workflows", ".github/actions")
"""Where the files are that say which checks run on candidates."""

_MOST_NAMED = 25
"""Of more repositories that an installation gained or lost at once, none is named: IMQ lists all."""

_OWN_RUN = re.compile(r"imq:\d+:(?P<number>[1-9]\d{0,9}):")
"""The beginning of the external id that `notifications.render.comment` gives to IMQ's check runs."""


class _Delivery(NamedTuple):
    """What the delivery's headers and the App add to a payload."""

    id: str
    own_app_id: int


class _Row(NamedTuple):
    """How deliveries of one event are parsed."""

    payload: type[Payload]
    make: Callable[[Any, _Delivery], webhooks.WebhookEvent | None]
    actions: frozenset[str] | None = None
    """The actions that can concern a queue; None if all can, or the event has none."""

    def concerns(self, action: str | None) -> bool:
        return self.actions is None or action in self.actions


class MalformedPayload(Exception):
    """A payload lacks what GitHub documents for its event. The message names the places."""


def normalize(
    event: str, delivery: str, payload: Mapping[str, Any], *, own_app_id: int
) -> webhooks.WebhookEvent | None:
    """Normalize a delivery of this event (`X-GitHub-Event`); return None when it concerns no queue.

    Check runs and suites of IMQ's own App concern none. Raises MalformedPayload.
    """
    row = EVENTS.get(event)
    if row is None:
        return None
    try:
        parsed = row.payload.model_validate(payload)
        return row.make(parsed, _Delivery(delivery, own_app_id)) if row.concerns(parsed.action) else None
    except ValidationError as error:
        places = sorted({".".join(map(str, problem["loc"])) or "the payload" for problem in error.errors()})
        raise MalformedPayload(f"{event}: missing or wrong: {', '.join(places)}") from None


def may_matter(event: str, action: str | None) -> bool:
    """Whether a delivery of this event and action can concern a queue."""
    return event in EVENTS and EVENTS[event].concerns(action)


def why_ignored(event: str, payload: Mapping[str, Any]) -> str:
    """Say why `normalize` ignored a delivery, for readers of the App's log of deliveries."""
    if event not in EVENTS:
        return f"{event} is no event that concerns a queue"
    action = payload.get("action")
    name = f"{event}.{action}" if isinstance(action, str) and action.isidentifier() else event
    return f"{name}: nothing in it can change a queue"


def _pull_request(event: PullRequestEvent, delivery: _Delivery) -> webhooks.WebhookEvent | None:
    pull = event.pull_request
    common = event.common(delivery.id) | {
        "number": pull.number,
        "branch": pull.base.ref,
        "facts": of_pull_request_event(event),
    }
    label = event.label.name if event.label else None
    match event.action:
        case "labeled":
            # A label that was deleted at the same time is missing here.
            parts = {"label": label, "head_sha": pull.head.sha, "updated_at": pull.updated_at}
            return None if label is None else webhooks.LabelRequest(**common | parts)
        case "unlocked":
            return webhooks.ConversationReady(**common)
        case "unlabeled":
            return webhooks.LabelChange(**common, label=label)
        case "synchronize":
            return webhooks.HeadChange(**common, before=event.before, head_sha=pull.head.sha)
        case "edited":
            changes, text = event.changes, event.changes.body
            # Some edits of an empty description, or to one, came without what changed (odoo/runbot #743).
            unknown = changes.base is None and changes.title is None and text is None
            before = "" if text is None else str(text.get("from") or "")
            reordered = unknown or (text is not None and order_lines(before) != order_lines(pull.body or ""))
            if changes.base is None and changes.title is None and not reordered:
                return None
            only_title = changes.base is None and not reordered
            return webhooks.StateChange(**common, title=pull.title if only_title else None)
        case "auto_merge_enabled":
            return webhooks.StateChange(**common, head_sha=pull.head.sha)
        case _:
            return webhooks.StateChange(**common)


def _review(event: ReviewEvent, delivery: _Delivery) -> webhooks.WebhookEvent:
    """Normalize a review, with the commands in its text."""
    pull, review = event.pull_request, event.review
    facts = of_review_event(event)
    common = event.common(delivery.id) | {"number": pull.number, "branch": pull.base.ref, "facts": facts}
    by_person = event.sender is not None and event.sender.type != "Bot"
    if event.action == "submitted" and by_person and review is not None and review.id is not None:
        commands = commands_in(review.body or "")
        if commands:
            return webhooks.ReviewCommand(
                **common,
                review_id=review.id,
                commands=commands,
                joins=may_join(commands),
                withdraws=may_withdraw(commands),
                head_sha=review.commit_id or "",
                association=review.author_association,
                author=pull.user.login if pull.user else None,
                updated_at=review.submitted_at,
            )
    return webhooks.ReviewWebhook(**common)


def _thread(event: ReviewThreadEvent, delivery: _Delivery) -> webhooks.WebhookEvent:
    """Normalize a conversation that was resolved, or opened again.

    GitHub sends the event to Apps with the permission `pull_requests` (docs, "Webhook events and payloads";
    palantir/bulldozer #819). Its payload has the pull request and the id of the thread (octokit/webhooks #593).
    """
    pull, facts = event.pull_request, of_review_thread_event(event)
    return webhooks.ConversationWebhook(
        **event.common(delivery.id), number=pull.number, branch=pull.base.ref, facts=facts
    )


def _comment(event: CommentEvent, delivery: _Delivery) -> webhooks.WebhookEvent | None:
    # An edited comment is no command: people who may edit others' comments could give commands in their name.
    if event.issue.pull_request is None or event.comment.performed_via_github_app is not None:
        return None
    commands = commands_in(event.comment.body or "")
    if event.sender is None or event.sender.type == "Bot" or not commands:
        return None
    # The comment itself was the last change of the pull request.
    stamps = [stamp for stamp in (event.issue.updated_at, event.comment.created_at) if stamp is not None]
    return webhooks.CommentCommand(
        **event.common(delivery.id),
        number=event.issue.number,
        comment_id=event.comment.id,
        commands=commands,
        joins=may_join(commands),
        withdraws=may_withdraw(commands),
        association=event.comment.author_association,
        author=event.issue.user.login if event.issue.user else None,
        updated_at=max(stamps, default=None),
        facts=of_comment_event(event),
    )


def _check_run(event: CheckRunEvent, delivery: _Delivery) -> webhooks.WebhookEvent | None:
    run = event.check_run
    own = run.app is not None and run.app.id == delivery.own_app_id
    if event.action == "rerequested":
        known = _OWN_RUN.match(run.external_id or "")
        return _rerun(event, delivery, run.head_sha, [int(known["number"])] if known else []) if own else None
    if own:
        return None
    return webhooks.CheckOutcome(
        **event.common(delivery.id),
        head_sha=run.head_sha,
        check_name=run.name,
        check_url=safe_link(run.html_url or run.details_url),
        check_started=run.started_at,
        check_ended=run.completed_at,
        by_actions=run.app is not None and run.app.slug == ACTIONS,
        own_branch=_own_branch([run.check_suite] if run.check_suite else []),
        passed=run.conclusion in PASSING_CONCLUSIONS,
        skipped=run.conclusion == "skipped",
        facts=of_check_run_event(event),
    )


def _own_branch(branches: Sequence[BranchName]) -> str | None:
    return next((each.name for each in branches if each.name and each.name.startswith(_OWN_BRANCHES)), None)


def _rerun(
    event: CheckRunEvent | CheckSuiteEvent, delivery: _Delivery, head_sha: str, numbers: list[int]
) -> webhooks.WebhookEvent | None:
    """Normalize a person's "Re-run" on IMQ's own check. A bot's does not count: each answer could cause the next."""
    if event.sender is None or event.sender.type == "Bot":
        return None
    return webhooks.RerunRequest(**event.common(delivery.id), head_sha=head_sha, numbers=tuple(numbers))


def _check_suite(event: CheckSuiteEvent, delivery: _Delivery) -> webhooks.WebhookEvent | None:
    suite = event.check_suite
    own = suite.app is not None and suite.app.id == delivery.own_app_id
    if event.action == "rerequested":
        numbers = [pull.number for pull in suite.pull_requests]
        return _rerun(event, delivery, suite.head_sha, numbers) if own else None
    if own:
        return None
    without_jobs = suite.conclusion == "action_required" or suite.broke_at_once
    how = {"without_jobs": without_jobs, "skipped": suite.conclusion == "skipped"}
    return webhooks.SuiteReport(**event.common(delivery.id), head_sha=suite.head_sha, **how)


def _workflow_run(event: WorkflowRunEvent, delivery: _Delivery) -> webhooks.WebhookEvent | None:
    """Normalize a run that starts, or that has no jobs: it waits for approval, which its request already says
    (pytorch/test-infra #8028), or its file is invalid."""
    run = event.workflow_run
    without_jobs = {"action_required", "startup_failure"} & {run.status, run.conclusion} or run.status == "waiting"
    if not without_jobs and event.action != "in_progress":
        return None
    return webhooks.SuiteReport(**event.common(delivery.id), head_sha=run.head_sha, without_jobs=bool(without_jobs))


def _status(event: StatusEvent, delivery: _Delivery) -> webhooks.WebhookEvent | None:
    if event.state == "pending":
        return None
    return webhooks.CheckOutcome(
        **event.common(delivery.id),
        head_sha=event.sha,
        check_name=event.context,
        check_url=safe_link(event.target_url),
        check_ended=event.updated_at,
        passed=event.state == "success",
        own_branch=_own_branch(event.branches),
        facts=of_status_event(event),
    )


def _push(event: PushEvent, delivery: _Delivery) -> webhooks.WebhookEvent | None:
    if not event.ref.startswith(_BRANCH_PREFIX):
        return None
    branch = event.ref.removeprefix(_BRANCH_PREFIX)
    named = not event.deleted and event.touches(CONFIGURATION)
    workflows = not event.deleted and any(map(event.touches, _WORKFLOWS))
    return webhooks.BranchPush(
        **event.common(delivery.id),
        branch=branch,
        before=event.before,
        # A deleted branch has no tip; GitHub writes forty zeros, which are no commit.
        head_sha=None if event.deleted else event.after,
        config=named or workflows or not (event.deleted or event.lists_all_changes),
        config_named=named,
        default_branch=event.repository.default_branch == branch,
        all_named=event.deleted or event.lists_all_changes,
        facts=of_push_event(event, branch),
    )


def _rules(event: Payload, delivery: _Delivery) -> webhooks.WebhookEvent:
    # An organisation's ruleset comes without a repository: it concerns the whole installation.
    return webhooks.RuleChange(**event.common(delivery.id), facts=(Fact(subject=RULES, statement=KnownName()),))


def _teams(event: Payload, delivery: _Delivery) -> webhooks.WebhookEvent:
    return webhooks.TeamChange(**event.common(delivery.id))


def _installation(event: Payload, delivery: _Delivery) -> webhooks.WebhookEvent:
    return webhooks.RepositoryChange(**event.common(delivery.id))


def _label(event: LabelEvent, delivery: _Delivery) -> webhooks.WebhookEvent | None:
    former, label = (event.changes.name or {}).get("from"), event.label.name
    if not isinstance(former, str) or not former or former == label:
        return None
    return webhooks.LabelRename(**event.common(delivery.id), former=former, label=label)


def _halves(full_name: str) -> tuple[str, str]:
    owner, _, name = full_name.partition("/")
    return owner, name


def _selection(event: InstallationEvent, delivery: _Delivery) -> webhooks.WebhookEvent:
    """Name the repositories; none if they are too many, or one is not named whole: then IMQ lists them all."""
    named: list[tuple[int | None, str]] = [(each.id, each.full_name) for each in event.repositories_added]
    named += [(each.id, each.full_name) for each in event.repositories_removed]
    selected = tuple(
        Repository(number, *_halves(name), event.installation.id)
        for number, name in named
        if number is not None and name
    )
    selected = selected if len(selected) == len(named) <= _MOST_NAMED else ()
    return webhooks.RepositoryChange(**event.common(delivery.id), selected=selected)


def _actions(*names: str) -> frozenset[str]:
    return frozenset(names)


_CHECKED = _actions("completed", "rerequested")

EVENTS: Mapping[str, _Row] = {
    "pull_request": _Row(
        PullRequestEvent,
        _pull_request,
        _actions("labeled", "unlabeled", "closed", "reopened", "converted_to_draft", "ready_for_review", "edited")
        | _actions("synchronize", "auto_merge_enabled", "auto_merge_disabled", "unlocked")
        | _actions("review_requested", "review_request_removed"),
    ),
    # An edited review has the same state.
    "pull_request_review": _Row(ReviewEvent, _review, _actions("submitted", "dismissed")),
    "pull_request_review_thread": _Row(ReviewThreadEvent, _thread, _actions("resolved", "unresolved")),
    "issue_comment": _Row(CommentEvent, _comment, _actions("created")),
    "check_run": _Row(CheckRunEvent, _check_run, _CHECKED),
    "check_suite": _Row(CheckSuiteEvent, _check_suite, _CHECKED),
    "workflow_run": _Row(WorkflowRunEvent, _workflow_run),
    "status": _Row(StatusEvent, _status),
    "push": _Row(PushEvent, _push),
    "branch_protection_configuration": _Row(Payload, _rules),
    "branch_protection_rule": _Row(Payload, _rules),
    "repository_ruleset": _Row(Payload, _rules),
    "label": _Row(LabelEvent, _label, _actions("edited")),
    "membership": _Row(Payload, _teams),
    "team": _Row(Payload, _teams),
    "installation": _Row(
        Payload,
        _installation,
        _actions("created", "deleted", "suspend", "unsuspend", "new_permissions_accepted"),
    ),
    "installation_repositories": _Row(InstallationEvent, _selection, _actions("added", "removed")),
    "installation_target": _Row(Payload, _installation, _actions("renamed")),
    "repository": _Row(
        Payload,
        _installation,
        _actions("renamed", "transferred", "archived", "unarchived", "privatized", "publicized"),
    ),
}
"""Event -> how its deliveries are parsed."""
