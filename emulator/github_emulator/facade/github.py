"""One simulated GitHub: what tests, the demo and benchmarks create, and what the API serves."""

import random
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path

from github_emulator.core.addresses import Addresses
from github_emulator.core.behaviour import Behaviour
from github_emulator.core.clock import Clock, ManualClock
from github_emulator.core.randomness import Randomness
from github_emulator.core.schedule import Schedule
from github_emulator.core.timings import Timings
from github_emulator.domain.accounts.app_manifests import AppManifests
from github_emulator.domain.accounts.device_codes import DeviceCodes
from github_emulator.domain.accounts.repositories import RepositorySettings
from github_emulator.domain.accounts.teams import Teams
from github_emulator.domain.accounts.user_authorizations import UserAuthorizations
from github_emulator.domain.domain import Domain
from github_emulator.events.context import Context
from github_emulator.events.event_bus import EventBus
from github_emulator.facade.pull_request_handle import PullRequestHandle
from github_emulator.facade.repository_handle import RepositoryHandle
from github_emulator.payloads.source import Source
from github_emulator.state import Actor, App, Installation, Repository, State, Team, User
from github_emulator.webhooks.webhooks import Webhooks


class GitHub(Domain):
    """A whole GitHub. The same seed, clock and actions give the same SHAs and ids.

    `behaviour` and `timings` may be changed at any time, and `webhooks.faults` says what becomes of deliveries.
    `state` has every record, and `schedule` what is planned. People act by the handles; for what these do not have,
    parts such as `accounts`, `checks` and `conversation` do what the API does, each for an `actor`.

    A server sets `addresses` to its own. Close it in the end: it holds a directory and, once a webhook left,
    connections.
    """

    def __init__(self, clock: Clock | None = None, *, seed: int = 0, directory: Path | None = None) -> None:
        self._temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="github-emulator-"))
        self.clock = clock or ManualClock()
        self.schedule = Schedule(self.clock)
        self.timings = Timings()
        self.behaviour = Behaviour()
        self.addresses = Addresses()
        self.state = State()
        context = Context(
            clock=self.clock,
            schedule=self.schedule,
            randomness=Randomness(seed),
            timings=self.timings,
            behaviour=self.behaviour,
            addresses=self.addresses,
            state=self.state,
            events=EventBus(),
        )
        super().__init__(context, self.directory)
        self.app_manifests = AppManifests(context, accounts=self.accounts)
        self.user_authorizations = UserAuthorizations(context)
        self.device_codes = DeviceCodes(context)
        self.teams = Teams(context)
        self.source = Source.of(self)
        self.webhooks = Webhooks(context, self.source)

    # Accounts

    def create_user(self, login: str, kind: str = "User") -> User:
        """A person, or with `kind` an Organization."""
        return self.accounts.create_user(login, kind)

    def create_team(self, organisation: str, name: str, *members: str, parent: Team | None = None) -> Team:
        """A team of an organisation with these people, who are created if missing."""
        account = self.accounts.user_or_new(organisation)
        actor = Actor(account)
        team = self.teams.create(account, name, parent, actor=actor)
        for login in members:
            self.teams.add(team, self.accounts.user_or_new(login), actor=actor)
        return team

    def create_app(
        self,
        slug: str,
        *,
        permissions: Mapping[str, str],
        events: Iterable[str] = (),
        webhook_url: str | None = None,
        webhook_secret: str = "",
    ) -> App:
        """A GitHub App; `app.private_key` signs its tokens. Without a URL no webhook leaves."""
        return self.accounts.create_app(slug, permissions, events, webhook_url, webhook_secret)

    def install(
        self,
        app: App,
        owner_login: str,
        *,
        repositories: Iterable[str] | None = None,
        permissions: Mapping[str, str] | None = None,
    ) -> Installation:
        """Install an app on an account: on all repositories or these (`owner/name`), with all it asks for or less."""
        chosen = None if repositories is None else [self.must_find(name) for name in repositories]
        return self.accounts.install(app, self.accounts.user_or_new(owner_login), chosen, permissions)

    def user(self, login: str) -> User:
        """An account. Raises NotFound."""
        return self.accounts.user(login)

    def actor(self, login: str) -> Actor:
        """An account that acts. Raises NotFound."""
        return self.accounts.actor(login)

    # Repositories

    def create_repository(
        self,
        full_name: str,
        *,
        files: Mapping[str, str],
        private: bool = True,
        default_branch: str = "main",
        collaborators: Mapping[str, str] | None = None,
        allow_merge_commit: bool = True,
        allow_squash_merge: bool = True,
        allow_rebase_merge: bool = True,
    ) -> RepositoryHandle:
        """A repository with one commit of its owner. Owner and collaborators (login -> role) are created if missing."""
        settings = RepositorySettings(
            private, default_branch, collaborators or {}, allow_merge_commit, allow_squash_merge, allow_rebase_merge
        )
        return RepositoryHandle(self, self.repositories.create(full_name, files, settings))

    def find_repository(self, full_name: str) -> Repository | None:
        """A repository's record by `owner/name`; None when there is none."""
        return self.repositories.find(full_name)

    def must_find(self, full_name: str) -> Repository:
        """A repository's record. Raises NotFound."""
        return self.repositories.must_find(full_name)

    def repository(self, full_name: str) -> RepositoryHandle:
        """What people do to a repository. Raises NotFound."""
        return RepositoryHandle(self, self.must_find(full_name))

    def pull(self, full_name: str, number: int) -> PullRequestHandle:
        """What people do to a pull request. Raises KeyError for an unknown number."""
        return PullRequestHandle(self, self.must_find(full_name).pulls[number])

    # Time and randomness

    def random(self, purpose: str) -> random.Random:
        """Random numbers of one purpose, the same for the same seed."""
        return self.context.randomness.of(purpose)

    async def settle(self) -> int:
        """Run everything that is due now, webhooks included. Returns how many things ran."""
        return await self.schedule.run_due()

    async def advance(self, duration: timedelta) -> int:
        """Let time pass on a ManualClock, and everything happen that is planned for it."""
        return await self.schedule.advance(duration)

    async def close(self) -> None:
        """Stop what is under way, close connections, remove the directory if it was a temporary one."""
        await self.schedule.close()
        await self.webhooks.close()
        for repository in self.state.repositories.values():
            repository.git.close()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)
