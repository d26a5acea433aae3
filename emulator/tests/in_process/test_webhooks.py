"""Webhooks: to whom, signed, over real HTTP, recorded, and what can go wrong with them."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from github_emulator import App, GitHub, NotFound, RepositoryHandle
from in_process import LIMIT

SECRET = "It's a secret to everybody"


class Receiver:
    """A real server that keeps what it is sent."""

    def __init__(self) -> None:
        self.status = 202
        self.arrived = asyncio.Event()
        self.blocked: asyncio.Event | None = None
        self.url = ""
        self.got: list[tuple[dict[str, str], bytes]] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.got.append((dict(request.headers), await request.read()))
        self.arrived.set()
        if self.blocked:
            await self.blocked.wait()
        return web.Response(status=self.status, text="thanks")

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]

    def labels(self) -> list[str]:
        return [body["label"]["name"] for body in self.bodies() if "label" in body]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/hook", receiver.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield receiver
    await runner.cleanup()


def create_app(github: GitHub, url: str, **permissions: str) -> App:
    return github.create_app(
        "imq",
        permissions=permissions or {"pull_requests": "write"},
        events=["pull_request", "push"],
        webhook_url=url,
        webhook_secret=SECRET,
    )


@pytest.fixture
async def app(github: GitHub, repository: RepositoryHandle, receiver: Receiver) -> App:
    """Installed, with the installation webhook out of the way."""
    app = create_app(github, receiver.url)
    github.install(app, "octo")
    await github.settle()
    receiver.got.clear()
    github.state.deliveries.clear()
    return app


async def test_webhook_is_signed_and_carries_githubs_headers(
    github: GitHub, repository: RepositoryHandle, receiver: Receiver, app: App
) -> None:
    """HMAC-SHA256 over the exact body in UTF-8; event, GUID, hook and app in the headers; installation in the body."""
    repository.open_pull_request("Tea ☕", head="one", files={"a": "1"})
    await github.settle()
    [(headers, body)] = receiver.got
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert headers["X-Hub-Signature-256"] == f"sha256={digest}"
    assert "☕".encode() in body
    assert headers["X-GitHub-Event"] == "pull_request"
    assert headers["X-GitHub-Hook-Installation-Target-ID"] == str(app.id)
    assert headers["User-Agent"].startswith("GitHub-Hookshot/")
    assert len(headers["X-GitHub-Delivery"]) == 36
    [payload] = receiver.bodies()
    assert payload["action"] == "opened"
    assert payload["installation"]["id"] in github.state.installations


async def test_webhook_is_asynchronous_and_recorded(
    github: GitHub, repository: RepositoryHandle, receiver: Receiver, app: App
) -> None:
    """Nothing leaves while the action runs; the answer is in the record; a failure is not retried."""
    receiver.status = 500
    repository.open_pull_request("One", head="one", files={"a": "1"})
    assert receiver.got == []
    await github.advance(timedelta(hours=1))
    [delivery] = github.state.deliveries
    assert (delivery.status_code, delivery.response_body, len(receiver.got)) == (500, "thanks", 1)


async def test_webhook_without_a_listener_is_recorded_as_failed(
    github: GitHub, repository: RepositoryHandle, receiver: Receiver, app: App
) -> None:
    """A receiver that is down has status code 0."""
    app.webhook_url = "http://127.0.0.1:1/hook"
    repository.open_pull_request("One", head="one", files={"a": "1"})
    await github.settle()
    [delivery] = github.state.deliveries
    assert (delivery.status_code, delivery.status) == (0, "failed to connect to host")


async def test_webhook_goes_only_where_it_may(
    github: GitHub, repository: RepositoryHandle, receiver: Receiver, app: App
) -> None:
    """`push` needs contents, an unsubscribed event never comes, another account's repository neither."""
    elsewhere = github.create_repository("other/app", files={"a": "1"})
    elsewhere.open_pull_request("Else", head="x", files={"b": "1"})
    pull = repository.open_pull_request("One", head="one", files={"a": "1"})
    pull.comment("not subscribed")
    await github.settle()
    assert [headers["X-GitHub-Event"] for headers, _ in receiver.got] == ["pull_request"]


async def test_webhook_of_installation_comes_unasked(github: GitHub, receiver: Receiver) -> None:
    """Webhooks of installations are always sent, with their repositories; so is every later change of them."""
    app = create_app(github, receiver.url)
    github.create_repository("octo/one", files={"a": "1"})
    installation = github.install(app, "octo")
    github.create_repository("octo/two", files={"a": "1"})
    github.accounts.select(installation, [github.must_find("octo/two")])
    github.accounts.uninstall(installation)
    await github.settle()
    sent = [
        (headers["X-GitHub-Event"], body["action"])
        for (headers, _), body in zip(receiver.got, receiver.bodies(), strict=True)
    ]
    assert sent == [
        ("installation", "created"),
        ("installation_repositories", "added"),
        ("installation_repositories", "removed"),
        ("installation", "deleted"),
    ]
    assert [stub["full_name"] for stub in receiver.bodies()[0]["repositories"]] == ["octo/one"]
    assert [stub["full_name"] for stub in receiver.bodies()[2]["repositories_removed"]] == ["octo/one"]


