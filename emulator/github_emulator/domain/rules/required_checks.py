"""Required checks of a commit: which are met, and GitHub's sentence for those that are not."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from github_emulator.core.behaviour import Behaviour
from github_emulator.domain.checks.checks import PASSING, Checks
from github_emulator.state import CheckRun, PullRequest, Repository, RequiredCheck

_COUNTED = ("expected", "failing", "pending")
"""The words that GitHub counts when the unmet checks differ; runs under way are left out of that sentence."""


class RequiredChecks:
    """Lists the required checks of a commit that are not met, in the words of the merge endpoint."""

    def __init__(self, behaviour: Behaviour, checks: Checks) -> None:
        self._behaviour = behaviour
        self._checks = checks

    def _words(self, repository: Repository, sha: str, check: RequiredCheck) -> list[str]:
        """The word for each source that reports a required check: `passing`, `failing`, `pending`...; empty: none."""
        counts = self._behaviour.dispatched_checks_count
        words = [
            _word(run)
            for run in self._checks.required_runs(repository, sha, check.context, dispatched=counts)
            if check.app_id in {None, run.app.id}
        ]
        for status in self._checks.latest_statuses(repository, sha):
            app_id = status.app.id if status.app else None
            if status.context == check.context and check.app_id in {None, app_id}:
                words.append({"success": "passing", "pending": "pending"}.get(status.state, "failing"))
        return words

    def judged_commit(self, pull: PullRequest) -> str:
        """The commit whose checks count for a merge."""
        merge, repository = pull.merge_commit_sha, pull.repository
        if merge is None or not self._behaviour.test_merges_judged:
            return pull.head_sha
        has_any = repository.runs_by_sha.get(merge) or repository.statuses.get(merge)
        return merge if has_any else pull.head_sha

    def unmet(self, repository: Repository, sha: str, checks: Sequence[RequiredCheck]) -> Iterable[str]:
        """One sentence for the checks that are not met, as the merge endpoint words it; none when all are."""
        found = {check: self._words(repository, sha, check) for check in checks}
        worst = {check.context: _worst(words) for check, words in found.items()}
        yield from sentence({context: word for context, word in worst.items() if word != "passing"}, of=len(checks))

    def unmet_workflows(self, repository: Repository, sha: str, paths: Sequence[str]) -> Iterable[str]:
        """What required workflows still miss. A check run named like the file stands for the result of a workflow."""
        checks = [RequiredCheck(PurePosixPath(path).stem) for path in paths]
        if self._behaviour.workflows_worded_as_checks:
            yield from self.unmet(repository, sha, checks)
            return
        for check in checks:
            if any(self.unmet(repository, sha, [check])):
                # The words of devantler-tech/platform #3136.
                yield f"Required workflow '{check.context}' is not satisfied"

    def unscanned(self, repository: Repository, sha: str, tools: Sequence[str]) -> Iterable[str]:
        """What a rule for code scanning still misses. A check run named like the tool stands for the tool's results."""
        for tool in tools:
            words = self._words(repository, sha, RequiredCheck(tool))
            if not words and not any(run.name == tool for run in repository.runs.values()):
                # The words of StreamScapeTV/agent-state-dashboard #71.
                yield "Waiting for Code Scanning results. Code Scanning may not be configured for the target branch."
            elif not words or (_worst(words) not in {"passing", "failing"}):
                # The words of github/codeql #19459.
                yield f"Code scanning is waiting for results from {tool} for the commit {sha[:7]}."
            elif _worst(words) == "failing":
                # No public thread quotes what GitHub says of alerts: no reader may rely on the words.
                yield f"Code scanning results from {tool} do not meet the rule."


def sentence(unmet_words: dict[str, str], *, of: int) -> Iterable[str]:
    """The sentence for unmet checks by context: by name when it is one, else in numbers."""
    if not unmet_words:
        return
    words = Counter(unmet_words.values())
    count = len(unmet_words)
    if count == 1:
        yield f'Required status check "{next(iter(unmet_words))}" is {next(iter(words))}.'
    elif len(words) == 1:
        yield f"{count} of {of} required status checks are {next(iter(words))}."
    else:
        parts = " and ".join(f"{words[word]} {word}" for word in _COUNTED if words[word])
        yield f"{count} of {of} required status checks have not succeeded{': ' + parts if parts else ''}."


def _worst(words: Sequence[str]) -> str:
    if not words:
        return "expected"
    bad = sorted((word for word in words if word != "passing"), key=lambda word: word != "failing")
    return bad[0] if bad else "passing"


def _word(run: CheckRun) -> str:
    if run.status != "completed":
        return run.status.replace("_", " ")
    return "passing" if run.conclusion in PASSING else "failing"
