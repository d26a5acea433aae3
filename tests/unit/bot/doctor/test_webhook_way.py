"""What `imq doctor` says of the way from GitHub to IMQ, by GitHub's deliveries and by a call of its own together."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from pydantic import SecretStr

from bot.doctor.examination import Doctor
from bot.doctor.webhook_probe import WebhookProbe
from bot.http.client_address import ClientAddresses, UntrustedProxy
from bot.webhooks.receiver import Receiver
from queue_engine.config.model import Policy
from queue_engine.domain.webhooks import WebhookEvent
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.doctor.installation import SOUND_HOST, Place, a_place

SECRET = "s" * 20


class Way:
    """An installation, and the machine on which its IMQ listens."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.runner: web.AppRunner | None = None

    async def listen(self, *, forwarded: bool = False) -> None:
        """Start IMQ at an address of its own, which is the App's from now on; `forwarded` by an unknown proxy."""

        async def store(_event: WebhookEvent) -> bool:
            return True

        proxy = UntrustedProxy(ClientAddresses(()))
        receiver = Receiver(
            secret=SecretStr(SECRET), own_app_id=self.place.app.id, store=store, clock=self.place.clock, proxy=proxy
        )

        async def forward(request: web.Request) -> web.StreamResponse:
            headers = {**request.headers, "X-Forwarded-For": "203.0.113.9"}
            return await receiver.handle(request.clone(headers=headers) if forwarded else request)

        app = web.Application()
        app.router.add_post("/webhook", forward)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.place.app.webhook_url = f"http://127.0.0.1:{self.runner.addresses[0][1]}/webhook"

    async def stop(self) -> None:
        """End IMQ: nothing listens at its address."""
        if self.runner is not None:
            await self.runner.cleanup()

    async def deliver(self) -> None:
        """Have GitHub deliver a webhook."""
        self.place.repository.push("main", {"a": f"{len(self.place.github.state.deliveries)}\n"}, "Change", by="mona")
        await self.place.github.settle()

    async def codes(self, public: str | None = None) -> set[str]:
        """The findings of an IMQ whose public address this is: by default that of the App's webhook."""
        address = public or str(self.place.app.webhook_url)
        probe = WebhookProbe(self.place.session, SecretStr(SECRET), self.place.app.id)
        clock = ManualClock()
        clock.instant = self.place.github.clock.now()
        policy, url = Policy(own_app=self.place.app.id), address.removesuffix("/webhook")
        doctor = Doctor(self.place.gateway(), clock, policy, public_url=url, probe=probe)
        return {each.code for each in (await doctor.examine(SOUND_HOST)).findings}


@pytest.fixture
async def way(tmp_path: Path) -> AsyncIterator[Way]:
    async with a_place(tmp_path / "github") as place:
        found = Way(place)
        yield found
        await found.stop()


async def first_webhooks_before_the_start(way: Way) -> None:
    """The App is registered and installed, and IMQ is started an hour later."""
    way.place.app.webhook_url = "http://127.0.0.1:9/webhook"
    await way.deliver()
    await way.listen()


async def quiet_beginning_with_one_failure(way: Way) -> None:
    """A webhook of the first day failed, others arrived, and days passed."""
    await first_webhooks_before_the_start(way)
    await way.deliver()
    await way.place.github.advance(timedelta(days=3))


async def address_that_this_machine_cannot_call(way: Way) -> None:
    """GitHub reaches IMQ, and a router lets this machine not reach its own public address."""
    await way.listen()
    await way.deliver()
    await way.stop()


SOUND = [first_webhooks_before_the_start, quiet_beginning_with_one_failure, address_that_this_machine_cannot_call]


@pytest.mark.parametrize("begin", SOUND, ids=lambda begin: begin.__name__)
async def test_sound_way_has_no_finding(way: Way, begin: Callable[[Way], Awaitable[None]]) -> None:
    """An operator who acts on a false alarm breaks what works."""
    await begin(way)
    assert await way.codes() == set()


async def dead_port_after_a_move(way: Way) -> None:
    """The newest webhook arrived at the former address; nothing listens at the new one."""
    await way.listen()
    await way.deliver()
    way.place.app.webhook_url = "http://127.0.0.1:9/webhook"


async def other_secret_on_the_first_day(way: Way) -> None:
    """GitHub signs with another secret, so that IMQ refuses what it sends."""
    way.place.app.webhook_secret = "another secret of GitHub"
    await way.listen()
    await way.deliver()


async def failures_of_today(way: Way) -> None:
    """The App is days old, and its last webhooks did not arrive, although the address answers now."""
    await way.place.github.advance(timedelta(days=3))
    await first_webhooks_before_the_start(way)


async def proxy_that_is_not_trusted(way: Way) -> None:
    """IMQ is reached, by a proxy that its settings do not name."""
    await way.listen(forwarded=True)


FAULTS = [
    (dead_port_after_a_move, {"webhook_unreachable"}),
    (other_secret_on_the_first_day, {"deliveries_fail"}),
    (failures_of_today, {"deliveries_fail"}),
    (proxy_that_is_not_trusted, {"proxy_untrusted"}),
]


@pytest.mark.parametrize(("seed", "codes"), FAULTS, ids=[seed.__name__ for seed, _ in FAULTS])
async def test_fault_of_the_way_is_found(way: Way, seed: Callable[[Way], Awaitable[None]], codes: set[str]) -> None:
    """And nothing else beside it."""
    await seed(way)
    assert await way.codes() == codes


async def test_own_address_is_called_where_the_webhook_has_another_one(way: Way) -> None:
    """The remedy of a wrong address would otherwise lead to a port on which nothing listens."""
    await way.listen()
    assert await way.codes("http://127.0.0.1:9/webhook") == {"webhook_address_wrong", "webhook_unreachable"}
