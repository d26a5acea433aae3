"""Show what would start CI on trains: for `--against` in lines, and for `--workflows` on a clone, without an App."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from queue_engine.config.model import Policy
from queue_engine.domain.facts import RequiredCheck
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Candidates
from queue_engine.domain.run import CandidateTrigger
from queue_engine.executor.triggers import choice_at
from queue_engine.rules.checks import run_checks
from queue_engine.workflows.event_context import CandidateContext
from queue_engine.workflows.trigger_choice import TriggerChoice, TriggerReport
from queue_engine.workflows.trigger_lines import WorkflowLines

_TRIGGERS = {
    CandidateTrigger.PUSH: "a push of its branch",
    CandidateTrigger.PULL_REQUEST: "a draft pull request, which costs notifications",
    CandidateTrigger.DISPATCH: "a dispatch of each workflow",
}


def trigger_lines(choice: TriggerChoice) -> tuple[str, ...]:
    """Return the trigger that trains would use, why, and what to change, a sentence each without its full stop."""
    return (*_trigger(choice), *_pull_request_checks(choice), *_reasons(choice), *_lines(choice), *_on_builds(choice))


def _trigger(choice: TriggerChoice) -> Iterable[str]:
    if choice.trigger is None:
        yield "no trigger surely tests every required check, so IMQ would test one pull request after the other"
        return
    yield f"CI of a train would start by {_TRIGGERS[choice.trigger]}"
    if not choice.proven:
        yield "the workflow files do not prove that every required check runs then: the first train would show it"
    elif choice.trigger is CandidateTrigger.DISPATCH:
        yield f"IMQ would dispatch {', '.join(choice.workflows)}"


def _pull_request_checks(choice: TriggerChoice) -> Iterable[str]:
    if choice.pull_request_checks:
        names = ", ".join(f"`{each.name}`" for each in choice.pull_request_checks)
        yield f"from the head of each pull request, since they judge it and not the tree, IMQ would take: {names}"


def _reasons(choice: TriggerChoice) -> Iterable[str]:
    """Say why each trigger before the chosen one, and an unproven one, is not better."""
    for each in _considered(choice):
        if not each.runs:
            word = "no" if each.runs is False else "perhaps"
            mark = "; " if len(each.reasons) < 2 else "\n    - "
            yield "".join((f"by {each.trigger.value}: {word}", *(mark + reason for reason in each.reasons)))


def _considered(choice: TriggerChoice) -> Sequence[TriggerReport]:
    if choice.trigger is None or not choice.proven:
        return choice.answers
    order = [each.trigger for each in choice.answers]
    return choice.answers[: order.index(choice.trigger)]


def _lines(choice: TriggerChoice) -> Iterable[str]:
    """Return what to change, so that a push runs every required check."""
    if choice.proven and choice.trigger is CandidateTrigger.PUSH:
        return
    for each in choice.lines:
        lines = "".join(f"\n    {line}" for line in each.lines)
        yield f"so that a push runs its checks, {each.path} needs:{lines}"


def _on_builds(choice: TriggerChoice) -> Iterable[str]:
    """Return what to change, so that building a train starts no CI run for each of its pull requests."""
    for each in choice.on_builds:
        lines = "".join(f"\n    {line}" for line in each.lines)
        yield f"so that CI does not run for each pull request while IMQ builds a train, {each.path} needs:{lines}"


_WORKFLOWS = ".github/workflows"
_LONGEST = 512 * 1024
"""GitHub shows IMQ no longer text."""
_INSTALLED = frozenset({".git", "node_modules", ".venv"})
_MOST_FILES = 100_000
_REMOTE = re.compile(r"url\s*=\s*\S*?[/:]([A-Za-z0-9][\w.-]*/[\w.-]+?)(?:\.git)?/?\s*$", re.MULTILINE)
_BRANCH = re.compile(r"ref: refs/(?:remotes/origin|heads)/(\S+)")


@dataclass(frozen=True, slots=True)
class Clone:
    """The files of a clone, as they are in its folder now."""

    root: Path

    async def workflow_files(self, repository: Repository, commit: str) -> Mapping[str, str]:
        return self._texts(sorted((self.root / _WORKFLOWS).glob("*.y*ml")))

    async def texts(self, repository: Repository, commit: str, paths: Sequence[str]) -> Mapping[str, str]:
        """Return the text of those of these files that there are."""
        return self._texts(self.root / path for path in paths)

    async def paths(self, repository: Repository, commit: str) -> Sequence[str] | None:
        """Return the paths of all files, without git's own and what package managers install; None for too many."""
        found: list[str] = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = [each for each in folders if each not in _INSTALLED and "pyvenv.cfg" not in names]
            files = (Path(folder) / name for name in names)
            found += [each.relative_to(self.root).as_posix() for each in files if each.lstat().st_size]
            if len(found) > _MOST_FILES:
                return None
        return found

    def default_branch(self) -> str:
        """Return the branch that the remote `origin` names as its default, or the present one, or `main`."""
        for name in ("refs/remotes/origin/HEAD", "HEAD"):
            if found := _BRANCH.match(self._git(name)):
                return found[1]
        return "main"

    def repository(self) -> Repository:
        """Return the repository of the first remote; `owner/repository` if it has none."""
        found = _REMOTE.search(self._git("config"))
        owner, _, name = (found[1] if found else "owner/repository").partition("/")
        return Repository(0, owner, name, 0)

    def _git(self, name: str) -> str:
        return self._texts([self.root / ".git" / name]).get(f".git/{name}", "")

    def _texts(self, paths: Iterable[Path]) -> dict[str, str]:
        """Read files of the clone; empty for one that GitHub would show no text of."""
        root, found = self.root.resolve(), dict[str, str]()
        for path in paths:
            # A link is text on GitHub: the place that it names, which need not be in the clone.
            if path.is_symlink() or not path.resolve().is_relative_to(root) or not path.is_file():
                continue
            with path.open("rb") as opened:
                content = opened.read(_LONGEST + 1)
            try:
                text = content.decode() if len(content) <= _LONGEST else ""
            except UnicodeDecodeError:
                text = ""
            found[path.relative_to(self.root).as_posix()] = text
        return found


