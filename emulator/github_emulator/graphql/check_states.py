"""All checks of a commit in one word, as GraphQL shows them."""

from collections.abc import Callable
from typing import Any

from github_emulator.facade.github import GitHub
from github_emulator.graphql.errors import not_accessible
from github_emulator.state import Repository


def rollup(github: GitHub, repository: Repository, sha: str, may: Callable[[str], bool]) -> dict[str, Any] | None:
    """`StatusCheckRollup`; None without any check."""
    if not (may("checks") and may("statuses") and github.behaviour.rollup_readable):
        raise not_accessible()
    state = github.checks.rollup(repository, sha, replaced=github.behaviour.rollup_counts_replaced)
    return None if state is None else {"state": state}
