"""Two webs and three workers on one PostgreSQL, on a GitHub whose reads lag, while all of them die at random.

`IMQ_CAMPAIGN_SEED` decides what happens; `IMQ_CAMPAIGN_SECONDS` how long processes die, and `IMQ_CAMPAIGN_PULLS` how
many pull requests are queued: few in `make test`, many in `make campaign`. Seconds are those of `counted_time`, so that
a loaded machine only makes a run longer.
"""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CISettings, EmulatorServer, GitHub, SystemClock
from imq_demo.observe import contradictions_left
from queue_engine.core.database.database import Database
from queue_engine.domain.notice import MARKER
from queue_engine.domain.reasons import Reason
from queue_engine.migrations import migrate
from queue_engine.store import Store
from tests.acceptance.project import EVENTS, FILES, PERMISSIONS, total_at_most_ten
from tests.acceptance.witness import Witness
from tests.acceptance.world import LABEL
from tests.campaign.counted_time import CountedTime
from tests.campaign.house import Post, a_house
from tests.campaign.progress import Progress, put_off, stored, words_are_sent
from tests.process.processes import CI_TIME
from tests.support.private_postgres import PrivatePostgres

SECONDS = float(os.environ.get("IMQ_CAMPAIGN_SECONDS", "4"))
PULLS = int(os.environ.get("IMQ_CAMPAIGN_PULLS", "8"))
REPOSITORIES, BASES = ("acme/widgets", "acme/gadgets"), ("main", "release", "legacy")
LONGEST_LAG = timedelta(seconds=2)
SETTLING_SECONDS = 240.0
NO_PROGRESS = 60.0
OUTCOME = {True: f"{MARKER} landed", False: f"{MARKER} failed"}
"""How the comment of a pull request begins that landed, or that did not."""

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.postgres]


