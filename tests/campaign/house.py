"""IMQ as operators run it at scale: two webs behind a load balancer and three workers, on one PostgreSQL.

Each is a process of its own, which a campaign kills and which is started again at once.
"""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from sqlalchemy.exc import DBAPIError

from tests.acceptance.template import Forked, Template
from tests.process.processes import end_leases
from tests.support.ports import held_port

WEBS, WORKERS = 2, 3


@dataclass
class Post:
    """One process's place: what is started there, and what runs there now."""

    command: str
    environment: dict[str, str]
    log: Path
    template: Template = field(default_factory=Template)
    process: Forked | None = None
    ends: list[int] = field(default_factory=list)
    """Exit codes, negative for signals."""
    dead: list[int] = field(default_factory=list)
    """The ids of the processes that have ended."""

    async def keep_running(self) -> None:
        """Start the process, and again whenever it has ended, until this is cancelled."""
        while True:
            self.process = await self.template.fork(self.environment, self.log, self.command)
            self.ends.append(await self.process.wait())
            self.dead.append(self.process.pid)

    def kill(self) -> bool:
        """`kill -9`; whether something ran that could be killed."""
        if self.process is None or self.process.returncode is not None:
            return False
        self.process.send_signal(signal.SIGKILL)
        return True

    async def close(self) -> None:
        """End the process and the template."""
        self.kill()
        await self.template.close()


class Balancer:
    """Hands each delivery to a web process that takes it, as a load balancer does; 502 when none does."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self._next_port = cycle(range(len(ports)))
        self.labeled: dict[tuple[str, int], tuple[float, float]] = {}
        """By repository and number of a labeled pull request: when its first stored webhook came, and was stored."""
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10))

    async def hand_on(self, request: web.Request) -> web.Response:
        """Ask one web after the other."""
        body, first, came = await request.read(), next(self._next_port), time.monotonic()
        headers = {name: value for name, value in request.headers.items() if name.startswith("X-") or "Type" in name}
        for port in self._ports[first:] + self._ports[:first]:
            try:
                async with self._session.post(f"http://127.0.0.1:{port}/webhook", data=body, headers=headers) as answer:
                    stored = await answer.read()
                    if answer.status == 202:
                        self._note(json.loads(body), came)
                    return web.Response(status=answer.status, body=stored)
            except (aiohttp.ClientError, TimeoutError):
                continue
        return web.Response(status=502)

    def _note(self, payload: Any, came: float) -> None:
        if payload.get("action") == "labeled" and "pull_request" in payload:
            place = payload["repository"]["full_name"], payload["number"]
            self.labeled.setdefault(place, (came, time.monotonic()))

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


@asynccontextmanager
async def a_house(environment: Mapping[str, str], directory: Path) -> AsyncIterator[tuple[list[Post], str, Balancer]]:
    """The processes, started and kept running; and the address where GitHub's webhooks go, with what answers there."""
    with ExitStack() as held:
        ports = [held.enter_context(held_port()) for _ in range(WEBS)]
        async with _house_at(ports, environment, directory) as house:
            yield house


@asynccontextmanager
async def _house_at(
    ports: list[int], environment: Mapping[str, str], directory: Path
) -> AsyncIterator[tuple[list[Post], str, Balancer]]:
    posts = [
        Post("web", {**environment, "PORT": str(port), "IMQ_BIND": "127.0.0.1"}, directory / f"web-{number}.log")
        for number, port in enumerate(ports)
    ]
    posts += [Post("worker", dict(environment), directory / f"worker-{number}.log") for number in range(WORKERS)]
    balancer = Balancer(ports)
    front = web.Application()
    front.router.add_post("/webhook", balancer.hand_on)
    runner = web.AppRunner(front, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    keeping = [asyncio.create_task(post.keep_running()) for post in posts]
    keeping.append(asyncio.create_task(_keep_ending_leases(posts, environment["DATABASE_URL"])))
    try:
        while any(post.process is None for post in posts):  # noqa: ASYNC110 - real processes start in real time
            await asyncio.sleep(0.05)  # no-sleep-ok: the same
        yield posts, f"http://127.0.0.1:{runner.addresses[0][1]}/webhook", balancer
    finally:
        for task in keeping:
            task.cancel()
        await asyncio.gather(*keeping, return_exceptions=True)
        await asyncio.gather(*(post.close() for post in posts))
        await runner.cleanup()
        await balancer.close()


async def _keep_ending_leases(posts: list[Post], database_url: str) -> None:
    """End the leases of the dead, again and again: PostgreSQL may store one after its process has died."""
    while True:
        with suppress(DBAPIError, OSError):  # the campaign stops the database as well
            await end_leases(database_url, *(pid for post in posts for pid in post.dead))
        await asyncio.sleep(0.5)  # no-sleep-ok: real processes, real time