@dataclass(frozen=True, slots=True)
class CloneReport:
    """What would start CI on trains of one base branch, by the files of a clone."""

    branch: str
    workflows: tuple[str, ...]
    required: tuple[RequiredCheck, ...]
    choice: TriggerChoice

    @property
    def has_trigger(self) -> bool:
        """Whether trains would use any trigger."""
        return self.choice.trigger is not None

    def as_text(self) -> str:
        """Format the report for people."""
        files = ", ".join(self.workflows) or "none"
        names = ", ".join(f"`{each}`" for each in dict.fromkeys(each.name for each in self.required))
        known = names or "none, so each check that reports on a pull request has to pass"
        lines = "\n".join(f"- {line}" for line in trigger_lines(self.choice))
        ask = "A clone does not show the rules of GitHub: name the checks that they require by --required."
        return f"Trains on {self.branch}, by these workflows: {files}.\nRequired checks: {known}.\n\n{lines}\n\n{ask}"

    def as_json(self) -> dict[str, Any]:
        choice = self.choice
        return {
            "branch": self.branch,
            "workflows": self.workflows,
            "required": [{"name": each.name, "app": each.app_id} for each in self.required],
            "trigger": choice.trigger and choice.trigger.value,
            "proven": choice.proven,
            "triggers": [
                {"trigger": each.trigger.value, "runs": each.runs, "reasons": each.reasons} for each in choice.answers
            ],
            "pull_request_checks": [each.name for each in choice.pull_request_checks],
            "add": _as_data(choice.lines),
            "exclude_builds": _as_data(choice.on_builds),
        }


def _as_data(found: Iterable[WorkflowLines]) -> list[dict[str, Any]]:
    return [{"path": each.path, "lines": each.lines} for each in found]


async def clone_report(clone: Clone, policy: Policy, branch: str, required: Iterable[str]) -> CloneReport:
    """Judge the workflows of a clone for trains on this base branch; `required` are the checks of GitHub's rules."""
    repository, files = clone.repository(), await clone.workflow_files(clone.repository(), "")
    checks = run_checks(None, policy) | {RequiredCheck(name, None) for name in required}
    candidate = CandidateContext(repository.full_name, branch, f"imq/{branch}/1", clone.default_branch())
    wanted = policy.trains.candidates if policy.trains.enabled else Candidates.AUTO
    choice = await choice_at(clone, repository, "", checks, candidate, wanted)
    ordered = sorted(checks, key=lambda each: (each.name, each.app_id or 0))
    return CloneReport(branch, tuple(files), tuple(ordered), choice)
