"""Pages of statistics with departures that a test stores, as a viewer reads them."""

import re
from dataclasses import dataclass, replace
from html import unescape
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient

from bot.web.login.sessions import ANONYMOUS, Viewer
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.departure import Departure
from queue_engine.domain.facts import Actor, Permission
from queue_engine.domain.model import Repository
from queue_engine.store import Store
from queue_engine.store.tokens import TokenPolicy
from tests.store.examples import NOW, REPOSITORY

QUEUE = "/repositories/acme/rocket/branches/main/statistics"


class Stopped(SystemClock):
    """A clock that stays at one instant."""

    def now(self) -> Any:
        return NOW


class Reader:
    """Mona may read one repository, and no other."""

    async def collaborator(self, repository: Repository, login: str) -> tuple[Actor | None, Permission]:
        right = Permission.READ if repository.id == REPOSITORY.id else Permission.NONE
        return Actor(7, login), right

    async def by_id(self, installation_id: int, person_id: int) -> Actor | None:
        return Actor(person_id, "mona")


def person(**grant: Any) -> Viewer:
    return Viewer(replace(ANONYMOUS.token, grant=TokenPolicy(login="mona", person_id=7, **grant)), csrf="c")


@dataclass
class Browser:
    """A person at the statistics of a store."""

    client: TestClient[web.Request, web.Application]
    store: Store
    who: Viewer

    async def get(self, path: str, status: int = 200) -> str:
        response = await self.client.get(path, headers={"Accept": "text/html"}, allow_redirects=False)
        assert response.status == status, await response.text()
        return await response.text()

    async def rows(self, path: str) -> int:
        """How many pull requests a list has, over all its pages."""
        count, following = 0, path
        while following:
            text = await self.get(following)
            count += text.count('<th scope="row">')
            older = re.search(r'<a href="([^"]+)">Older', text)
            following = unescape(older[1]) if older else ""
        return count


async def put(store: Store, *departures: Departure) -> None:
    async with store.transaction() as tx:
        for each in departures:
            await tx.departures.put(each)
