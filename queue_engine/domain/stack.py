"""A stack of pull requests: each is based on the head branch of the one below. Plain data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StackMember:
    """An open pull request whose head branch is the base branch of another one."""

    number: int
    base_branch: str


@dataclass(frozen=True, slots=True)
class StackPosition:
    """The place of a pull request above another one, and the branch on which their stack lands."""

    below: int | None
    """The pull request below; None if GitHub does not name it."""
    own_base: str
    """Its base branch by GitHub: the head branch of the one below."""
    base_branch: str
    """The branch on which the stack lands, for whose queue it waits."""
    landed: bool = False
    """Whether the one below has landed, so that only GitHub's change of the base branch is missing."""
