"""Endpoints that read history: single commits, and what lies between two."""

from typing import Any
from urllib.parse import quote

from github_emulator import payloads
from github_emulator.callers.errors import Refusal, not_found
from github_emulator.core.git import Commit
from github_emulator.payloads.repositories import api, html
from github_emulator.rest.answer import Answer
from github_emulator.rest.call import Call
from github_emulator.rest.paging import paginate
from github_emulator.rest.routing import Routes
from github_emulator.state import PullRequest

routes = Routes("commits/commits")
_UNPAGED = 250
_MOST_FILES = 300


@routes.repository("GET", "/compare/{basehead}", "contents=read", docs="#compare-two-commits")
def compare(call: Call) -> Answer:
    """What `head` has that `base` lacks: commits oldest first, in pages; files on the first page only.

    Without paging parameters the newest 250 commits are given. (GitHub's page on comparing commits.)
    """
    repository = call.repository
    names = call.params["basehead"].split("...")
    if len(names) != 2 or not all(names):
        raise not_found()
    base, head = (_tip(call, name) for name in names)
    git = repository.git
    fork_point = git.merge_base(base, head)
    if fork_point is None:
        raise Refusal(404, f"No common ancestor between {names[0]} and {names[1]}.")
    ahead, behind = git.ahead_behind(head, base)
    commits = git.log(head, base)[::-1]
    paged = "page" in call.query or "per_page" in call.query
    chosen, headers = paginate(commits, call.query, call.url) if paged else (commits[-_UNPAGED:], {})
    first = call.query.get("page", "1") == "1"
    changes = git.diff(fork_point, head)[:_MOST_FILES] if first else ()
    web = f"{html(call.github.source, repository)}/compare/{call.params['basehead']}"
    body: dict[str, Any] = {
        "url": f"{api(call.github.source, repository)}/compare/{quote(call.params['basehead'], safe='')}",
        "html_url": web,
        "permalink_url": web,
        "diff_url": f"{web}.diff",
        "patch_url": f"{web}.patch",
        "base_commit": payloads.commit(call.github.source, repository, git.must(base)),
        "merge_base_commit": payloads.commit(call.github.source, repository, git.must(fork_point)),
        "status": _relation(ahead, behind),
        "ahead_by": ahead,
        "behind_by": behind,
        "total_commits": ahead,
        "commits": [payloads.commit(call.github.source, repository, commit) for commit in chosen],
        "files": [payloads.file_change(call.github.source, repository, head, change) for change in changes],
    }
    return Answer(body, headers=headers)


@routes.repository(
    "GET",
    "/commits/{commit_sha}/pulls",
    "pull_requests=read",
    "contents=read",
    docs="#list-pull-requests-associated-with-a-commit",
)
def list_pulls_of_commit(call: Call) -> Answer:
    """The pull request that merged a commit of the default branch, else all that hold it, merged or open."""
    repository, name = call.repository, call.params["commit_sha"]
    sha = _commit(call, name).sha
    merged = [pull for pull in repository.pulls.values() if pull.merged and _holds(call, pull, sha)]
    tip = repository.git.branch(repository.default_branch)
    if tip is None or not repository.git.is_ancestor(sha, tip):
        merged += [pull for pull in repository.pulls.values() if pull.state == "open" and _holds(call, pull, sha)]
    return call.page(merged, lambda pull: payloads.simple_pull_request(call.github.source, pull))


def _holds(call: Call, pull: PullRequest, sha: str) -> bool:
    """Whether a pull request brings a commit, or landed as it."""
    return sha == pull.merge_commit_sha or any(commit.sha == sha for commit in call.github.pulls.commits(pull))


@routes.repository("GET", "/commits/{ref}", "contents=read", docs="#get-a-commit")
def get_commit(call: Call) -> Answer:
    """A commit by SHA or branch, with its statistics and files."""
    return Answer(payloads.commit(call.github.source, call.repository, _commit(call, call.params["ref"]), files=True))


@routes.repository("GET", "/commits", "contents=read", docs="#list-commits")
def list_commits(call: Call) -> Answer:
    """A branch's history, newest first."""
    start = call.query.get("sha", call.repository.default_branch)
    commits = call.repository.git.log(_commit(call, start).sha)
    return call.page(commits, lambda commit: payloads.commit(call.github.source, call.repository, commit))


def _commit(call: Call, name: str) -> Commit:
    sha = call.repository.git.resolve(name)
    if sha is None:
        raise Refusal(422, f"No commit found for SHA: {name}")
    return call.repository.git.must(sha)


def _tip(call: Call, name: str) -> str:
    """A branch, tag or SHA of this repository, or `owner:branch` of a fork."""
    owner, colon, branch = name.partition(":")
    repository = call.repository
    if colon:
        name = branch
        network = call.github.state.repositories.values()
        root = repository.parent or repository
        found = [one for one in network if one.owner.login == owner and (one.parent or one) is root]
        if not found:
            raise not_found()
        repository = found[0]
    sha = repository.git.resolve(name)
    if sha is None:
        raise not_found()
    return sha


def _relation(ahead: int, behind: int) -> str:
    if ahead and behind:
        return "diverged"
    if ahead:
        return "ahead"
    return "behind" if behind else "identical"
