"""A client library that others wrote (githubkit) uses the emulator as it would use GitHub."""

from datetime import UTC, datetime, timedelta

import pytest
from githubkit import AppInstallationAuthStrategy, GitHub
from githubkit.exception import RequestFailed

from github_emulator import CISettings, EmulatorServer, SystemClock
from over_http.conftest import Client

pytestmark = pytest.mark.process  # githubkit asks the operating system for the time


async def test_githubkit_lands_a_pull_request_as_an_installation(client: Client) -> None:
    """githubkit signs in once, follows pages, labels, comments, reads checks, is refused, and merges."""
    behind = datetime.now(UTC) - client.clock.now()
    await client.settle(behind.total_seconds())  # githubkit renews tokens by the system's clock
    for name in ("one", "two", "three"):
        client.repo.open_pull_request(name, head=name, by="ann", files={name: "1\n"})
    client.repo.add_ci("test", settings=CISettings(duration=timedelta(seconds=1)))
    client.repo.push("one", {"one": "2\n"}, "Again", by="ann")
    await client.settle(5)
    server = EmulatorServer(client.github, jwt_clock=SystemClock())
    await server.start()
    try:
        await land_with_githubkit(client, server.url)
    finally:
        await server.stop()
    tokens = [request for request in server.requests if request.template.endswith("/access_tokens")]
    assert [request.status for request in tokens] == [201]


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