@dataclass
class Campaign:
    """Pull requests in six queues of two repositories, and what gets in their way."""

    github: GitHub
    server: EmulatorServer
    postgres: PrivatePostgres
    chance: random.Random
    witness: Witness
    time: CountedTime = field(default_factory=CountedTime)
    pulls: list[Any] = field(default_factory=list)
    deaths: int = 0
    restarts: list[str] = field(default_factory=list)
    longest_put_off: float = 0.0
    """Seconds by the clock for which a job was put off."""

    def __post_init__(self) -> None:
        self.progress = Progress(self.time)

    @property
    def summary(self) -> str:
        """What happened, in one line; the waits are those of a queue for its next pull request to land or leave."""
        return (
            f"{len(self.pulls)} pull requests, {self.deaths} deaths, PostgreSQL restarted {self.restarts}; "
            f"{self.time.seconds:.0f} s counted of {self.time.wall:.0f} s; "
            f"longest wait {self.progress.longest:.1f} s, by the clock {self.progress.longest_by_the_clock:.1f} s; "
            f"a job put off for {self.longest_put_off:.1f} s at most"
        )

    def open_all(self) -> None:
        """Pull requests of their own files, spread over the queues; one in eight is red."""
        queues = [(name, base) for name in REPOSITORIES for base in BASES]
        for number in range(PULLS):
            name, base = queues[number % len(queues)]
            red = number % 8 == 7
            files = {f"add-{number}.txt": "99\n"} if red else {f"add-{number}.py": "1\n"}
            handle = self.github.repository(name)
            pull = handle.open_pull_request(f"Add {number}", head=f"add-{number}", base=base, by="mona", files=files)
            self.pulls.append(pull)

    def good(self, pull: Any) -> bool:
        """Whether it may land: its own tree is green."""
        return total_at_most_ten(pull.record.repository.git.files(pull.head_sha))

    def settled(self) -> bool:
        """Whether all that may land has landed, all that may not has left, and the comments say so."""
        return all(
            (pull.merged if self.good(pull) else LABEL not in pull.labels)
            and any(OUTCOME[self.good(pull)] in body for body in own_comments(pull))
            for pull in self.pulls
        )

    async def harass(self, posts: list[Post]) -> None:
        """Kill a process every second, and restart the database in each way: after a third, and two thirds, landed."""
        end, ways = self.time.seconds + SECONDS, self.chance.sample(["fast", "immediate"], 2)
        while self.time.seconds < end:
            await self.time.sleep(self.chance.uniform(0.7, 1.3))
            self.deaths += self.chance.choice(posts).kill()
            if len(self.witness.landed) * 3 >= len(self.pulls) * (3 - len(ways)) and ways:
                await self._restart_database(ways.pop())
        for way in ways:
            await self._restart_database(way)

    async def _restart_database(self, way: str) -> None:
        self.restarts.append(f"{way} after {len(self.witness.landed)}")
        self.witness.log_line(f"PostgreSQL stops: {way}")
        with self.time.stopped():
            await asyncio.to_thread(self.postgres.stop, way)
            await asyncio.to_thread(self.postgres.start)

    async def until_settled(self) -> None:
        """Until all is settled, and every queue moved each minute meanwhile.

        A comment may stand beside the one that it replaces until the lease of a process that died has ended.
        """
        while not self.settled() or (
            any(len(own_comments(pull)) > 1 for pull in self.pulls)
            and not await asyncio.to_thread(words_are_sent, self.postgres.url)
        ):
            self._watch()
            self.longest_put_off = max(self.longest_put_off, await asyncio.to_thread(put_off, self.postgres.url))
            assert self.longest_put_off < NO_PROGRESS, stored(self.postgres.url)
            assert not self.witness.complaints, self.witness.report
            assert self.time.seconds < SECONDS + SETTLING_SECONDS, self.witness.report
            await asyncio.sleep(0.2)  # no-sleep-ok: the end of other processes' work is no event

    def _watch(self) -> None:
        for name in REPOSITORIES:
            for base in BASES:
                waiting = [
                    pull
                    for pull in self.pulls
                    if (pull.record.repository.full_name, pull.record.base_branch) == (name, base)
                    and (not pull.merged if self.good(pull) else LABEL in pull.labels)
                ]
                if self.progress.note((name, base), len(waiting)) > NO_PROGRESS:
                    report = f"{self.witness.report}\n{stored(self.postgres.url)}"
                    raise AssertionError(f"no progress of {name} {base} for a minute\n{report}")

    async def judge(self, labeled: Mapping[tuple[str, int], tuple[float, float]]) -> None:
        """Merged once each, in order and with one comment; only red ones left; GitHub never had to slow IMQ down."""
        assert self.server.limits.violations == []
        for pull in self.pulls:
            if self.good(pull):
                assert self.witness.landed.count((pull.record.repository.full_name, pull.number)) == 1
            assert len(own_comments(pull)) == 1, (pull.number, own_comments(pull))
        database = Database(self.postgres.url)
        try:
            async with Store(database).reading() as tx:
                for pull in self.pulls:
                    events = await tx.timeline.of_pull_request(pull.record.repository.id, pull.number)
                    reasons = {event.reason for event in events if event.reason is not None}
                    assert reasons <= (set() if self.good(pull) else {Reason.CHECKS_FAILED}), (pull.number, reasons)
                    assert [event.event for event in events].count("queued") == 1, (pull.number, events)
                assert await tx.dead_letters.list(1) == ()
        finally:
            await database.close()
        app = next(app for app in self.github.state.apps.values() if app.slug == "imq")
        # An item whose dispatcher lost the database is sent again when its lease has ended.
        assert await contradictions_left(self.postgres.url, self.github, app, within=SETTLING_SECONDS) == []
        self._judge_order(labeled)

    def _judge_order(self, labeled: Mapping[tuple[str, int], tuple[float, float]]) -> None:
        """P3: no pull request landed before another one whose webhook was stored before its own came.

        `labeled` has both instants of each. A pull request whose webhook a sweep found has none, and is not judged.
        """
        bases = {place(pull): pull.record.base_branch for pull in self.pulls}
        for number, later in enumerate(self.witness.landed):
            for earlier in self.witness.landed[:number]:
                same = (earlier[0], bases[earlier]) == (later[0], bases[later])
                if same and earlier in labeled and later in labeled:
                    assert labeled[later][1] >= labeled[earlier][0], f"{earlier} landed before {later}"


