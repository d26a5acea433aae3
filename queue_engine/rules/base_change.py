"""Judge what changed on a base branch: only files that need no test, by the repository's configuration? Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from queue_engine.config.model import Policy
from queue_engine.config.patterns import branch_matches

_WORKFLOWS = ".github/workflows/"
"""The files that say what the checks do: a change of them always needs a test."""


@dataclass(frozen=True, slots=True)
class BaseChange:
    """What changed on a base branch from one of its commits to a later one."""

    before: str
    after: str
    paths: frozenset[str] | None
    """Former and new paths of all changed files; None if GitHub does not list them all."""


def need_no_test(paths: Iterable[str] | None, policy: Policy) -> bool:
    """Return whether all changed paths are known, and the configuration says that they need no test."""
    return paths is not None and all(_needs_no_test(path, policy) for path in paths)


def _needs_no_test(path: str, policy: Policy) -> bool:
    if path.startswith(_WORKFLOWS):
        return False
    return any(branch_matches(pattern, path) for pattern in policy.checks.untested_paths)
