"""The pages of a registration beside an emulated GitHub."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bot.gateway.http.client import Client
from bot.registration.credentials import Credentials
from bot.registration.site import Offer, RegistrationSite, addresses_of
from bot.registration.stored import MemorySecrets
from github_emulator import EmulatorServer, GitHub
from over_http.browser_forms import Page, Person
from tests.unit.bot.conftest import ManualClock


@dataclass
class Registration:
    """A site of its own, with what it saved and announced."""

    github: GitHub
    server: EmulatorServer
    clock: ManualClock
    one_time: MemorySecrets
    url: str = ""
    saved: list[Credentials] = field(default_factory=list)
    announced: list[str] = field(default_factory=list)

    async def save(self, credentials: Credentials) -> str:
        self.saved.append(credentials)
        return "The credentials are in a <safe> place."

    async def opened(self, person: Person) -> Page:
        """The form for permissions, to which the code leads."""
        page = await person.open(f"{self.url}/setup?code={await self.one_time.code()}")
        return await person.send(page, page.forms[0])

    async def handed_over(self, person: Person) -> Page:
        """GitHub's page that asks for the name."""
        page = await self.opened(person)
        page = await person.send(page, page.forms[0])
        return await person.send(page, page.forms[0])


@pytest.fixture
async def registration(clock: ManualClock, tmp_path: Path) -> AsyncIterator[Registration]:
    github = GitHub(directory=tmp_path)
    server = EmulatorServer(github)
    await server.start()
    found = Registration(github, server, clock, MemorySecrets())
    application = web.Application()
    async with aiohttp.ClientSession() as session:
        hosted = TestServer(application)
        # The address is in the manifest, and the routes are fixed once the server runs.
        site: list[RegistrationSite] = []

        async def dispatch(request: web.Request) -> web.StreamResponse:
            for route in site[0].routes():
                if (route.method, route.path) == (request.method, request.path):
                    answer = await route.handler(request)
                    assert isinstance(answer, web.Response)
                    return answer
            raise web.HTTPNotFound

        application.router.add_route("*", "/{rest:.*}", dispatch)
        await hosted.start_server()
        found.url = str(hosted.make_url("")).rstrip("/")
        addresses = replace(addresses_of("https://imq.example.com"), redirect=f"{found.url}/setup/callback")
        offer = Offer(addresses, server.url, without=("administration",))
        client = Client(session, api_url=server.url, clock=clock)
        site.append(
            RegistrationSite(
                offer,
                client=client,
                clock=clock,
                one_time=found.one_time,
                key=b"k" * 32,
                save=found.save,
                announce=found.announced.append,
            )
        )
        yield found
        await hosted.close()
    await server.stop()
    await github.close()
