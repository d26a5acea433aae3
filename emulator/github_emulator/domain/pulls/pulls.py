"""Pull requests: opened, edited, closed, reopened, drafted; and what moving branches does to them."""

from dataclasses import dataclass
from typing import Any

from github_emulator.core.diff import FileChange
from github_emulator.core.errors import Invalid
from github_emulator.core.git import Commit
from github_emulator.domain.accounts.accounts import Accounts
from github_emulator.domain.pulls.stacks import Stacks
from github_emulator.events.context import Context
from github_emulator.events.events import (
    BaseChanged,
    HeadMoved,
    PullRequestChanged,
    PullRequestClosed,
    PullRequestDrafted,
)
from github_emulator.state import Actor, IssueEvent, PullRequest, Repository

_STACKED = "Cannot change the base branch because the pull request is part of a stack."
"""As lararosekelley/git-stk #306 met it through GraphQL."""


@dataclass(frozen=True, slots=True)
class PullRequestOptions:
    """What a new pull request has besides its title and branches."""

    body: str = ""
    draft: bool = False
    maintainer_can_modify: bool = True


class Pulls:
    """The life of pull requests apart from merging."""

    def __init__(self, context: Context, *, accounts: Accounts, stacks: Stacks) -> None:
        self._context = context
        self._events = context.events
        self._accounts = accounts
        self._stacks = stacks

    def open(
        self,
        repository: Repository,
        *,
        title: str,
        head: tuple[Repository, str],
        base: str,
        actor: Actor,
        options: PullRequestOptions,
    ) -> PullRequest:
        """Open a pull request for `head`, a repository's branch.

        Raises Invalid for missing branches, nothing to merge, or one that exists already.
        """
        head_repository, head_branch = head
        head_sha = head_repository.git.branch(head_branch)
        base_sha = repository.git.branch(base)
        if head_sha is None or base_sha is None:
            raise _invalid("head" if head_sha is None else "base", "invalid")
        if repository.git.is_ancestor(head_sha, base_sha):
            raise _invalid("", "custom", f"No commits between {base} and {head_branch}")
        self._check_drafts(options)
        self._refuse_duplicate(repository, head_repository, head_branch, base)
        state, now = self._context.state, self._context.clock.now()
        pull = PullRequest(
            id=state.next_id("pull_request"),
            issue_id=state.next_id("issue"),
            number=repository.next_number,
            title=title,
            body=options.body,
            author=actor.user,
            repository=repository,
            head_repository=head_repository,
            head_owner=head_repository.owner.login,
            head_branch=head_branch,
            head_sha=head_sha,
            base_branch=base,
            base_sha=base_sha,
            created_at=now,
            updated_at=now,
            last_pusher=actor.user,
            reviewable_sha=head_sha,
            draft=options.draft,
            maintainer_can_modify=options.maintainer_can_modify and _may_be_opened(repository, head_repository),
        )
        self._number(pull)
        self._stacks.opened(pull)
        self._events.publish(PullRequestChanged(pull, "opened", actor))
        return pull

    def _check_drafts(self, options: PullRequestOptions) -> None:
        """Raise Invalid for a draft in repositories without them."""
        behaviour, words = self._context.behaviour, "Draft pull requests are not supported in this repository."
        if options.draft and not behaviour.drafts:
            raise _invalid("", "custom", words) if behaviour.draft_refusal_listed else Invalid(words)

    def _number(self, pull: PullRequest) -> None:
        """Give the pull request its repository's next number, and the ref of that number."""
        pull.repository.next_number += 1
        pull.repository.pulls[pull.number] = pull
        pull.repository.git.set_ref(f"pull/{pull.number}/head", pull.head_sha)

    def edit(
        self,
        pull: PullRequest,
        *,
        actor: Actor,
        title: str | None = None,
        body: str | None = None,
        state: str | None = None,
        base: str | None = None,
        maintainer_can_modify: bool | None = None,
    ) -> None:
        """Change what is given; the author and people who may triage can. Raises Invalid for a bad state or base."""
        if actor.user is not pull.author:
            self._accounts.require_role(actor, pull.repository, "triage" if base is None else "write")
        if maintainer_can_modify is not None:
            opens = pull.head_repository is None or _may_be_opened(pull.repository, pull.head_repository)
            pull.maintainer_can_modify = maintainer_can_modify and opens
        self._edit_text(pull, title, body, actor)
        if base is not None and base != pull.base_branch:
            if self._stacks.of(pull) is not None:
                raise Invalid(_STACKED)
            self._edit_base(pull, base, actor)
        if state == "closed" and pull.state == "open":
            self.close(pull, actor)
        if state == "open" and pull.state == "closed":
            self._reopen(pull, actor)

    def set_draft(self, pull: PullRequest, draft: bool, *, actor: Actor) -> None:
        """Convert to a draft, or say that it is ready for review. No change, no event."""
        if actor.user is not pull.author:
            self._accounts.require_role(actor, pull.repository, "write")
        if pull.draft == draft or pull.state != "open":
            return
        pull.draft = draft
        self.record(pull, "convert_to_draft" if draft else "ready_for_review", actor)
        self._events.publish(PullRequestChanged(pull, "converted_to_draft" if draft else "ready_for_review", actor))
        if draft:
            self._events.publish(PullRequestDrafted(pull, actor))

    def close(self, pull: PullRequest, actor: Actor) -> None:
        """Close it, unmerged."""
        self._settle(pull, actor)
        self.record(pull, "closed", actor)
        self._events.publish(PullRequestChanged(pull, "closed", actor))
        self._events.publish(PullRequestClosed(pull, actor))

    def mark_merged(self, pull: PullRequest, sha: str, actor: Actor) -> None:
        """It landed as commit `sha`: merged is closed, and final."""
        pull.merged_at, pull.merged_by = self._context.clock.now(), actor.user
        pull.merge_commit_sha = sha
        self._settle(pull, actor)
        self.record(pull, "merged", actor, commit_id=sha)
        self.record(pull, "closed", actor)

    def head_moved(self, pull: PullRequest, before: str | None, after: str, forced: bool, actor: Actor) -> None:
        """Its head branch moved, or was there again before GitHub noticed its deletion."""
        # The webhook's `before` is a commit in every case (octokit/webhooks, `pull_request.synchronize`).
        details = {"before": before or pull.head_sha, "after": after}
        tip = pull.repository.git.branch(pull.base_branch)
        pull.head_sha, pull.base_sha = after, tip or pull.base_sha
        pull.repository.git.set_ref(f"pull/{pull.number}/head", after)
        if forced:
            self.record(pull, "head_ref_force_pushed", actor, commit_id=after)
        if self._context.behaviour.pushes_touch_pulls:
            self._touch(pull)
        self._events.publish(PullRequestChanged(pull, "synchronize", actor, details=details))
        self._events.publish(HeadMoved(pull, actor, before))
        if tip is not None and pull.repository.git.is_ancestor(after, tip):
            self.close(pull, actor)

    def base_forced(self, pull: PullRequest, actor: Actor) -> None:
        """Its base branch lost commits, or was moved back."""
        self.record(pull, "base_ref_force_pushed", actor)

    def branch_gone(self, pull: PullRequest, repository: Repository, branch: str, actor: Actor) -> None:
        """Its head or base branch was deleted: it is closed when that is noticed, unless it has another one by then."""
        of_head = pull.head_repository is repository and pull.head_branch == branch
        if of_head:
            self.record(pull, "head_ref_deleted", actor)

        def notice() -> None:
            still = branch == (pull.head_branch if of_head else pull.base_branch)
            if pull.state == "open" and still and repository.git.branch(branch) is None:
                self.close(pull, actor)

        self._context.schedule.later(self._context.timings.branch_gone, notice, name=f"branch gone #{pull.number}")

    def brought(self, pull: PullRequest, landed: str, actor: Actor) -> None:
        """A push brought its head into its base, by commit `landed`: it is merged when that is noticed."""
        head = pull.head_sha

        def notice() -> None:
            if pull.state != "open":
                return
            if pull.head_sha == head:
                self.mark_merged(pull, landed, actor)
                self._events.publish(PullRequestChanged(pull, "closed", actor))
            elif self._context.timings.moved_head_closes:
                self.close(pull, actor)

        self._context.schedule.later(
            self._context.timings.merged_by_push, notice, name=f"merged by push #{pull.number}"
        )

    def retarget(
        self,
        repository: Repository,
        old: str,
        new: str,
        actor: Actor,
        *,
        event: str = "automatic_base_change_succeeded",
    ) -> None:
        """Aim the open pull requests on a branch at another: what GitHub does before it deletes a merged head itself.

        A deletion of the branch through the API closes them instead. (GitHub's page on deleting branches.)
        """
        for pull in repository.pulls.values():
            if pull.state == "open" and pull.base_branch == old:
                self._edit_base(pull, new, actor, event=event)

    def commits(self, pull: PullRequest) -> list[Commit]:
        """What the pull request brings, oldest first."""
        git = pull.repository.git
        return list(reversed(git.log(pull.head_sha, self._merge_base(pull))))

    def files(self, pull: PullRequest) -> list[FileChange]:
        """The files that it changes against its merge base."""
        return list(pull.repository.git.diff(self._merge_base(pull), pull.head_sha))

    def record(self, pull: PullRequest, event: str, actor: Actor, **details: Any) -> None:
        """Add a line to its timeline."""
        event_id, now = self._context.state.next_id("issue_event"), self._context.clock.now()
        pull.events.append(IssueEvent(event_id, event, actor.user, now, app=actor.app, **details))
        self._touch(pull)

    def _touch(self, pull: PullRequest) -> None:
        pull.updated_at = self._context.clock.now()

    def _settle(self, pull: PullRequest, actor: Actor) -> None:
        pull.state, pull.closed_at, pull.closed_by = "closed", self._context.clock.now(), actor.user
        # What a pull request shows of itself is frozen when it closes: its base may move on.
        tip = pull.repository.git.branch(pull.base_branch)
        pull.base_sha = pull.base_sha if pull.merged or tip is None else tip

    def _merge_base(self, pull: PullRequest) -> str:
        git = pull.repository.git
        tip = None if pull.merged else git.branch(pull.base_branch)
        return git.merge_base(tip or pull.base_sha, pull.head_sha) or pull.base_sha

    def _edit_text(self, pull: PullRequest, title: str | None, body: str | None, actor: Actor) -> None:
        changes = {}
        if title is not None and title != pull.title:
            changes["title"] = {"from": pull.title}
            self.record(pull, "renamed", actor, rename=(pull.title, title))
            pull.title = title
        if body is not None and body != pull.body:
            changes["body"] = {"from": pull.body}
            pull.body = body
            self._touch(pull)
        if changes:
            self._events.publish(PullRequestChanged(pull, "edited", actor, details={"changes": changes}))

    def _edit_base(self, pull: PullRequest, base: str, actor: Actor, *, event: str = "base_ref_changed") -> None:
        tip = pull.repository.git.branch(base)
        if pull.state != "open":
            raise _invalid("base", "custom", "Cannot change the base branch of a closed pull request.")
        if tip is None:
            raise _invalid("base", "invalid", f"Proposed base branch '{base}' was not found")
        if pull.repository.git.is_ancestor(pull.head_sha, tip):
            raise _invalid("base", "custom", f"There are no new commits between base branch '{base}' and head branch")
        changes = {"base": {"ref": {"from": pull.base_branch}, "sha": {"from": pull.base_sha}}}
        pull.base_branch, pull.base_sha = base, tip
        if event:
            self.record(pull, event, actor)
        self._events.publish(PullRequestChanged(pull, "edited", actor, details={"changes": changes}))
        self._events.publish(BaseChanged(pull, actor))

    def _reopen(self, pull: PullRequest, actor: Actor) -> None:
        head = pull.head_repository.git.branch(pull.head_branch) if pull.head_repository else None
        if pull.merged or head is None or pull.repository.git.branch(pull.base_branch) is None:
            raise _invalid("state", "custom", "state cannot be changed. The pull request cannot be reopened.")
        pull.state, pull.closed_at, pull.closed_by = "open", None, None
        pull.head_sha = head
        pull.repository.git.set_ref(f"pull/{pull.number}/head", head)
        self.record(pull, "reopened", actor)
        self._events.publish(PullRequestChanged(pull, "reopened", actor))

    def _refuse_duplicate(self, repository: Repository, head: Repository, branch: str, base: str) -> None:
        for pull in repository.pulls.values():
            same = pull.head_repository is head and pull.head_branch == branch and pull.base_branch == base
            if same and pull.state == "open":
                raise _invalid("", "custom", f"A pull request already exists for {head.owner.login}:{branch}.")


def _invalid(field: str, code: str, message: str = "") -> Invalid:
    error = {"resource": "PullRequest", "code": code} | ({"field": field} if field else {})
    return Invalid("Validation Failed", errors=[error | ({"message": message} if message else {})])


def _may_be_opened(repository: Repository, head: Repository) -> bool:
    """Whether GitHub offers "Allow edits by maintainers": for forks of personal accounts (isaacs/github #1681)."""
    return head is not repository and head.owner.kind != "Organization"
