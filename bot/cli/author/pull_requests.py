"""Find the pull request of a command: by its number, or by the branch that is checked out."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from bot.cli.author.clone import Branch, Clone, CloneError
from bot.cli.author.session import Session, clone_or_stop, repository_of_clone, repository_path
from bot.cli.author.terminal import ExitCode, stop


@dataclass(frozen=True, slots=True)
class FoundPullRequest:
    """A pull request. The heads are those of the local branch and of GitHub; None if its branch is not checked out."""

    repository: str
    number: int
    local_head: str | None = None
    pushed_head: str | None = None

    @property
    def path(self) -> str:
        """Return its path in the API."""
        return f"{repository_path(self.repository)}/pulls/{self.number}"

    @property
    def name(self) -> str:
        """Return what people call it."""
        return f"{self.repository}#{self.number}"


def find_pull_request(session: Session, number: int | None, repository: str | None) -> FoundPullRequest:
    """Return the pull request that a person means. Stops the command if there is none, or more than one."""
    if number is not None and repository is not None:
        return FoundPullRequest(repository, number)
    clone = clone_or_stop()
    chosen = repository or repository_of_clone(session, clone)
    if number is not None:
        return _numbered(session, clone, chosen, number)
    try:
        branch = clone.branch()
    except CloneError as problem:
        stop(ExitCode.USAGE, str(problem))
    found = _open_ones(session, clone, chosen, branch)
    if not found:
        stop(
            ExitCode.USAGE,
            f"{chosen} has no open pull request of the branch {branch.name}. Push it and open one, or give a number.",
        )
    if len(found) > 1:
        numbers = " or ".join(f"{each['number']} for {each['base_branch']}" for each in found)
        stop(ExitCode.USAGE, f"The branch {branch.name} has several pull requests. Give a number: {numbers}.")
    return FoundPullRequest(chosen, found[0]["number"], branch.head_sha, found[0]["head_sha"])


def _numbered(session: Session, clone: Clone, repository: str, number: int) -> FoundPullRequest:
    """Compare local commits with GitHub's if the branch of this pull request is checked out."""
    try:
        branch = clone.branch()
    except CloneError:
        return FoundPullRequest(repository, number)
    same = [each for each in _open_ones(session, clone, repository, branch) if each["number"] == number]
    if not same:
        return FoundPullRequest(repository, number)
    return FoundPullRequest(repository, number, branch.head_sha, same[0]["head_sha"])


def _open_ones(session: Session, clone: Clone, repository: str, branch: Branch) -> list[dict[str, Any]]:
    """Ask IMQ for the open pull requests of a branch."""
    pushed_to = clone.remote(branch.remote or "origin")
    owner = repository.partition("/")[0] if pushed_to is None else pushed_to.owner
    query = urlencode({"head": f"{owner}:{branch.name}"})
    answer = session.call("GET", f"{repository_path(repository)}/pulls?{query}")
    session.refuse(answer)
    found: list[dict[str, Any]] = answer.body["pulls"]
    return found