def place(pull: Any) -> tuple[str, int]:
    """The repository and the number of a pull request."""
    return pull.record.repository.full_name, pull.number


def own_comments(pull: Any) -> list[str]:
    """The comments of IMQ."""
    return [comment.body for comment in pull.comments if MARKER in comment.body]


@asynccontextmanager
async def a_campaign(postgres: PrivatePostgres, directory: Path, seed: int) -> AsyncIterator[Campaign]:
    """An emulator in real time whose reads lag by chance, with two repositories of three queues each."""
    github = GitHub(SystemClock(), seed=seed, directory=directory / "github")
    github.timings.notice_after(timedelta(seconds=1))
    server = EmulatorServer(github)
    await server.start()
    for login in ("mona", "rhea"):
        github.create_user(login)
    github.create_app("imq", permissions=PERMISSIONS, events=EVENTS, webhook_secret="s3cret-0123456789abcdef")
    for name in REPOSITORIES:
        files = {**FILES, ".github/imq.yml": "when_not_ready: refuse\n"}
        handle = github.create_repository(name, files=files, collaborators={"mona": "write", "rhea": "admin"})
        ci = handle.add_ci("ci/test", settings=CISettings(duration=CI_TIME, judge=total_at_most_ten))
        for base in BASES:
            if base != "main":
                handle.create_branch(base)
            handle.protect(base, required_checks=[("ci/test", ci.app.id)])
    server.lag.between(timedelta(0), LONGEST_LAG, seed=seed)
    server.limits.points_together = True
    stop = asyncio.Event()
    running = asyncio.create_task(github.schedule.run(stop))
    witness = Witness(github, frozenset(BASES))
    try:
        yield Campaign(github, server, postgres, random.Random(seed), witness)
    finally:
        stop.set()
        await running
        await server.stop()
        await github.close()


def environment_of(campaign: Campaign) -> dict[str, str]:
    """The settings of every process: quick loops, since processes die quickly."""
    app = next(app for app in campaign.github.state.apps.values() if app.slug == "imq")
    return {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ} | {
        "IMQ_GITHUB_APP_ID": str(app.id),
        "IMQ_GITHUB_PRIVATE_KEY": app.private_key,
        "IMQ_GITHUB_WEBHOOK_SECRET": "s3cret-0123456789abcdef",
        "IMQ_GITHUB_API_URL": campaign.server.url,
        "DATABASE_URL": campaign.postgres.url,
        "IMQ_INTERVAL_SECONDS": "0.5",
        "IMQ_LOG_FORMAT": "json",
    }


@pytest.mark.thorough
async def test_house_whose_processes_and_database_die_lands_all_that_is_green_and_nothing_else(
    private_postgres: PrivatePostgres, tmp_path: Path
) -> None:
    """P1 to P7: nothing red lands, each green one lands once, in order, with one comment, and none waits for ever."""
    seed = int(os.environ.get("IMQ_CAMPAIGN_SEED") or random.randrange(10**6))
    print(f"IMQ_CAMPAIGN_SEED={seed}")
    database = Database(private_postgres.url)
    await migrate(database)
    await database.close()
    async with a_campaign(private_postgres, tmp_path, seed) as campaign:
        campaign.open_all()
        async with a_house(environment_of(campaign), tmp_path) as (posts, address, balancer):
            app = next(app for app in campaign.github.state.apps.values() if app.slug == "imq")
            app.webhook_url = address
            campaign.github.install(app, "acme")
            for pull in campaign.pulls:
                campaign.witness.agree(pull)
            async with campaign.time.running(private_postgres.pid):
                harassing = asyncio.create_task(campaign.harass(posts))
                try:
                    await campaign.until_settled()
                    await harassing
                finally:
                    harassing.cancel()
                    print(campaign.summary)
            await campaign.judge(balancer.labeled)
            assert {code for post in posts for code in post.ends} <= {-signal.SIGKILL}, "a process ended by itself"
    assert not campaign.witness.complaints, campaign.witness.report
    assert campaign.restarts
