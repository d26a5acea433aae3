"""Extract known facts from a delivery, for comparison with later reads. Pure functions."""

from bot.webhooks.payloads import (
    CheckRunEvent,
    CommentEvent,
    PullRequestEvent,
    PushEvent,
    ReviewEvent,
    ReviewThreadEvent,
    StatusEvent,
)
from queue_engine.domain.known_facts import (
    DEFAULT_BRANCH,
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


def of_pull_request_event(event: PullRequestEvent) -> tuple[Fact, ...]:
    """Extract the pull request's state, and that its head exists."""
    pull = event.pull_request
    subject = of_pull(pull.number)
    changed = event.label if event.action in {"labeled", "unlabeled"} else None
    state = PullRequestState(
        updated_at=pull.updated_at,
        head=pull.head.sha,
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
