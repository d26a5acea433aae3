"""What people and bots say on a pull request: labels, comments, assignees, reviews, reactions."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from github_emulator.core.errors import Forbidden, Invalid, NotFound
from github_emulator.domain.accounts.accounts import Accounts
from github_emulator.domain.pulls.pulls import Pulls
from github_emulator.events.context import Context
from github_emulator.events.events import (
    CommentChanged,
    LabelChanged,
    PullRequestChanged,
    ReviewChanged,
    ReviewCommentChanged,
    ThreadChanged,
)
from github_emulator.state import Actor, Comment, Label, PullRequest, Reaction, Repository, Review, Thread, User

REACTIONS = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")
"""GitHub's eight words."""


class Conversation:
    """Persons need the role that GitHub asks for; an app's permissions are checked where its token is."""

    def __init__(self, context: Context, *, accounts: Accounts, pulls: Pulls) -> None:
        self._context = context
        self._events = context.events
        self._accounts = accounts
        self._pulls = pulls

    # Labels

    def create_label(
        self, repository: Repository, name: str, *, actor: Actor, color: str = "ededed", description: str | None = None
    ) -> Label:
        """A repository's label of this name, created when it is missing. Raises Forbidden.

        The words of the refusal are those of wolfi-dev/os #49539 and kubestellar/console #3036.
        """
        if name.lower() not in repository.labels:
            enough = ("issues",) if self._context.behaviour.labels_need_issues else ("issues", "pull_requests")
            if actor.app is not None and not any(map(actor.may, enough)):
                raise Forbidden("You do not have permission to create labels on this repository.")
            label = Label(self._context.state.next_id("label"), name, color, description)
            repository.labels[name.lower()] = label
            self._events.publish(LabelChanged(repository, actor, "created", label))
        return repository.labels[name.lower()]

    def edit_label(self, repository: Repository, name: str, new_name: str, *, actor: Actor) -> None:
        """Rename a label; pull requests keep it, and have no event of their own.

        Their timelines keep the former name (tiangolo/issue-manager #9, aws-actions/stale-issue-cleanup #20).
        """
        self._accounts.require_role(actor, repository, "write")
        label = repository.labels.pop(name.lower(), None)
        if label is None:
            raise NotFound()
        before, label.name = label.name, new_name
        repository.labels[new_name.lower()] = label
        changes: dict[str, Any] = {"name": {"from": before}}
        self._events.publish(LabelChanged(repository, actor, "edited", label, details={"changes": changes}))

    def delete_label(self, repository: Repository, name: str, *, actor: Actor) -> None:
        """Delete a label everywhere. Its pull requests' `unlabeled` events then come without a label."""
        self._accounts.require_role(actor, repository, "write")
        label = repository.labels.pop(name.lower(), None)
        if label is None:
            raise NotFound()
        for pull in repository.pulls.values():
            if label in pull.labels:
                pull.labels.remove(label)
                self._events.publish(PullRequestChanged(pull, "unlabeled", actor))
        self._events.publish(LabelChanged(repository, actor, "deleted", label))

    def label(self, pull: PullRequest, names: Iterable[str], *, actor: Actor) -> None:
        """Put labels on; those that are there already stay without an event."""
        self._accounts.require_role(actor, pull.repository, "triage")
        for name in names:
            label = self.create_label(pull.repository, name, actor=actor)
            if label not in pull.labels:
                pull.labels.append(label)
                self._pulls.record(pull, "labeled", actor, label=replace(label))
                self._events.publish(PullRequestChanged(pull, "labeled", actor, label=label))

    def unlabel(self, pull: PullRequest, name: str, *, actor: Actor) -> None:
        """Take a label off. Raises NotFound when it is not on."""
        self._accounts.require_role(actor, pull.repository, "triage")
        label = next((label for label in pull.labels if label.name.lower() == name.lower()), None)
        if label is None:
            raise NotFound("Label does not exist")
        pull.labels.remove(label)
        self._pulls.record(pull, "unlabeled", actor, label=replace(label))
        self._events.publish(PullRequestChanged(pull, "unlabeled", actor, label=label))

    def set_labels(self, pull: PullRequest, names: Iterable[str], *, actor: Actor) -> None:
        """Make these the labels, and no others."""
        wanted = list(names)
        lower = {name.lower() for name in wanted}
        for label in [label for label in pull.labels if label.name.lower() not in lower]:
            self.unlabel(pull, label.name, actor=actor)
        self.label(pull, wanted, actor=actor)

    # Comments

    def comment(self, pull: PullRequest, body: str, *, actor: Actor) -> Comment:
        """Say something. `updated_at` moves, for an App's comment too (actions/stale #506, fastlane/issue-bot #25)."""
        self._accounts.require_role(actor, pull.repository, "read")
        if pull.locked and not self._speaks_when_locked(pull, actor):
            raise Forbidden("Unable to create comment because issue is locked.")
        now = self._context.clock.now()
        comment_id = self._context.state.next_id("comment")
        comment = Comment(comment_id, actor.user, body, now, now, actor.app)
        pull.comments[comment.id] = comment
        pull.updated_at = now
        self._events.publish(CommentChanged(pull, "created", actor, comment))
        return comment

    def edit_comment(self, pull: PullRequest, comment: Comment, body: str, *, actor: Actor) -> None:
        """Change a comment's text: one's own, or any with write access."""
        self._check_owner(pull, comment, actor)
        if pull.locked and self._context.behaviour.locked_refuses_edits and not self._speaks_when_locked(pull, actor):
            raise Forbidden("Unable to update comment because issue is locked.")
        changes: dict[str, Any] = {"body": {"from": comment.body}}
        comment.body, comment.updated_at = body, self._context.clock.now()
        self._events.publish(CommentChanged(pull, "edited", actor, comment, details={"changes": changes}))

    def lock(self, pull: PullRequest, *, actor: Actor, locked: bool = True) -> None:
        """Lock the conversation, or unlock it (docs, "Locking conversations": who may write)."""
        self._accounts.require_role(actor, pull.repository, "write")
        if pull.locked is not locked:
            pull.locked = locked
            action = "locked" if locked else "unlocked"
            self._pulls.record(pull, action, actor)
            self._events.publish(PullRequestChanged(pull, action, actor))

    def delete_comment(self, pull: PullRequest, comment: Comment, *, actor: Actor) -> None:
        """Take a comment away."""
        self._check_owner(pull, comment, actor)
        del pull.comments[comment.id]
        self._events.publish(CommentChanged(pull, "deleted", actor, comment))

    def react(self, comment: Comment, content: str, *, actor: Actor) -> Reaction:
        """React with one of GitHub's eight words; a second time finds the existing reaction. There is no webhook."""
        if content not in REACTIONS:
            raise Invalid("Validation Failed", errors=[{"resource": "Reaction", "field": "content", "code": "invalid"}])
        for found in comment.given:
            if (found.user, found.content) == (actor.user, content):
                return found
        reaction_id = self._context.state.next_id("reaction")
        reaction = Reaction(reaction_id, actor.user, content, self._context.clock.now())
        comment.given.append(reaction)
        return reaction

    # Assignees and reviews

    def assign(self, pull: PullRequest, logins: Iterable[str], *, actor: Actor) -> None:
        """Assign people; those without access are passed over silently, as GitHub does."""
        self._accounts.require_role(actor, pull.repository, "triage")
        for login in logins:
            user = self._context.state.users.get(login.lower())
            if user and user not in pull.assignees and self._accounts.has_role(user, pull.repository, "read"):
                pull.assignees.append(user)
                self._pulls.record(pull, "assigned", actor, assignee=user)
                self._events.publish(PullRequestChanged(pull, "assigned", actor, assignee=user))

    def unassign(self, pull: PullRequest, logins: Iterable[str], *, actor: Actor) -> None:
        """Take people off; those who are not assigned are passed over."""
        self._accounts.require_role(actor, pull.repository, "triage")
        lower = {login.lower() for login in logins}
        for user in [user for user in pull.assignees if user.login.lower() in lower]:
            pull.assignees.remove(user)
            self._pulls.record(pull, "unassigned", actor, assignee=user)
            self._events.publish(PullRequestChanged(pull, "unassigned", actor, assignee=user))

    def request_review(self, pull: PullRequest, user: User, *, actor: Actor, requested: bool = True) -> None:
        """Request somebody's review, or withdraw the request; a review ends it (docs, "Requesting a review")."""
        self._accounts.require_role(actor, pull.repository, "triage")
        if (user in pull.reviewers) is requested:
            return
        (pull.reviewers.append if requested else pull.reviewers.remove)(user)
        action = "review_requested" if requested else "review_request_removed"
        self._pulls.record(pull, action, actor)
        self._events.publish(PullRequestChanged(pull, action, actor, reviewer=user))

    def review(self, pull: PullRequest, state: str, *, actor: Actor, body: str = "") -> Review:
        """Review the current head: APPROVED, CHANGES_REQUESTED or COMMENTED. Authors cannot approve their own work."""
        self._accounts.require_role(actor, pull.repository, "read")
        if state not in {"APPROVED", "CHANGES_REQUESTED", "COMMENTED"}:
            raise Invalid("Unprocessable Entity")
        if actor.user is pull.author and state == "APPROVED":
            raise Invalid("Unprocessable Entity: Can not approve your own pull request")
        now = self._context.clock.now()
        review_id = self._context.state.next_id("review")
        review = Review(review_id, actor.user, state, body, pull.head_sha, now)
        pull.reviews.append(review)
        pull.reviewers = [each for each in pull.reviewers if each is not actor.user]
        self._pulls.record(pull, "reviewed", actor)
        self._events.publish(ReviewChanged(pull, "submitted", actor, review))
        return review

    def dismiss_review(self, pull: PullRequest, review: Review, *, actor: Actor) -> None:
        """Make a verdict count no longer."""
        self._accounts.require_role(actor, pull.repository, "write")
        self.mark_dismissed(pull, review, actor)

    def mark_dismissed(self, pull: PullRequest, review: Review, actor: Actor) -> None:
        """Mark a review as dismissed, for any cause; record it in the timeline and emit the webhook."""
        review.state = "DISMISSED"
        self._pulls.record(pull, "review_dismissed", actor)
        self._events.publish(ReviewChanged(pull, "dismissed", actor, review))

    def open_thread(self, pull: PullRequest, body: str, *, actor: Actor, path: str = "") -> Thread:
        """Start a conversation on a changed file (the first one): a review with one comment on a line."""
        path = path or self._pulls.files(pull)[0].filename
        review = self.review(pull, "COMMENTED", actor=actor)
        thread = Thread(self._context.state.next_id("review_comment"), review, path, body)
        pull.threads.append(thread)
        self._events.publish(ReviewCommentChanged(pull, "created", actor, thread))
        return thread

    def resolve_thread(self, pull: PullRequest, thread: Thread, *, actor: Actor, resolved: bool = True) -> None:
        """Mark a conversation as resolved, or as open again: its pull request's author and people with write may."""
        if actor.user is not pull.author:
            self._accounts.require_role(actor, pull.repository, "write")
        thread.resolved_by = actor.user if resolved else None
        self._events.publish(ThreadChanged(pull, "resolved" if resolved else "unresolved", actor, thread))

    def _speaks_when_locked(self, pull: PullRequest, actor: Actor) -> bool:
        if actor.app is not None:
            return not self._context.behaviour.locked_refuses_apps
        return self._accounts.has_role(actor.user, pull.repository, "write")

    def _check_owner(self, pull: PullRequest, comment: Comment, actor: Actor) -> None:
        if actor.user is comment.user:
            return
        if actor.app is not None:
            raise Forbidden()
        self._accounts.require_role(actor, pull.repository, "write")
