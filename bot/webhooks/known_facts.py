"""Extract known facts from a delivery, for comparison with later reads. Pure functions."""

from bot.webhooks.payloads import CheckRunEvent, CommentEvent, PullRequestEvent, PushEvent, ReviewEvent, StatusEvent
from queue_engine.domain.known_facts import (
    DEFAULT_BRANCH,
    CheckResult,
    CommitStatus,
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


def of_pull_request_event(said: PullRequestEvent) -> tuple[Fact, ...]:
    """The pull request as it is now, and that its head exists; less where the payload tells less."""
    pull = said.pull_request
    subject = of_pull(pull.number)
    if pull.base is None or pull.updated_at is None or pull.state is None:
        return (Fact(subject=subject, told=KnownName()),)
    changed = said.label if said.action in {"labeled", "unlabeled"} else None
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
        label_set=said.action == "labeled",
        before=said.before if said.action == "synchronize" else None,
        base_changed=said.action == "edited" and said.changes.base is not None,
        by=said.sender.login if said.sender else None,
    )
    facts = [Fact(subject=subject, told=state)]
    if said.action == "synchronize":
        facts.append(Fact(subject=of_commit(pull.head.sha), told=KnownName()))
    return tuple(facts)


def of_push_event(said: PushEvent, branch: str) -> tuple[Fact, ...]:
    """That a branch moved, and that its new tip exists."""
    push = Push(before=said.before, after=said.after, at=said.repository.pushed_at)
    subjects = [of_branch(branch)]
    if said.repository.default_branch == branch:
        subjects.append(DEFAULT_BRANCH)
    named = () if said.deleted else (Fact(subject=of_commit(said.after), told=KnownName()),)
    return (*(Fact(subject=subject, told=push) for subject in subjects), *named)


def of_check_run_event(said: CheckRunEvent) -> tuple[Fact, ...]:
    """That a check run ended."""
    run = said.check_run
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
    return (Fact(subject=of_commit(run.head_sha), told=ended),)


def of_status_event(said: StatusEvent) -> tuple[Fact, ...]:
    """That a commit status was set."""
    return (
        Fact(subject=of_commit(said.sha), told=CommitStatus(name=said.context, state=said.state, at=said.updated_at)),
    )


def of_comment_event(said: CommentEvent) -> tuple[Fact, ...]:
    """That a comment and its pull request exist."""
    subjects = (of_pull(said.issue.number), of_comment(said.comment.id))
    return tuple(Fact(subject=subject, told=KnownName()) for subject in subjects)


def of_review_event(said: ReviewEvent) -> tuple[Fact, ...]:
    """That a pull request exists, and what somebody's review of it says."""
    subject, review = of_pull(said.pull_request.number), said.review
    named = Fact(subject=subject, told=KnownName())
    if review is None or review.user is None:
        return (named,)
    return (named, Fact(subject=subject, told=ReviewChange(author=review.user.login, state=review.state.lower())))
