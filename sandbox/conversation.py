"""What people and bots say on a pull request: labels, comments, assignees, reviews, reactions."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sandbox import payloads
from sandbox.errors import Forbidden, Invalid, NotFound
from sandbox.state import Actor, Comment, Label, PullRequest, Reaction, Repository, Review, Thread

if TYPE_CHECKING:
    from sandbox.github import GitHub


class Conversation:
    """Persons need the role that GitHub asks for; an app's permissions are checked where its token is."""

    def __init__(self, github: "GitHub") -> None:
        self._github = github

    # Labels

    def create_label(self, repository: Repository, name: str, *, actor: Actor, color: str = "ededed") -> Label:
        """A repository's label of this name, created when it is missing."""
        if name.lower() not in repository.labels:
            label = Label(self._github.state.next_id("label"), name, color, None)
            repository.labels[name.lower()] = label
            self._github.happenings.label(repository, label, "created", actor)
        return repository.labels[name.lower()]

    def edit_label(self, repository: Repository, name: str, new_name: str, *, actor: Actor) -> None:
        """Rename a label; pull requests keep it, and have no event of their own."""
        self._github.require_role(actor, repository, "write")
        label = repository.labels.pop(name.lower(), None)
        if label is None:
            raise NotFound()
        before, label.name = label.name, new_name
        repository.labels[new_name.lower()] = label
        changes: dict[str, Any] = {"name": {"from": before}}
        self._github.happenings.label(repository, label, "edited", actor, changes=changes)

    def delete_label(self, repository: Repository, name: str, *, actor: Actor) -> None:
        """Delete a label everywhere. Its pull requests' `unlabeled` events then come without a label."""
        self._github.require_role(actor, repository, "write")
        label = repository.labels.pop(name.lower(), None)
        if label is None:
            raise NotFound()
        for pull in repository.pulls.values():
            if label in pull.labels:
                pull.labels.remove(label)
                self._github.happenings.pull_request(pull, "unlabeled", actor)
        self._github.happenings.label(repository, label, "deleted", actor)

    def label(self, pull: PullRequest, names: Iterable[str], *, actor: Actor) -> None:
        """Put labels on; those that are there already stay without an event."""
        self._github.require_role(actor, pull.repository, "triage")
        for name in names:
            label = self.create_label(pull.repository, name, actor=actor)
            if label not in pull.labels:
                pull.labels.append(label)
                self._github.pulls.record(pull, "labeled", actor, label=label)
                shown = payloads.label(self._github, pull.repository, label)
                self._github.happenings.pull_request(pull, "labeled", actor, label=shown)

    def unlabel(self, pull: PullRequest, name: str, *, actor: Actor) -> None:
        """Take a label off. Raises NotFound when it is not on."""
        self._github.require_role(actor, pull.repository, "triage")
        label = next((label for label in pull.labels if label.name.lower() == name.lower()), None)
        if label is None:
            raise NotFound("Label does not exist")
        pull.labels.remove(label)
        self._github.pulls.record(pull, "unlabeled", actor, label=label)
        shown = payloads.label(self._github, pull.repository, label)
        self._github.happenings.pull_request(pull, "unlabeled", actor, label=shown)

    def set_labels(self, pull: PullRequest, names: Iterable[str], *, actor: Actor) -> None:
        """Make these the labels, and no others."""
        wanted = list(names)
        lower = {name.lower() for name in wanted}
        for label in [label for label in pull.labels if label.name.lower() not in lower]:
            self.unlabel(pull, label.name, actor=actor)
        self.label(pull, wanted, actor=actor)

    # Comments

    def comment(self, pull: PullRequest, body: str, *, actor: Actor) -> Comment:
        """Say something."""
        self._github.require_role(actor, pull.repository, "read")
        if pull.locked and not self._github.has_role(actor.user, pull.repository, "write") and actor.app is None:
            raise Forbidden("Unable to create comment because issue is locked.")
        now = self._github.clock.now()
        comment_id = self._github.state.next_id("comment")
        comment = Comment(comment_id, actor.user, body, now, now, actor.app)
        pull.comments[comment.id] = comment
        pull.updated_at = now
        self._github.happenings.comment(pull, comment, "created", actor)
        return comment

    def edit_comment(self, pull: PullRequest, comment: Comment, body: str, *, actor: Actor) -> None:
        """Change a comment's text: one's own, or any with write access."""
        self._check_owner(pull, comment, actor)
        changes: dict[str, Any] = {"body": {"from": comment.body}}
        comment.body, comment.updated_at = body, self._github.clock.now()
        self._github.happenings.comment(pull, comment, "edited", actor, changes=changes)

    def delete_comment(self, pull: PullRequest, comment: Comment, *, actor: Actor) -> None:
        """Take a comment away."""
        self._check_owner(pull, comment, actor)
        del pull.comments[comment.id]
        self._github.happenings.comment(pull, comment, "deleted", actor)

    def react(self, comment: Comment, content: str, *, actor: Actor) -> Reaction:
        """React with one of GitHub's eight words; a second time finds the reaction that stands. No webhook tells."""
        if content not in payloads.REACTIONS:
            raise Invalid("Validation Failed", errors=[{"resource": "Reaction", "field": "content", "code": "invalid"}])
        for found in comment.given:
            if (found.user, found.content) == (actor.user, content):
                return found
        reaction_id = self._github.state.next_id("reaction")
        reaction = Reaction(reaction_id, actor.user, content, self._github.clock.now())
        comment.given.append(reaction)
        return reaction

    # Assignees and reviews

    def assign(self, pull: PullRequest, logins: Iterable[str], *, actor: Actor) -> None:
        """Assign people; those without access are passed over silently, as GitHub does."""
        self._github.require_role(actor, pull.repository, "triage")
        for login in logins:
            user = self._github.state.users.get(login.lower())
            if user and user not in pull.assignees and self._github.has_role(user, pull.repository, "read"):
                pull.assignees.append(user)
                self._github.pulls.record(pull, "assigned", actor, assignee=user)
                shown = payloads.user(self._github, user)
                self._github.happenings.pull_request(pull, "assigned", actor, assignee=shown)

    def unassign(self, pull: PullRequest, logins: Iterable[str], *, actor: Actor) -> None:
        """Take people off; those who are not assigned are passed over."""
        self._github.require_role(actor, pull.repository, "triage")
        lower = {login.lower() for login in logins}
        for user in [user for user in pull.assignees if user.login.lower() in lower]:
            pull.assignees.remove(user)
            self._github.pulls.record(pull, "unassigned", actor, assignee=user)
            shown = payloads.user(self._github, user)
            self._github.happenings.pull_request(pull, "unassigned", actor, assignee=shown)

    def review(self, pull: PullRequest, state: str, *, actor: Actor, body: str = "") -> Review:
        """Review the current head: APPROVED, CHANGES_REQUESTED or COMMENTED. Nobody approves their own work."""
        self._github.require_role(actor, pull.repository, "read")
        if state not in {"APPROVED", "CHANGES_REQUESTED", "COMMENTED"}:
            raise Invalid("Unprocessable Entity")
        if actor.user is pull.author and state == "APPROVED":
            raise Invalid("Unprocessable Entity: Can not approve your own pull request")
        now = self._github.clock.now()
        review_id = self._github.state.next_id("review")
        review = Review(review_id, actor.user, state, body, pull.head_sha, now)
        pull.reviews.append(review)
        self._github.pulls.record(pull, "reviewed", actor)
        self._github.happenings.review(pull, review, "submitted", actor)
        return review

    def dismiss_review(self, pull: PullRequest, review: Review, *, actor: Actor) -> None:
        """Make a verdict count no longer."""
        self._github.require_role(actor, pull.repository, "write")
        self.mark_dismissed(pull, review, actor)

    def mark_dismissed(self, pull: PullRequest, review: Review, actor: Actor) -> None:
        """A verdict counts no longer, whoever caused it; the timeline and the apps learn it."""
        review.state = "DISMISSED"
        self._github.pulls.record(pull, "review_dismissed", actor)
        self._github.happenings.review(pull, review, "dismissed", actor)

    def open_thread(self, pull: PullRequest, body: str, *, actor: Actor, path: str = "") -> Thread:
        """Start a conversation on a changed file (the first one): a review with one comment on a line."""
        path = path or self._github.pulls.files(pull)[0].filename
        review = self.review(pull, "COMMENTED", actor=actor)
        thread = Thread(self._github.state.next_id("review_comment"), review, path, body)
        pull.threads.append(thread)
        self._github.happenings.review_comment(pull, thread, "created", actor)
        return thread

    def resolve_thread(self, pull: PullRequest, thread: Thread, *, actor: Actor, resolved: bool = True) -> None:
        """Mark a conversation as resolved, or as open again: its pull request's author and people with write may."""
        if actor.user is not pull.author:
            self._github.require_role(actor, pull.repository, "write")
        thread.resolved_by = actor.user if resolved else None
        self._github.happenings.thread(pull, thread, "resolved" if resolved else "unresolved", actor)

    def _check_owner(self, pull: PullRequest, comment: Comment, actor: Actor) -> None:
        if actor.user is comment.user:
            return
        if actor.app is not None:
            raise Forbidden()
        self._github.require_role(actor, pull.repository, "write")
