"""Set up the demo: an emulated GitHub with one repository, its CI and its rules, and the real bot beside it."""

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

from rich.console import Console
from rich.text import Text

from bot.registration.manifest import read_manifest
from github_emulator import App, CISettings, EmulatorServer, GitHub, RepositoryHandle, SystemClock
from imq_demo import project
from imq_demo.bot_process import HOME, BotFailed, BotProcess
from imq_demo.scenario import Scenario

BASE = "main"
LABEL = "merge-queue"
_CI_SECONDS = {project.CI_TEST: 2.0, project.CI_LINT: 0.8}
_SWEEP = "GET /repos/{owner}/{repo}/pulls"
_NOTICE_SECONDS = 300.0
"""Far more than a slow machine takes: it ends a demo that hangs."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The running parts of the demo. `past` are the base's commits before the scenario."""

    github: GitHub
    server: EmulatorServer
    repository: RepositoryHandle
    app: App
    bot: BotProcess
    database: Path
    past: tuple[str, ...]
    speed: float

    @property
    def start(self) -> str:
        """Return the base's tip before the scenario."""
        return self.past[-1]


@dataclass(frozen=True, slots=True)
class Parts:
    """An emulator with one repository, and a bot on it."""

    github: GitHub
    server: EmulatorServer
    repository: RepositoryHandle
    app: App
    bot: BotProcess
    database: Path


@asynccontextmanager
async def open_environment(scenario: Scenario, *, speed: float, seed: int) -> AsyncIterator[Environment]:
    """Set up the environment, and at the end stop its processes and remove its directories.

    The bot's log is kept after an exception, which gets a note, or if `bot.keeps_log` is set.
    """
    past: list[str] = []

    def build(github: GitHub) -> RepositoryHandle:
        repository, commits = _build(github, scenario)
        past.extend(commits)
        return repository

    async with open_parts(build, speed=speed, seed=seed) as found:
        found.server.authorization.visitor = scenario.maintainer
        yield Environment(
            found.github, found.server, found.repository, found.app, found.bot, found.database, tuple(past), speed
        )


@asynccontextmanager
async def open_parts(
    build: Callable[[GitHub], RepositoryHandle],
    *,
    speed: float,
    seed: int,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[Parts]:
    """Start an emulator, build its repository, and start the bot with these settings besides its own."""
    async with AsyncExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="imq-demo-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        github = GitHub(SystemClock(speed), seed=seed, directory=directory / "git")
        stack.push_async_callback(github.close)
        # The bot signs tokens in real time.
        server = EmulatorServer(github, jwt_clock=SystemClock(), token_seed=secrets.randbits(128))
        await server.start()
        stack.push_async_callback(server.stop)
        repository = build(github)
        await stack.enter_async_context(_running_schedule(github))
        app = _register(github)
        bot = await stack.enter_async_context(_bot(app, server, directory, settings))
        github.install(app, repository.record.owner.login)
        await _wait_for_installation(server, bot)
        yield Parts(github, server, repository, app, bot, directory / "imq.db")


async def wait_for_interrupt(console: Console, lines: Iterable[str], bots: Sequence[BotProcess]) -> None:
    """Print how to use what runs, and wait for Ctrl-C. Raises BotFailed if a bot ends before."""
    for line in ("\nEverything stays up until Ctrl-C.", *lines):
        console.print(Text(line), soft_wrap=True)
    try:
        while True:
            for bot in bots:
                bot.check()
            await asyncio.sleep(1)
    except asyncio.CancelledError:
        # Ctrl-C is the intended end of the wait, not of the demo.
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        task.uncancel()
        console.print("Closing.")


def _build(github: GitHub, scenario: Scenario) -> tuple[RepositoryHandle, tuple[str, ...]]:
    owner = project.NAME.partition("/")[0]
    github.create_user(owner, "Organization")
    maintainer, *others = scenario.people
    roles = {maintainer: "admin"} | dict.fromkeys(others, "write")
    repository = github.create_repository(project.NAME, files=project.START, private=False, collaborators=roles)
    past = [repository.sha()]
    past += (
        repository.push(BASE, made.files, made.message, by=scenario.people[made.person]) for made in project.HISTORY
    )
    ci = [
        repository.add_ci(
            name,
            settings=CISettings(
                status=name == project.CI_LINT,
                duration=timedelta(seconds=_CI_SECONDS[name]),
                jitter=timedelta(seconds=_CI_SECONDS[name] / 4),
                judge=judge,
            ),
        )
        for name, judge in project.CHECKS.items()
    ]
    repository.protect(BASE, required_checks=[(ci[0].name, ci[0].app.id), ci[1].name], strict=True, by=maintainer)
    return repository, tuple(past)


async def _wait_for_installation(server: EmulatorServer, bot: BotProcess) -> None:
    """Wait until the bot has listed labeled pull requests, as it does after an installation."""
    try:
        async with asyncio.timeout(_NOTICE_SECONDS):
            while not server.requests.of(_SWEEP):
                bot.check()
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise BotFailed(f"the bot did not notice its installation within {_NOTICE_SECONDS:.0f} s") from None


def _register(github: GitHub) -> App:
    manifest = read_manifest()
    app = github.create_app(
        "imq",
        permissions=manifest.permissions,
        events=manifest.events,
        webhook_secret=secrets.token_hex(32),
    )
    app.client_secret = secrets.token_hex(20)
    app.device_flow = True
    return app


@asynccontextmanager
async def _running_schedule(github: GitHub) -> AsyncIterator[None]:
    """Run the emulator's scheduled actions; their exceptions are raised at the end."""
    stop = asyncio.Event()
    running = asyncio.create_task(github.schedule.run(stop))
    try:
        yield
    finally:
        stop.set()
        await running


@asynccontextmanager
async def _bot(app: App, server: EmulatorServer, directory: Path, more: Mapping[str, str]) -> AsyncIterator[BotProcess]:
    descriptor = tempfile.NamedTemporaryFile(prefix="imq-demo-", suffix=".log", delete=False)  # noqa: SIM115
    descriptor.close()
    log = Path(descriptor.name)
    settings = {
        "IMQ_GITHUB_APP_ID": str(app.id),
        "IMQ_GITHUB_PRIVATE_KEY": app.private_key,
        "IMQ_GITHUB_WEBHOOK_SECRET": app.webhook_secret,
        "IMQ_GITHUB_API_URL": server.url,
        "IMQ_TRIGGER_LABEL": LABEL,
        "DATABASE_URL": f"sqlite:///{directory / 'imq.db'}",
        "IMQ_PUBLIC_URL": HOME,
        "IMQ_SECRET_KEY": secrets.token_hex(32),
        "IMQ_GITHUB_CLIENT_ID": app.client_id,
        "IMQ_GITHUB_CLIENT_SECRET": app.client_secret,
        "IMQ_PUBLIC_PAGES": "1",
        **more,
    }
    bot = await BotProcess.start(settings, log)
    try:
        await bot.ready()
        app.webhook_url = f"{bot.url}/webhook"
        app.callback_urls = (f"{bot.url}/auth/callback",)
        yield bot
        bot.check()
        if code := await bot.stop():
            raise BotFailed(f"the bot ended with exit code {code} after SIGTERM")
    except Exception as error:
        bot.keeps_log = True
        error.add_note(f"The bot's log: {log}")
        raise
    finally:
        await bot.stop()
        bot.discard_log()
