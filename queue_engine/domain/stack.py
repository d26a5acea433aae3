"""A stack of pull requests: each is based on the head branch of the one below. Plain data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StackMember:
    """An open pull request whose head branch is the base branch of another one."""

    number: int
    base_branch: str
