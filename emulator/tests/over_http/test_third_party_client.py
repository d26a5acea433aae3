"""Client libraries that others wrote (githubkit, PyGithub) use the emulator as they would use GitHub."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import github
import pytest
from githubkit import AppInstallationAuthStrategy, GitHub
from githubkit.exception import RequestFailed

from github_emulator import CISettings, EmulatorServer, SystemClock
from over_http.conftest import Client

pytestmark = pytest.mark.process  # the clients ask the operating system for the time


async def test_githubkit_lands_a_pull_request_as_an_installation(client: Client) -> None:
    """githubkit signs in once, follows pages, labels, comments, reads checks, is refused, and merges."""
    for name in ("one", "two", "three"):
        client.repo.open_pull_request(name, head=name, by="ann", files={name: "1\n"})
    client.repo.add_ci("test", settings=CISettings(duration=timedelta(seconds=1)))
    client.repo.push("one", {"one": "2\n"}, "Again", by="ann")
    await client.settle(5)
    async with a_present_server(client) as server:
        await land_with_githubkit(client, server.url)
    tokens = [request for request in server.requests if request.template.endswith("/access_tokens")]
    assert [request.status for request in tokens] == [201]


@asynccontextmanager
async def a_present_server(client: Client) -> AsyncIterator[EmulatorServer]:
    """A server of the same GitHub in the time of the operating system, by which the clients renew tokens."""
    behind = datetime.now(UTC) - client.clock.now()
    await client.settle(behind.total_seconds())
    server = EmulatorServer(client.github, jwt_clock=SystemClock())
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def land_with_githubkit(client: Client, url: str) -> None:
    auth = AppInstallationAuthStrategy(client.app.id, client.app.private_key, client.installation.id)
    place = ("acme", "widgets")
    async with GitHub(auth, base_url=url, trust_env=False, auto_retry=False) as github:
        rest = github.rest("2022-11-28")
        pages = github.rest.paginate(rest.pulls.async_list, owner="acme", repo="widgets", direction="asc", per_page=2)
        pulls = [pull async for pull in pages]
        assert [pull.title for pull in pulls] == ["one", "two", "three"]
        first = pulls[0]
        labels = await rest.issues.async_add_labels(*place, first.number, data=["merge-queue"])
        assert [label.name for label in labels.parsed_data] == ["merge-queue"]
        comment = await rest.issues.async_create_comment(*place, first.number, body="Queued")
        assert comment.parsed_data.user is not None
        assert comment.parsed_data.user.login == "imq[bot]"
        checks = await rest.checks.async_list_for_ref(*place, first.head.sha)
        assert [(run.name, run.conclusion) for run in checks.parsed_data.check_runs] == [("test", "success")]
        with pytest.raises(RequestFailed) as refused:
            await rest.pulls.async_merge(*place, first.number, sha="0" * 40)
        assert refused.value.response.status_code == 409
        merged = await rest.pulls.async_merge(*place, first.number, sha=first.head.sha, merge_method="squash")
        assert merged.parsed_data.merged
        assert (await rest.pulls.async_get(*place, first.number)).parsed_data.merged
        assert merged.parsed_data.sha == client.repo.sha("main")


async def test_pygithub_creates_a_repository_and_lands_a_pull_request_in_it(client: Client) -> None:
    """A person creates repository, branch, file and pull request, the App reports its check, the person merges."""
    installation = client.github.install(client.app, "ann")
    async with a_present_server(client) as server:
        await asyncio.to_thread(land_with_pygithub, client, server, installation.id)
    assert client.github.repository("ann/gadgets").files()["docs/use.md"] == "Turn it.\n"


def land_with_pygithub(client: Client, server: EmulatorServer, installation: int) -> None:
    no_pauses = {"seconds_between_requests": None, "seconds_between_writes": None}
    ann = github.Github(base_url=server.url, auth=github.Auth.Token(server.user_token("ann")), **no_pauses)  # type: ignore[arg-type]
    repository = ann.get_user().create_repo("gadgets", description="Small.")
    readme = repository.get_contents("README.md")
    assert not isinstance(readme, list)
    assert readme.decoded_content == b"# gadgets\nSmall.\n"
    with pytest.raises(github.GithubException, match="name already exists on this account"):
        ann.get_user().create_repo("gadgets")
    repository.create_git_ref("refs/heads/topic", repository.get_branch("main").commit.sha)
    repository.create_file("docs/use.md", "Say how to use it", "Turn.\n", branch="topic")
    file = repository.get_contents("docs/use.md", ref="topic")
    assert not isinstance(file, list)
    with pytest.raises(github.GithubException) as refused:
        repository.update_file("docs/use.md", "Say more", "Turn it.\n", "0" * 40, branch="topic")
    assert refused.value.status == 409
    repository.update_file("docs/use.md", "Say more", "Turn it.\n", file.sha, branch="topic")
    pull = repository.create_pull(base="main", head="topic", title="Say how to use it", body="It is not documented.")
    pull.add_to_labels("ship")
    pull.create_issue_comment("Ready")
    credentials = github.Auth.AppAuth(client.app.id, client.app.private_key)
    app = github.GithubIntegration(base_url=server.url, auth=credentials, **no_pauses)  # type: ignore[arg-type]
    theirs = app.get_github_for_installation(installation).get_repo("ann/gadgets")
    theirs.create_check_run("test", pull.head.sha, status="in_progress").edit(status="completed", conclusion="success")
    runs = repository.get_commit(pull.head.sha).get_check_runs()
    assert [(run.name, run.conclusion) for run in runs] == [("test", "success")]
    assert pull.merge(sha=pull.head.sha, merge_method="squash").merged
    landed = repository.get_pull(pull.number)
    assert landed.merged
    assert [label.name for label in landed.labels] == ["ship"]
    assert [comment.body for comment in landed.get_issue_comments()] == ["Ready"]
    with pytest.raises(github.UnknownObjectException):
        repository.get_pull(99)
