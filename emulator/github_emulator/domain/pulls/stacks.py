"""Stacked pull requests: which belong together, and what GitHub refuses because they do.

Sources: GitHub's page "Stacked pull requests APIs and webhooks", github/gh-stack (REST API, webhooks), and what people
met (chdsbd/kodiak #923, lararosekelley/git-stk #306).
"""

from collections.abc import Sequence
from itertools import pairwise

from github_emulator.core.errors import Invalid
from github_emulator.events.context import Context
from github_emulator.events.history import History
from github_emulator.state import PullRequest, Repository, Stack


class Stacks:
    """Forms and dissolves stacks, and finds that of a pull request."""

    def __init__(self, context: Context, *, history: History) -> None:
        self._context = context
        self._history = history

    def form(self, repository: Repository, pulls: Sequence[PullRequest]) -> Stack:
        """Make a stack of open pull requests, the bottom first. Raises Invalid when they do not build on each other."""
        builds = all(above.base_branch == below.head_branch for below, above in pairwise(pulls))
        if len(pulls) < 2 or not builds or any(pull.from_fork or pull.state != "open" for pull in pulls):
            raise Invalid("Validation Failed")
        if any(self.of(pull) is not None for pull in pulls):
            raise Invalid("Validation Failed")
        stack = Stack(self._context.state.next_id("stack"), repository.next_number, pulls[0].base_branch, tuple(pulls))
        repository.next_number += 1
        repository.stacks.append(stack)
        self._history.changed()
        return stack

    def dissolve(self, repository: Repository, stack: Stack) -> None:
        """Make its pull requests ordinary ones."""
        repository.stacks.remove(stack)
        self._history.changed()

    def of(self, pull: PullRequest) -> Stack | None:
        """The stack that a pull request belongs to; None where stacks are not offered."""
        if self._context.behaviour.stacks == "none" or self._context.behaviour.enterprise_server:
            return None
        return next((stack for stack in pull.repository.stacks if pull in stack.pulls), None)

    def opened(self, pull: PullRequest) -> None:
        """Where GitHub does so by itself, stack a new pull request on the one whose head branch is its base."""
        repository = pull.repository
        if self._context.behaviour.stacks != "automatic" or pull.from_fork:
            return
        below = next(
            (
                one
                for one in repository.pulls.values()
                if one.state == "open" and not one.from_fork and one.head_branch == pull.base_branch
            ),
            None,
        )
        if below is None:
            return
        stack = self.of(below)
        if stack is None:
            self.form(repository, (below, pull))
        elif stack.pulls[-1] is below:
            repository.stacks[repository.stacks.index(stack)] = Stack(
                stack.id, stack.number, stack.base_branch, (*stack.pulls, pull)
            )
