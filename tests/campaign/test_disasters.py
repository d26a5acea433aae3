"""A company's hour in virtual time: a thousand repositories, people at work, and one disaster after another.

What needs processes is elsewhere: two webs and three workers that die on PostgreSQL (`test_github_campaign`), a full
disk (`tests/process/test_outages`), upgrades (`tests/process/test_rolling_upgrade`). `IMQ_CAMPAIGN_SEED` repeats a
course of events, and `IMQ_CAMPAIGN_REPOSITORIES` makes the company smaller.
"""

import os
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from bot.cli.queue_files import copy
from github_emulator import Fault
from tests.acceptance.crowd import Crowd
from tests.acceptance.test_clocks import SetClock, put_together_again
from tests.acceptance.test_first_sweeps import company
from tests.acceptance.test_out_of_order import Disorder
from tests.acceptance.test_restored_backups import restore_later
from tests.acceptance.witness import Witness
from tests.acceptance.world import CI_TIME, a_world

REPOSITORIES = int(os.environ.get("IMQ_CAMPAIGN_REPOSITORIES", "1000"))
PULLS = 5
HOUR, TEN_MINUTES, MINUTE = timedelta(hours=1), timedelta(minutes=10), timedelta(minutes=1)


@contextmanager
def unreachable(port: int, error: Callable[[ConnectionKey], Exception]) -> Iterator[None]:
    """Have each request to this port fail before a connection is there."""
    connect = aiohttp.TCPConnector.connect

    async def refuse(self: Any, request: Any, *arguments: Any, **named: Any) -> Any:
        if request.url.port == port:
            raise error(request.connection_key)
        return await connect(self, request, *arguments, **named)

    with mock.patch.object(aiohttp.TCPConnector, "connect", refuse):
        yield


@dataclass
class Disasters(Crowd):
    """People at work, and what happens to GitHub, to the machine and to the database meanwhile."""

    directory: Path = Path()

    async def befall(self) -> None:
        """Each disaster once, in an order that the seed says, with people at work before and during it."""
        disasters: list[Callable[[], Awaitable[None]]] = [
            self._suspended,
            self._archived,
            self._outage,
            self._no_address,
            self._no_certificate,
            self._cut_off,
            self._clock_ahead,
            self._clock_back,
            self._restored,
        ]
        self.chance.shuffle(disasters)
        for disaster in disasters:
            await self.act()
            self.witness.log_line(disaster.__name__.strip("_"))
            await disaster()

    async def _people_act(self, during: timedelta) -> None:
        for _ in range(2):
            act = self.chance.choice([self._label, self._unlabel, self._push, self._push_to_base])
            pull = self.chance.choice(self.pulls)
            self.witness.log_line(f"#{pull.number} {act.__name__.strip('_')}")
            if not pull.merged or act == self._push_to_base:
                await act(pull)
            await self.world.pass_time(during / 2)

    async def _suspended(self) -> None:
        Disorder(self.world).suspended(True)
        await self._people_act(self.chance.choice([MINUTE / 2, TEN_MINUTES]))
        Disorder(self.world).suspended(False)

    async def _archived(self) -> None:
        """People can change nothing in an archived repository."""
        self.world.repository.archive(True, by="acme")
        await self.world.pass_time(TEN_MINUTES)
        self.world.repository.archive(False, by="acme")

    async def _outage(self) -> None:
        await self._faulty(Fault(times=None, kind="fail", status=502))

    async def _cut_off(self) -> None:
        await self._faulty(Fault(times=None, kind="reset"))

    async def _faulty(self, fault: Fault) -> None:
        self.world.server.faults.add(fault)
        await self._people_act(TEN_MINUTES)
        self.world.server.faults.clear()

    async def _no_address(self) -> None:
        error = OSError(-3, "Temporary failure in name resolution")
        await self._unreachable(lambda key: aiohttp.ClientConnectorDNSError(key, error))

    async def _no_certificate(self) -> None:
        error = OSError(1, "certificate verify failed: certificate has expired")
        await self._unreachable(lambda key: aiohttp.ClientConnectorSSLError(key, error))

    async def _unreachable(self, error: Callable[[ConnectionKey], Exception]) -> None:
        with unreachable(URL(self.world.server.url).port or 0, error):
            await self._people_act(TEN_MINUTES)

    async def _clock_ahead(self) -> None:
        await self._wrong(HOUR)

    async def _clock_back(self) -> None:
        await self._wrong(-HOUR)

    async def _wrong(self, by: timedelta) -> None:
        clock = SetClock(self.world)
        clock.wrong_by = by
        await put_together_again(self.world, clock)
        await self._people_act(TEN_MINUTES)
        await self.world.kill()
        await self.world.restart()

    async def _restored(self) -> None:
        """The operator restores a copy with entries, of which some have landed or left since."""
        for pull in self.pulls:
            if not pull.merged and pull.state == "open":
                await self._unlabel(pull)
                await self.world.pass_time(MINUTE)
                await self._label(pull)
        copy(self.directory / "imq.db", self.directory / "backup.db")
        await self._people_act(TEN_MINUTES)
        await restore_later(self.world, self.directory)


@pytest.mark.long
async def test_company_whose_hour_is_full_of_disasters_lands_all_that_is_green_and_agreed_and_nothing_else(
    tmp_path: Path,
) -> None:
    """P1 to P6: no disaster ejects a pull request for good, none lands twice, and in the end all words are true."""
    seed = int(os.environ.get("IMQ_CAMPAIGN_SEED") or random.randrange(10**6))
    print(f"IMQ_CAMPAIGN_SEED={seed}")
    async with a_world(tmp_path, seed=seed) as world:
        witness = Witness(world.github)
        crowd = Disasters(world, random.Random(seed), witness, directory=tmp_path)
        for repository in company(world, REPOSITORIES):
            repository.pull(1).label("dependencies", by="mona")
        crowd.open(PULLS)
        await world.pass_time(CI_TIME)
        await crowd.befall()
        await world.pass_time(TEN_MINUTES * 3)
        await crowd.finish()
        await world.pass_time(CI_TIME * PULLS * 2 + HOUR)
        assert not witness.complaints, witness.report
        assert [pull.number for pull in crowd.pulls if not pull.merged and crowd.green_on_base(pull)] == []
        assert len(set(witness.landed)) == len(witness.landed)
        assert world.server.limits.violations == []
