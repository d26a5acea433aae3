"""Merges that GitHub carries out later: accepted at once, judged when they run, their result kept for a day.

Sources: GitHub's changelog of 2026-10-01, github/gh-stack ("Merge API": statuses, fields, messages), octocrab's and
go-github's clients (#4491), navikt/copilot #659 (merge queues). The words of what fails are those of the synchronous
merge; GitHub's own for a missing merge queue are not known, and invented here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import pairwise
from uuid import UUID

from github_emulator.core.errors import ApiError, NotFound, NotMergeable
from github_emulator.domain.merging.merging import Merging
from github_emulator.domain.pulls.pulls import Pulls
from github_emulator.domain.pulls.stacks import Stacks
from github_emulator.domain.refs.refs import Refs, check_workflows, require_branch
from github_emulator.domain.rules.merge_rules import MergeRules
from github_emulator.domain.rules.rules import Rules
from github_emulator.events.context import Context
from github_emulator.events.events import PullRequestChanged
from github_emulator.state import Actor, MergeRequest, PullRequest, Stack

KEPT = timedelta(hours=24)
"""How long a result is kept after its last update."""
_NO_PARAMETERS = "Custom merge params are not supported when merging via a merge queue"
_NO_QUEUE = "The base branch does not have a merge queue."


class AsyncMerges:
    """Accepts merge requests, executes them, and returns their results."""

    def __init__(
        self,
        context: Context,
        *,
        pulls: Pulls,
        stacks: Stacks,
        rules: Rules,
        merge_rules: MergeRules,
        refs: Refs,
        merging: Merging,
    ) -> None:
        self._context = context
        self._events = context.events
        self._pulls = pulls
        self._stacks = stacks
        self._rules = rules
        self._merge_rules = merge_rules
        self._refs = refs
        self._merging = merging

    def submit(
        self,
        pull: PullRequest,
        *,
        actor: Actor,
        sha: str | None = None,
        method: str | None = None,
        action: str = "default",
        title: str | None = None,
        text: str | None = None,
    ) -> tuple[int, MergeRequest]:
        """Accept to merge a pull request, with all below it in its stack; returns the HTTP status and the request.

        Raises NotFound where asynchronous merges are not offered, or Forbidden. Rules are judged later.
        """
        self._require_offer()
        self._merging.require_merger(pull, actor)
        found = self._latest(pull)
        if found is not None and found.status in ("pending", "enqueued"):
            if found.status == "pending":
                return 409, found
            found.message = "Pull request is in the merge queue."
            return 200, found
        state, now = self._context.state, self._context.clock.now()
        random = self._context.randomness.of(f"merge-async {len(state.merge_requests)}")
        uuid = str(UUID(int=random.getrandbits(128), version=4))
        request = MergeRequest(uuid, pull, actor, method, action, title, text, sha or pull.head_sha, now)
        if pull.merged:
            request.status, request.message = "merged", "Pull request is already merged."
            request.sha = pull.merge_commit_sha
            return 200, request
        if pull.state != "open" or pull.draft:
            request.status = "failed"
            request.message = "Pull Request is still a draft" if pull.draft else "Pull Request is not mergeable"
            return 400, request
        state.merge_requests[uuid] = request
        self._context.schedule.after(
            self._context.timings.merge_async, partial(self._run, request), name=f"merge-async #{pull.number}"
        )
        return 202, request

    def find(self, pull: PullRequest, uuid: str) -> MergeRequest:
        """A request by its identifier. Raises NotFound when it is another pull request's, or too old."""
        self._require_offer()
        found = self._context.state.merge_requests.get(uuid)
        if found is None or found.pull is not pull or not self._is_kept(found):
            raise NotFound()
        return found

    def _latest(self, pull: PullRequest) -> MergeRequest | None:
        requests = reversed(self._context.state.merge_requests.values())
        return next((one for one in requests if one.pull is pull and self._is_kept(one)), None)

    def _is_kept(self, request: MergeRequest) -> bool:
        return request.status == "pending" or self._context.clock.now() < request.updated_at + KEPT

    def _require_offer(self) -> None:
        if not self._context.behaviour.merge_async:
            raise NotFound()

    def _run(self, request: MergeRequest) -> None:
        request.updated_at = self._context.clock.now()
        try:
            if self._is_queued(request):
                request.status, request.message = "enqueued", "Pull request was added to the merge queue."
                return
            request.sha = self._land(request)
            if not self._context.behaviour.async_mergers_named:
                request.pull.merged_by = None
        except ApiError as refusal:
            request.status, request.message = "failed", refusal.message
        else:
            request.status, request.message = "merged", "Pull request was merged."

    def _is_queued(self, request: MergeRequest) -> bool:
        """Whether the base's merge queue takes it over. Raises NotMergeable when it refuses to."""
        pull, stack = request.pull, self._stacks.of(request.pull)
        branch = pull.base_branch if stack is None else stack.base_branch
        queue = any(demand.queue for demand in self._rules.demands(pull.repository, branch))
        if request.action == "merge_queue" and not queue:
            raise NotMergeable(_NO_QUEUE)
        if not queue or request.action == "direct_merge":
            return False
        if request.method or request.title or request.text:
            raise NotMergeable(_NO_PARAMETERS)
        return True

    def _land(self, request: MergeRequest) -> str:
        stack = self._stacks.of(request.pull)
        if stack is not None:
            return self._land_stack(request, stack)
        return self._merging.merge(
            request.pull,
            actor=request.actor,
            sha=request.expected_head_sha,
            method=request.method or "merge",
            title=request.title,
            message=request.text,
        )

    def _land_stack(self, request: MergeRequest, stack: Stack) -> str:
        """Land it and every open pull request below it, all or none; what is above is retargeted (git-stk #306)."""
        repository, actor = request.pull.repository, request.actor
        upto = stack.pulls[: stack.pulls.index(request.pull) + 1]
        group = [pull for pull in upto if not pull.merged]
        tip = require_branch(repository, stack.base_branch)
        for below, above in pairwise(group):
            if not repository.git.is_ancestor(below.head_sha, above.head_sha):
                raise NotMergeable(
                    f"PR #{above.number}'s branch is not a linear descendant of PR #{below.number}'s branch"
                )
        landed: list[tuple[PullRequest, str]] = []
        for pull in group:
            tip = self._commit(request, pull, stack, tip)
            landed.append((pull, tip))
        for pull, sha in landed:
            self._pulls.mark_merged(pull, sha, actor)
        self._refs.move(repository, stack.base_branch, tip, actor=actor)
        for pull in group:
            self._events.publish(PullRequestChanged(pull, "closed", actor))
        self._pulls.retarget(repository, request.pull.head_branch, stack.base_branch, actor)
        return tip

    def _commit(self, request: MergeRequest, pull: PullRequest, stack: Stack, tip: str) -> str:
        """The commit that lands one of a stack on a tip. Raises what a synchronous merge would raise."""
        git, merging, actor = pull.repository.git, self._merging, request.actor
        method = request.method or "merge"
        tree = git.merge_trees(tip, pull.head_sha)
        with _aimed_at(pull, stack.base_branch):
            merging.check_merge(pull, actor, request.expected_head_sha if pull is request.pull else None, method)
            if tree is None:
                raise NotMergeable("Merge conflict: the pull request could not be merged.")
            if not actor.may("workflows"):
                check_workflows([change.filename for change in git.diff(tip, tree)])
            judged = actor if self._context.behaviour.stacks_bypass_rules else None
            if violations := self._merge_rules.merge_violations(pull, actor=judged, method=method):
                raise NotMergeable(" ".join(violations))
        return merging.landing(pull, tip, tree, actor, method, request.title, request.text)


@contextmanager
def _aimed_at(pull: PullRequest, branch: str) -> Iterator[None]:
    """Within it the pull request is one for the stack's own base, whose rules hold for all of the stack (gh-stack)."""
    own, pull.base_branch = pull.base_branch, branch
    try:
        yield
    finally:
        pull.base_branch = own