async def test_webhook_of_suspended_installation_does_not_come(
    github: GitHub, repository: RepositoryHandle, receiver: Receiver, app: App
) -> None:
    """A suspended app gets no webhooks of the repositories."""
    installation = next(found for found in github.state.installations.values() if found.app is app)
    github.accounts.suspend(installation)
    await github.settle()
    receiver.got.clear()
    repository.open_pull_request("One", head="one", files={"a": "1"})
    await github.settle()
    assert receiver.got == []


async def test_webhook_redelivered_keeps_guid_and_payload(
    github: GitHub, repository: RepositoryHandle, receiver: Receiver, app: App
) -> None:
    """A new delivery id, the old GUID, the same bytes."""
    repository.open_pull_request("One", head="one", files={"a": "1"})
    await github.settle()
    first = github.state.deliveries[0]
    second = github.webhooks.redeliver(first.id)
    await github.settle()
    assert (second.guid, second.redelivery, second.id != first.id) == (first.guid, True, True)
    assert receiver.got[0][1] == receiver.got[1][1]
    with pytest.raises(NotFound):
        github.webhooks.redeliver(1)


async def test_webhook_dropped_never_arrives_but_can_be_redelivered(
    github: GitHub, repository: RepositoryHandle, receiver: Receiver, app: App
) -> None:
    """The fault hits the next one of its kind only."""
    pull = repository.open_pull_request("One", head="one", files={"a": "1"}, webhook=False)
    github.webhooks.faults.drop(event="pull_request", action="labeled")
    pull.label("lost")
    pull.label("heard")
    await github.settle()
    assert receiver.labels() == ["heard"]
    assert [delivery.status_code for delivery in github.state.deliveries] == [0, 202]
    github.webhooks.redeliver(github.state.deliveries[0].id)
    await github.settle()
    assert receiver.labels() == ["heard", "lost"]


async def test_webhook_doubled_arrives_twice_with_one_guid(
    github: GitHub, repository: RepositoryHandle, receiver: Receiver, app: App
) -> None:
    """The receiver must notice the repetition by its GUID."""
    github.webhooks.faults.double()
    repository.open_pull_request("One", head="one", files={"a": "1"})
    await github.settle()
    assert len(receiver.got) == 2
    assert len({headers["X-GitHub-Delivery"] for headers, _ in receiver.got}) == 1


async def test_webhook_delayed_comes_after_later_ones(
    github: GitHub, repository: RepositoryHandle, receiver: Receiver, app: App
) -> None:
    """No order is promised."""
    pull = repository.open_pull_request("One", head="one", files={"a": "1"}, webhook=False)
    github.webhooks.faults.delay(timedelta(minutes=5))
    pull.label("first")
    pull.label("second")
    await github.settle()
    assert receiver.labels() == ["second"]
    await github.advance(timedelta(minutes=5))
    assert receiver.labels() == ["second", "first"]


async def test_webhooks_reordered_all_arrive_in_another_order(
    github: GitHub, repository: RepositoryHandle, receiver: Receiver, app: App
) -> None:
    """A seeded shuffle loses nothing."""
    pull = repository.open_pull_request("One", head="one", files={"a": "1"}, webhook=False)
    github.webhooks.faults.reorder(timedelta(seconds=5))
    names = [f"label-{number}" for number in range(8)]
    for name in names:
        pull.label(name)
    await github.advance(timedelta(seconds=5))
    assert sorted(receiver.labels()) == names
    assert receiver.labels() != names


async def test_webhook_under_way_when_the_server_stops_is_given_up(
    github: GitHub, repository: RepositoryHandle, receiver: Receiver, app: App
) -> None:
    """A receiver that hangs holds up neither other callbacks nor the end."""
    receiver.blocked = asyncio.Event()
    repository.open_pull_request("One", head="one", files={"a": "1"})
    others, stop = asyncio.Event(), asyncio.Event()
    serving = asyncio.ensure_future(github.schedule.run(stop))
    await asyncio.wait_for(receiver.arrived.wait(), LIMIT)
    github.schedule.at(github.clock.now(), others.set)
    await asyncio.wait_for(others.wait(), LIMIT)
    stop.set()
    await asyncio.wait_for(serving, LIMIT)
    receiver.blocked.set()
    assert github.state.deliveries[0].status == "pending"
