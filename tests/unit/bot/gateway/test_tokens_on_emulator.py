"""Installation tokens against the emulator: what each reaches, and when another is asked for."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import aiohttp
import pytest

from bot.gateway.http.scopes import Purpose, Scope
from queue_engine.domain.errors import Disorder, Forbidden, NotFound, Refused
from tests.unit.bot.gateway.emulator_place import Place


async def test_token_outlives_an_hour_of_work(place: Place) -> None:
    """Renewed in time, and never refused."""
    await place.gateway.installations()  # what is granted is known from then on
    for _ in range(7):
        await place.gateway.permission(place.repository, "mona")
        await place.github.advance(timedelta(minutes=15))
    assert {request.status for request in place.server.requests} <= {200, 201}


async def test_token_is_requested_again_where_the_granted_permissions_are_unknown(place: Place) -> None:
    """GitHub refuses a token with a permission that the installation lacks: workflows, here."""
    assert (await place.gateway.permission(place.repository, "mona")).value == "write"
    tokens = [request for request in place.server.requests if request.template.endswith("/access_tokens")]
    assert [request.status for request in tokens] == [422, 201]
    place.gateway.forget_token(place.repository.installation_id)
    await place.gateway.installations()
    await place.gateway.permission(place.repository, "mona")
    tokens = [request for request in place.server.requests if request.template.endswith("/access_tokens")]
    assert [request.status for request in tokens] == [422, 201, 201]


async def test_tokens_reach_one_repository_and_no_more_than_their_call_needs(place: Place) -> None:
    """A leaked reading token writes nothing, a writing one starts no workflow, and none reaches another repository."""
    place.github.create_repository("acme/secrets", files={"key.txt": "k\n"})
    repository = place.repository
    await place.gateway.installations()
    await place.gateway.repositories(repository.installation_id)
    await place.gateway.pull_request(repository, place.pull.number)
    await place.gateway.permission(repository, "mona")
    with suppress(Forbidden, NotFound):
        await place.gateway.cancel_run(repository, 1)
    tokens = {scope.purpose: token.value for scope, token in place.gateway._connection._tokens._cache.items()}
    assert set(tokens) == {Purpose.LIST, Purpose.READ, Purpose.WRITE, Purpose.RUNS}
    own, other = f"/repos/{repository.full_name}", "/repos/acme/secrets"
    pull = f"{own}/issues/{place.pull.number}"
    tried: list[tuple[Purpose, str, str, int]] = [
        *(
            (purpose, "GET", f"{other}/contents/key.txt", 404)
            for purpose in (Purpose.READ, Purpose.WRITE, Purpose.RUNS)
        ),
        (Purpose.LIST, "GET", f"{other}/contents/key.txt", 403),
        (Purpose.LIST, "POST", f"{pull}/comments", 403),
        (Purpose.READ, "POST", f"{pull}/comments", 403),
        (Purpose.READ, "PUT", f"{own}/pulls/{place.pull.number}/merge", 403),
        (Purpose.WRITE, "GET", f"{own}/branches/main/protection", 403),
        (Purpose.WRITE, "POST", f"{own}/actions/runs/1/cancel", 403),
        (Purpose.RUNS, "POST", f"{pull}/comments", 403),
    ]
    async with aiohttp.ClientSession() as session:
        for purpose, method, path, status in tried:
            headers = {"Authorization": f"token {tokens[purpose].get_secret_value()}"}
            async with session.request(method, place.server.url + path, headers=headers, json={"body": "x"}) as answer:
                assert answer.status == status, (purpose, method, path)


async def test_shared_configuration_is_read_with_a_token_for_its_repository_alone(place: Place) -> None:
    """A leaked one reads no other repository; a public repository that the installation does not cover is read too."""
    owner, files = place.repository.installation_id, {".github/imq.yml": "labels: [ship]\n"}
    secrets = "/repos/acme/secrets/contents/key.txt"
    assert await place.gateway.organisation_configuration(place.repository) is None
    place.github.create_repository("ben/.github", files=files, private=False)
    uncovered = replace(place.repository, owner="ben")
    assert await place.gateway.organisation_configuration(uncovered) == "labels: [ship]\n"
    place.github.create_repository("acme/.github", files=files, private=True)
    place.github.create_repository("acme/secrets", files={"key.txt": "k\n"}, private=True)
    assert await place.gateway.organisation_configuration(place.repository) == "labels: [ship]\n"
    token = await place.gateway._connection._tokens.get(Scope(owner, None, Purpose.SHARED))
    headers = {"Authorization": f"token {token.value.get_secret_value()}"}
    async with aiohttp.ClientSession(place.server.url, headers=headers) as session, session.get(secrets) as answer:
        assert answer.status == 404


async def test_writing_token_is_followed_by_another_before_it_expires(place: Place) -> None:
    """Prepared by a sweep; until replicas know the new one the old one is used, so that no write waits."""
    gateway, repository = place.gateway, place.repository
    await gateway.installations()
    await gateway.prepare_writes(repository)
    await place.github.advance(timedelta(minutes=30))
    await gateway.prepare_writes(repository)
    await place.github.advance(timedelta(minutes=8))
    place.server.lag.set(timedelta(seconds=10), "token")
    await gateway.prepare_writes(repository)
    await gateway.permission(repository, "mona")
    await place.github.advance(timedelta(seconds=21))
    await gateway.permission(repository, "mona")
    await place.github.advance(timedelta(minutes=25))
    await gateway.permission(repository, "mona")
    assert {request.status for request in place.server.requests} <= {200, 201}
    tokens = [request for request in place.server.requests if request.template.endswith("/access_tokens")]
    assert len(tokens) == 2


async def test_repository_that_left_the_installation_is_out_of_order(place: Place) -> None:
    """GitHub makes no token for it, and may again: its owner took it from the installation."""
    elsewhere = replace(place.repository, id=987654)
    with pytest.raises(Refused, match="not accessible to the parent installation") as refused:
        await place.gateway.pull_request(elsewhere, place.pull.number)
    assert refused.value.disorder is Disorder.GONE
