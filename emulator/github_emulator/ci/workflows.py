"""What a workflow file of GitHub Actions says: on which events it runs, and which jobs it has. Plain and pure.

Sources: GitHub's pages "Workflow syntax", "Events that trigger workflows", "Skipping workflow runs".
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

from github_emulator.state import WorkflowRun

Judge = Callable[[Mapping[str, str]], bool]
"""Path -> text of the tree under test; whether it is green."""

MOST_FILES = 300
"""Path filters look at so many changed files (docs: "Workflow syntax")."""

_SKIPPING = ("[skip ci]", "[ci skip]", "[no ci]", "[skip actions]", "[actions skip]")
_TRAILER = re.compile(r"\n\n\n?(?:.+\n)*skip-checks: ?true\s*\Z")


def all_green(files: Mapping[str, str]) -> bool:
    """Every tree passes."""
    return True


@dataclass(frozen=True)
class Trigger:
    """One event of a workflow's `on`, with its filters; None filters nothing.

    `branches` are those pushed to, or the base of a pull request; `types` are actions of pull requests,
    `comment_types` those of `issue_comment`, and `inputs` the names that `workflow_dispatch` takes.
    """

    event: str
    branches: Sequence[str] | None = None
    branches_ignore: Sequence[str] | None = None
    paths: Sequence[str] | None = None
    paths_ignore: Sequence[str] | None = None
    types: Sequence[str] = ("opened", "synchronize", "reopened")
    inputs: Sequence[str] = ()
    comment_types: Sequence[str] = ("created", "edited", "deleted")

    def admits(self, event: str, action: str, branch: str, files: Callable[[], Sequence[str]]) -> bool:
        """Whether the event starts the workflow. `files` lists the changed paths and is called when filters ask."""
        if event != self.event or (event == "pull_request" and action not in self.types):
            return False
        if event == "issue_comment":
            return action in self.comment_types
        if self.branches is not None and not matches(branch, self.branches):
            return False
        if self.branches_ignore is not None and matches(branch, self.branches_ignore):
            return False
        if self.paths is None and self.paths_ignore is None:
            return True
        changed = files()[:MOST_FILES]
        if self.paths is not None and not any(matches(path, self.paths) for path in changed):
            return False
        return self.paths_ignore is None or not all(matches(path, self.paths_ignore) for path in changed)


@dataclass(frozen=True)
class Job:
    """One job: a check run of its own, `queued` for `waits`, then in progress for `duration` plus up to `jitter`.

    `needs` are jobs that end first; unless all of them succeeded the job is skipped, or runs all the same with
    `always`. `guard` is its `if`: without leave the job is `skipped`, which satisfies a required check (docs:
    "Troubleshooting required status checks"). `plan`, `judge` and `flaky` decide its conclusion as for a CI. `tests`
    says in which runs its steps look at the tree: in others every tree passes. A job that `judges` its run looks at
    the pull request, and not at the tree: at its title or labels. `labels` are those of its runner.
    """

    name: str
    duration: timedelta = timedelta(seconds=20)
    waits: timedelta = timedelta(0)
    jitter: timedelta = timedelta(0)
    needs: Sequence[str] = ()
    always: bool = False
    guard: Callable[[WorkflowRun], bool] | None = None
    judge: Judge = all_green
    flaky: float = 0.0
    plan: Sequence[str] = ()
    finishes: bool = True
    tests: Callable[[WorkflowRun], bool] | None = None
    judges: Callable[[WorkflowRun], bool] | None = None
    labels: Sequence[str] = ("ubuntu-latest",)


def skips_ci(message: str) -> bool:
    """Whether a head commit's message skips the workflows of `push` and `pull_request`.

    Only the newest commit of a push counts (github/docs #6162). A trailer must stand last, behind empty lines.
    """
    return any(word in message for word in _SKIPPING) or _TRAILER.search(message) is not None


def matches(text: str, patterns: Sequence[str]) -> bool:
    """Whether filter patterns take a branch or path in; a later pattern overrules, and `!` excludes."""
    taken = False
    for pattern in patterns:
        if _compiled(pattern.removeprefix("!")).fullmatch(text):
            taken = not pattern.startswith("!")
    return taken


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """GitHub's own patterns: `*` stops at a slash, `**` does not, `?` and `+` repeat what stands before them."""
    parts = re.split(r"(\*\*/?|\*|\?|\+|\[[^]]*\])", pattern)
    special = {"*": "[^/]*", "**": ".*", "**/": "(?:.*/)?", "?": "?", "+": "+"}
    return re.compile(
        "".join(special.get(part) or (part if part.startswith("[") else re.escape(part)) for part in parts)
    )
