"""A whole world in one process: emulated GitHub and real bot, speaking HTTP both ways, under one clock moved by hand.

Tests act as people do, then let the world run until something is true. Nothing sleeps: when
nothing is due, the clock jumps to the next due instant.

`driving.py` drives the parts of the bot for that; `bot/process/lifecycle.py` drives them in real time. Hours of CI take
milliseconds.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from bot.process.wiring import Bot
from github_emulator import CISettings, EmulatorServer, GitHub, RecordedCall
from imq_demo.observe import contradictions
from queue_engine.domain.model import Entry
from tests.acceptance.driving import Driver
from tests.acceptance.landing_witness import assert_landings_proved
from tests.acceptance.project import EVENTS, FILES, PERMISSIONS, total_at_most_ten
from tests.acceptance.starting import SharedClock, lay_out, plain_logs, start_bot
from tests.support.app_key import KEY
from tests.support.in_place import statements_in_place
from tests.support.published_schemas import compare_answers, compare_webhooks

LABEL = "merge-queue"
REPOSITORY = "acme/widgets"
CI_TIME = timedelta(minutes=3)
LAG = timedelta(seconds=2)
"""How old the state is that reads show in the tests that run with lag too."""


SECRET = "s3cret-0123456789abcdef"


@dataclass
class World:
    """Both sides, and the people's hands on them."""

    clock: SharedClock
    github: GitHub
    server: EmulatorServer
    repository: Any
    app: Any
    database_url: str
    environment: dict[str, str]
    bot: Bot
    runner: web.AppRunner
    settling: timedelta = timedelta(0)
    """How long reads keep IMQ from what is due: where they lag, `settle` lets so much time pass."""

    rest: Callable[[], Awaitable[None]] | None = None
    """What has to come to rest before time moves: programs that call the API beside the world."""

    unsettled: str | None = None
    """Why labels and words need not agree when the test ends; None: they have to."""

    def __post_init__(self) -> None:
        self._driver = Driver(self.bot, self.clock)

    @property
    def driver(self) -> Driver:
        """What drives the bot that runs now."""
        if self._driver.bot is not self.bot:
            self._driver = Driver(self.bot, self.clock)
        return self._driver

    async def settle(self) -> None:
        """Let both sides do all that is due now, and where reads lag what IMQ does once they show it."""
        await self.pass_time(self.settling)

    async def _run_due(self) -> datetime:
        """Let both sides do all that is due at this instant; returns when there will be more to do."""
        for _ in range(5000):
            ran = await self.github.schedule.run_due()
            if self.rest is not None:
                await self.rest()
            bots = await self.driver.next_due()
            if bots is not None and bots <= self.clock.now() and await self.driver.run_due():
                continue
            dues = [due for due in (self.github.schedule.next_due(), bots) if due is not None]
            due = min(dues, default=datetime.max.replace(tzinfo=UTC))
            if due > self.clock.now() or not ran:
                return max(due, self.clock.now() + timedelta(milliseconds=100))
        raise AssertionError("the world does not come to rest")

    async def until(self, true: Callable[[], bool], *, within: timedelta = timedelta(hours=8)) -> None:
        """Let time pass until `true` holds; fails with the state of things when it does not hold in time."""
        end = self.clock.now() + within
        while True:
            due = await self._run_due()
            if true():
                return
            if due > end:
                raise AssertionError(f"still not so after {within}: {await self.describe()}")
            self.clock.set(due)

    async def pass_time(self, duration: timedelta) -> None:
        """Let `duration` pass, with everything that happens meanwhile."""
        end = self.clock.now() + duration
        while True:
            due = await self._run_due()
            if self.clock.now() >= end:
                return
            self.clock.set(min(end, due))

    async def entries(self) -> tuple[Entry, ...]:
        """The entries of all queues in their order."""
        async with self.bot.engine.store.reading() as tx:
            return tuple([entry for queue in await tx.queues.all() for entry in await tx.entries.of_queue(queue.id)])

    async def entry(self, pull: Any) -> Entry | None:
        """The entry of a pull request, if it is queued."""
        return next((entry for entry in await self.entries() if entry.number == pull.number), None)

    async def status(self, pull: Any) -> str | None:
        """The status of a pull request's entry; None when it is not queued."""
        entry = await self.entry(pull)
        return None if entry is None else entry.status.value

    async def until_status(self, pull: Any, status: str | None) -> None:
        """Let time pass, in small steps, until the entry has this status."""
        for _ in range(10_000):
            await self.github.schedule.run_due()
            if await self.status(pull) == status:
                return
            await self.driver.next_due()
            if not await self.driver.run_due() and self.github.schedule.next_due() != self.clock.now():
                if await self.status(pull) == status:
                    return
                dues = [self.github.schedule.next_due(), await self.driver.next_due()]
                due = min(due for due in dues if due is not None)
                self.clock.set(max(due, self.clock.now() + timedelta(milliseconds=50)))
        raise AssertionError(f"never {status}: {await self.describe()}")

    async def paused(self) -> str | None:
        """The most important pause of the first queue that has one, or that its tip waits for its checks."""
        async with self.bot.engine.store.reading() as tx:
            queues = await tx.queues.all()
        untested = ("tip_untested" for queue in queues if queue.red is not None and queue.red.untested)
        return next((pause.reason.value for queue in queues for pause in queue.pauses), next(untested, None))

    def open(self, name: str, *, by: str | None = "mona", files: Any = None, **more: Any) -> Any:
        """Open a pull request from a branch of this name that adds one file of its own, or changes `files`."""
        files = files or {f"{name}.py": f"{name}\n"}
        return self.repository.open_pull_request(name, head=name, by=by, files=files, **more)

    async def behind(self, name: str, **more: Any) -> Any:
        """Open a pull request, let its checks end, and move the base past it."""
        pull = self.open(name, **more)
        await self.pass_time(CI_TIME * 2)
        self.repository.push(pull.record.base_branch, {f"past-{name}.py": "moved\n"}, "Move the base", by="rhea")
        await self.settle()
        return pull

    async def land_behind_each_other(self, count: int) -> list[Any]:
        """Land so many pull requests, each after its checks ran once on top of the one before."""
        pulls = [self.open(f"history-{number}") for number in range(count)]
        await self.pass_time(CI_TIME * 2)
        self.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
        for pull in pulls:
            pull.label(LABEL, by="mona")
            await self.settle()
        await self.until(lambda: all(pull.merged for pull in pulls))
        await self.settle()
        return pulls

    def landed(self, branch: str = "main") -> list[int]:
        """Numbers of the pull requests that were landed on a branch by merge commits, oldest first."""
        titles = [commit.title for commit in reversed(self.repository.log(branch))]
        return [int(title.split("#")[1].split()[0]) for title in titles if title.startswith("Merge pull request #")]

    async def reasons(self, pull: Any) -> list[str]:
        """Why a pull request was refused or left its queue, each time it did."""
        async with self.bot.engine.store.reading() as tx:
            events = await tx.timeline.of_pull_request(pull.record.repository.id, pull.number)
        return [event.reason.value for event in events if event.reason is not None]

    def app_id(self, slug: str) -> int:
        """The id of an App."""
        return next(app.id for app in self.github.state.apps.values() if app.slug == slug)

    def meanwhile(self, template: str, act: Callable[[], object], *, phase: str = "before") -> None:
        """Have somebody act while the next request of this route is on its way, before or after it takes effect."""

        async def hook(exchange: RecordedCall) -> None:
            if (exchange.template, exchange.phase) == (template, phase):
                self.server.on_request = None
                act()

        self.server.on_request = hook

    def comment(self, pull: Any) -> str:
        """IMQ's one comment on a pull request; fails when there is none or more than one."""
        own = [c.body for c in pull.comments if "<!-- imq:comment" in c.body]
        assert len(own) == 1, f"#{pull.number} has {len(own)} comments of IMQ"
        return str(own[0])

    def spoken(self, pull: Any) -> int:
        """How many comments of IMQ a pull request has."""
        return sum("<!-- imq:comment" in c.body for c in pull.comments)

    def requests(self, *templates: str) -> int:
        """How many requests the bot sent, to these route templates or to any."""
        return sum(not templates or r.template in templates for r in self.server.requests)

    def authorized(self, *templates: str) -> int:
        """How many of them GitHub did not refuse because it does not know a fresh token yet."""
        return sum(r.template in templates and r.status != 401 for r in self.server.requests)

    async def describe(self) -> str:
        """The state of things, for a failing test to show."""
        entries = [(e.number, e.status.value, e.run.next_poll_at, e.run.pending_checks) for e in await self.entries()]
        planned = self.github.schedule.pending()[:10]
        last = [(r.method, r.path, r.status) for r in list(self.server.requests)[-8:]]
        return f"entries {entries}, paused {await self.paused()}, planned {planned}, last requests {last}"

    async def assert_at_rest(self) -> None:
        """Fail where a label is neither known nor explained, or words are false, a minute after all faults ended (P6).

        A test that ends while IMQ cannot know better says so in `unsettled`. Without a bot there is nothing to check.
        """
        if self.unsettled is not None or self.bot.engine.ending.is_set():
            return
        self.server.faults.clear()
        self.server.on_request = None
        found = await self.contradictions()
        if found:  # a test may end while IMQ is at work
            await self.pass_time(timedelta(minutes=1) + self.settling)
            found = await self.contradictions()
        assert not found, found

    async def contradictions(self) -> list[str]:
        """What IMQ's records, and its words on GitHub, contradict now."""
        return await contradictions(self.bot.engine.store, self.github, self.app)

    async def kill(self) -> None:
        """End the bot without a word, as `kill -9` would: nothing is drained, nothing is released."""
        # Streams end by this alone, and what they send is not part of any test.
        self.bot.engine.ending.set()
        await self.runner.cleanup()
        await self.bot.close()
        assert not self.bot.metrics.unknown, self.bot.metrics.unknown

    async def restart(self) -> None:
        """Start a new bot on the same database, after `kill`; a bot that is not closed fails a later test."""
        assert not self.runner.sites, "the bot still runs"
        self.bot, self.runner = await start_bot(self.environment, self.clock)
        self._point_webhooks()

    def grant(self, permission: str, level: str | None) -> None:
        """The owner grants the App this much of a permission, or none of it; tokens issued before are gone."""
        for installation in self.github.state.installations_of(self.repository.record):
            if installation.app is self.app:
                installation.permissions.pop(permission, None)
                installation.permissions |= {} if level is None else {permission: level}
        self.server.tokens.revoke_all()

    def _point_webhooks(self) -> None:
        self.app.webhook_url = f"http://127.0.0.1:{self.runner.addresses[0][1]}/webhook"


