"""Git over HTTP: people clone, fetch and push by their own git, and pushes have the consequences of GitHub's."""

import os
import subprocess
from asyncio import to_thread
from pathlib import Path

import pytest

from over_http.conftest import Client

pytestmark = pytest.mark.process

PERSON = {"GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.com"}
WHO = PERSON | {"GIT_COMMITTER_NAME": "Ann", "GIT_COMMITTER_EMAIL": "ann@example.com"}


def run_git(*arguments: str, folder: Path) -> tuple[int, str]:
    """A git without settings or questions; its exit code and what it printed."""
    environ = {**os.environ, **WHO, "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_GLOBAL": os.devnull, "HOME": str(folder)}
    done = subprocess.run(["git", *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


async def git(*arguments: str, folder: Path, fails: bool = False) -> str:
    """Run git beside the server; what it printed."""
    code, printed = await to_thread(run_git, *arguments, folder=folder)
    assert (code != 0) is fails, printed
    return printed


def url_of(client: Client, login: str | None = None, repository: str = "acme/widgets") -> str:
    """The address of a repository, with somebody's token."""
    return f"{client.server.url}/{repository}.git" if login is None else client.server.clone_url(repository, login)


async def clone(client: Client, folder: Path, login: str | None = None, repository: str = "acme/widgets") -> Path:
    """A clone below a folder."""
    await git("clone", "--quiet", url_of(client, login, repository), "clone", folder=folder)
    return folder / "clone"


async def commit(folder: Path, name: str, content: str) -> str:
    """Commit one file; the SHA."""
    (folder / name).write_text(content)
    await git("add", name, folder=folder)
    await git("commit", "--quiet", "-m", f"Change {name}", folder=folder)
    return (await git("rev-parse", "HEAD", folder=folder)).strip()


async def test_branch_that_is_pushed_becomes_a_pull_request(client: Client, tmp_path: Path) -> None:
    """From an empty folder to the merge; the App gets the webhook of the push, and a fetch has the merge."""
    folder = await clone(client, tmp_path, "ann")
    await git("switch", "--quiet", "--create", "words", folder=folder)
    sha = await commit(folder, "words.md", "They turn.\n")
    await git("push", "--quiet", "--set-upstream", "origin", "words", folder=folder)
    body = {"title": "Describe them", "head": "words", "base": "main"}
    pull = await client.call("POST", "/repos/acme/widgets/pulls", 201, who="ann", json_body=body)
    assert (pull["head"]["sha"], pull["commits"]) == (sha, 1)
    second = await commit(folder, "words.md", "They turn, and turn.\n")
    await git("push", "--quiet", folder=folder)
    assert (await client.get(f"/repos/acme/widgets/pulls/{pull['number']}"))["head"]["sha"] == second
    await client.call("PUT", f"/repos/acme/widgets/pulls/{pull['number']}/merge", 200, who="maria")
    await git("fetch", "--quiet", "origin", "main", folder=folder)
    assert "Merge pull request" in await git("log", "-1", "--format=%s", "FETCH_HEAD", folder=folder)
    await git("push", "--quiet", "origin", ":words", "HEAD:refs/tags/v1", folder=folder)
    assert (client.repo.record.git.branch("words"), client.repo.record.git.ref("tags/v1")) == (None, second)
    await client.settle()
    pushed = [payload for headers, payload in client.receiver.received if headers["X-GitHub-Event"] == "push"]
    sent = [(each["ref"], each["after"], each["sender"]["login"]) for each in pushed[:2]]
    assert sent == [("refs/heads/words", sha, "ann"), ("refs/heads/words", second, "ann")]


async def test_refused_push_says_why_and_changes_nothing(client: Client, tmp_path: Path) -> None:
    """Rules, roles and names; what one reference of a push may not do does not hold up another."""
    client.repo.protect("main", required_approvals=1, enforce_admins=True)
    before = client.repo.record.git.branch("main")
    folder = await clone(client, tmp_path, "ann")
    sha = await commit(folder, "a.txt", "a\n")
    printed = await git("push", "origin", "HEAD:main", "HEAD:side", folder=folder, fails=True)
    assert "! [remote rejected] HEAD -> main (" in printed
    assert (client.repo.record.git.branch("main"), client.repo.record.git.branch("side")) == (before, sha)
    assert "rejected" in await git("push", "origin", "HEAD:refs/pull/1/head", folder=folder, fails=True)
    for login, answer in (("tom", "denied to tom"), ("stranger", "not found")):
        printed = await git("push", url_of(client, login), "HEAD:other", folder=folder, fails=True)
        assert answer in printed
    for address in (url_of(client), url_of(client).replace("://", "://x:wrong@")):
        printed = await git("push", address, "HEAD:other", folder=folder, fails=True)
        assert "could not read Username" in printed or "Authentication failed" in printed
    assert client.repo.record.git.branch("other") is None


async def test_repository_that_somebody_may_not_see_is_not_there(client: Client, tmp_path: Path) -> None:
    """A public one can be read by anybody, with the commits of pull requests."""
    number = client.repo.open_pull_request("Add", head="add", by="ann", files={"add.txt": "a\n"}).number
    client.repo.record.private = False
    folder = await clone(client, tmp_path)
    await git("fetch", "--quiet", "--depth=1", "origin", f"pull/{number}/head", folder=folder)
    client.repo.record.private = True
    await git("fetch", folder=folder, fails=True)
    printed = await git("fetch", url_of(client, "stranger"), folder=folder, fails=True)
    assert "not found" in printed
    await git("fetch", "--quiet", url_of(client, "tom"), folder=folder)


async def test_fork_has_its_own_branches(client: Client, tmp_path: Path) -> None:
    """Its clone shows none of its parent's later branches, and a push there moves its pull request."""
    pull = client.repo.open_pull_request("Add", head="add", fork_of="stranger", files={"add.txt": "a\n"})
    client.repo.push("later", {"later.txt": "1\n"}, by="ann")
    folder = await clone(client, tmp_path, "stranger", "stranger/widgets")
    branches = await git("branch", "--remotes", folder=folder)
    assert "origin/add" in branches
    assert "later" not in branches
    await git("switch", "--quiet", "add", folder=folder)
    sha = await commit(folder, "more.txt", "more\n")
    await git("push", "--quiet", folder=folder)
    assert pull.head_sha == sha


async def test_large_push_arrives_whole(client: Client, tmp_path: Path) -> None:
    """git first asks without content whether it may push, then sends the pack in chunks."""
    folder = await clone(client, tmp_path, "ann")
    (folder / "noise.bin").write_bytes(os.urandom(3_000_000))
    await git("add", "noise.bin", folder=folder)
    await git("commit", "--quiet", "-m", "Add noise", folder=folder)
    await git("push", "--quiet", "origin", "HEAD:noise", folder=folder)
    assert client.repo.record.git.branch("noise") == (await git("rev-parse", "HEAD", folder=folder)).strip()
