"""An emulator with one repository and an app, for a queue that is not IMQ, or for IMQ within this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from github_emulator import (
    CI,
    App,
    CISettings,
    Clock,
    EmulatorServer,
    GitHub,
    Installation,
    PullRequestHandle,
    RepositoryHandle,
)
from tests.acceptance.project import EVENTS, FILES, PERMISSIONS
from tests.acceptance.world import LABEL, REPOSITORY
from tests.support.app_key import KEY

READS_LAG = ContextVar("READS_LAG", default=timedelta(0))
"""How old the state is that the reads of every stage's GitHub show."""
SECRET = "s3cret-0123456789abcdef"
CHECK = "ci/test"


@dataclass(slots=True)
class Stage:
    """The emulator and the hands on it."""

    github: GitHub
    server: EmulatorServer
    repository: RepositoryHandle
    app: App
    installation: Installation
    ci: CI

    def open(self, name: str, *, base: str = "main") -> PullRequestHandle:
        """Open a pull request that adds one file of its own."""
        return self.repository.open_pull_request(
            f"Add {name}", head=name, base=base, by="mona", files={f"{name}.py": f"{name}\n"}
        )

    def label(self, pull: PullRequestHandle) -> None:
        """Ask for the pull request to be merged, as a maintainer does."""
        pull.label(LABEL, by="mona")

    def environment(self, database_url: str) -> dict[str, str]:
        """The settings of a bot on this stage; everything else has its default."""
        return {
            "IMQ_GITHUB_APP_ID": str(self.app.id),
            "IMQ_GITHUB_PRIVATE_KEY": self.app.private_key,
            "IMQ_GITHUB_WEBHOOK_SECRET": SECRET,
            "IMQ_GITHUB_API_URL": self.server.url,
            "DATABASE_URL": database_url,
            "PORT": "0",
        }


@asynccontextmanager
async def a_stage(
    directory: Path, clock: Clock, *, ci_time: timedelta, jitter: timedelta = timedelta(0), seed: int = 1
) -> AsyncIterator[Stage]:
    """A stage whose branches are all protected, strictly, by one check that takes `ci_time`, plus up to `jitter`."""
    github = GitHub(clock, seed=seed, directory=directory / "github")
    server = EmulatorServer(github)
    await server.start()
    for login in ("mona", "rhea"):
        github.create_user(login)
    app = github.create_app("imq", permissions=PERMISSIONS, events=EVENTS, webhook_secret=SECRET)
    app.key = KEY
    repository = github.create_repository(
        REPOSITORY, files=FILES, collaborators={"mona": "write", "rhea": "admin"}, private=True
    )
    installation = github.install(app, "acme")
    ci = repository.add_ci(CHECK, settings=CISettings(duration=ci_time, jitter=jitter))
    repository.protect("main", required_checks=[(CHECK, ci.app.id)], strict=True, by="rhea")
    if lag := READS_LAG.get():
        server.lag.set(lag)
    try:
        yield Stage(github, server, repository, app, installation, ci)
    finally:
        await server.stop()
        await github.close()