def _people_and_repository(github: GitHub, settings: dict[str, Any], *, ci: bool, protect: bool) -> tuple[Any, Any]:
    """The people, the App, and the one repository that the App is installed on."""
    for login in ("mona", "hubot", "tria", "rhea"):
        github.create_user(login)
    github.create_user("robot[bot]", kind="Bot")
    app = github.create_app("imq", permissions=PERMISSIONS, events=EVENTS, webhook_secret=SECRET)
    app.key = KEY
    people = {"mona": "write", "hubot": "write", "tria": "triage", "rhea": "admin", "robot[bot]": "write"}
    handle = github.create_repository(REPOSITORY, files=FILES, collaborators=people, **settings)
    github.install(app, "acme")
    if ci:
        made = handle.add_ci("ci/test", settings=CISettings(duration=CI_TIME, judge=total_at_most_ten))
    if protect:
        handle.protect("main", required_checks=[("ci/test", made.app.id) if ci else "ci/test"])
    return app, handle


@asynccontextmanager
async def a_world(
    directory: Path,
    *,
    settings: dict[str, str] | None = None,
    repository: dict[str, Any] | None = None,
    ci: bool = True,
    protect: bool = True,
    seed: int = 1,
    lag: timedelta = timedelta(0),
) -> AsyncIterator[World]:
    """A world with one repository, protected `main`, one CI and the bot installed; torn down whole.

    With `lag` everything that the bot reads of GitHub is as old as that; `world.server.lag` says more of it.
    """
    clock = SharedClock()
    github = GitHub(clock, seed=seed, directory=directory / "github")
    github.timings.notice_after(timedelta(seconds=1))
    server = EmulatorServer(github)
    compare_answers(server)
    await server.start()
    app, handle = _people_and_repository(github, repository or {}, ci=ci, protect=protect)
    environment = {
        "IMQ_GITHUB_APP_ID": str(app.id),
        "IMQ_GITHUB_PRIVATE_KEY": app.private_key,
        "IMQ_GITHUB_WEBHOOK_SECRET": SECRET,
        "IMQ_GITHUB_API_URL": server.url,
        "DATABASE_URL": f"sqlite:///{directory / 'imq.db'}",
        "PORT": "0",
    } | (settings or {})
    await lay_out(directory / "imq.db")
    with plain_logs(), statements_in_place():
        bot, runner = await start_bot(environment, clock)
        world = World(clock, github, server, handle, app, environment["DATABASE_URL"], environment, bot, runner)
        world._point_webhooks()
        if lag:
            server.lag.set(lag)
            world.settling = lag * 4
        await world.settle()
        try:
            yield world
            await world.assert_at_rest()
            await assert_landings_proved(world.bot.engine.store)
        finally:
            await world.kill()
            try:
                await server.stop()
            finally:
                await github.close()
        compare_webhooks(github)
