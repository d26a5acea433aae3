"""The sandbox's GitHub: one state, the verbs on it, and the doors through which people and tests enter."""

import random
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path

from sandbox.accounts import Accounts
from sandbox.actions import Actions
from sandbox.async_merges import AsyncMerges
from sandbox.auto_merges import AutoMerges
from sandbox.behaviour import Behaviour
from sandbox.checks import Checks
from sandbox.clock import Clock, ManualClock
from sandbox.conversation import Conversation
from sandbox.errors import NotFound
from sandbox.git import Commit, Git, Signature
from sandbox.happenings import Happenings
from sandbox.history import History
from sandbox.merging import Merging
from sandbox.moves import Moves
from sandbox.people import RepositoryHandle
from sandbox.people_pulls import PullRequestHandle
from sandbox.pulls import Pulls
from sandbox.ref_rules import RefRules
from sandbox.refs import Refs
from sandbox.reviews import Reviews
from sandbox.rules import Rules
from sandbox.schedule import Schedule
from sandbox.stacks import Stacks
from sandbox.state import ZERO_SHA, Actor, App, Installation, Repository, State, User
from sandbox.tags import Tags
from sandbox.timings import Timings
from sandbox.webhooks import Webhooks


class GitHub:
    """A whole GitHub. The same seed, clock and actions give the same SHAs and ids.

    `api_url` and `html_url` are what links in answers start with; a server sets them to its own address.
    Close it in the end: it holds a directory and, once a webhook left, connections.
    """

    def __init__(self, clock: Clock | None = None, *, seed: int = 0, directory: Path | None = None) -> None:
        self.clock = clock or ManualClock()
        self.seed = seed
        self.api_url = "https://api.github.test"
        self.html_url = "https://github.test"
        self._temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="sandbox-"))
        self.schedule = Schedule(self.clock)
        self.timings = Timings()
        self.behaviour = Behaviour()
        self.state = State()
        self.history = History(self)
        self.webhooks = Webhooks(self)
        self.happenings = Happenings(self)
        self.accounts = Accounts(self)
        self.refs = Refs(self)
        self.tags = Tags(self)
        self.pulls = Pulls(self)
        self.stacks = Stacks(self)
        self.rules = Rules(self)
        self.ref_rules = RefRules(self)
        self.reviews = Reviews(self)
        self.checks = Checks(self)
        self.actions = Actions(self)
        self.merging = Merging(self)
        self.async_merges = AsyncMerges(self)
        self.auto_merges = AutoMerges(self)
        self.moves = Moves(self)
        self.conversation = Conversation(self)

    # Who there is

    def create_user(self, login: str, kind: str = "User") -> User:
        """A person, or with `kind` an Organization."""
        return self.accounts.create_user(login, kind)

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

    def role(self, user: User, repository: Repository) -> str:
        """A person's role on a repository: none, read, triage, write, maintain or admin."""
        return self.accounts.role(user, repository)

    def has_role(self, user: User, repository: Repository, role: str) -> bool:
        """Whether a person has this role or a stronger one."""
        return self.accounts.has_role(user, repository, role)

    def require_role(self, actor: Actor, repository: Repository, role: str) -> None:
        """Raise NotFound or Forbidden when a person lacks a role; apps are judged by their permissions instead."""
        self.accounts.require_role(actor, repository, role)

    def account_of(self, who: Signature) -> User | None:
        """The account that a commit's address belongs to."""
        if who.email == "noreply@github.com":
            return self.accounts.web_flow
        login = who.email.partition("@")[0].partition("+")[2]
        return self.state.users.get(login.lower())

    def verified(self, commit: Commit) -> bool:
        """Whether GitHub shows a commit's signature as verified: its author's, or its own on what it commits itself."""
        return commit.sha in self.state.signed or commit.committer.email == "noreply@github.com"

    # What there is

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
        login, _, name = full_name.partition("/")
        owner = self.accounts.user_or_new(login)
        people = {self.accounts.user_or_new(one).login: role for one, role in (collaborators or {}).items()}
        now = self.clock.now()
        git = Git.create(self.directory / login / f"{name}.git", default_branch)
        author = Signature(owner.login, owner.email, now)
        git.set_ref(f"heads/{default_branch}", git.write_commit(git.write_tree(None, files), (), "Start", author))
        repository = Repository(
            id=self.state.next_id("repository"),
            owner=owner,
            name=name,
            git=git,
            private=private,
            default_branch=default_branch,
            created_at=now,
            updated_at=now,
            pushed_at=now,
            allow_merge_commit=allow_merge_commit,
            allow_squash_merge=allow_squash_merge,
            allow_rebase_merge=allow_rebase_merge,
            collaborators=people,
        )
        self.state.repositories[full_name.lower()] = repository
        self.accounts.announce(repository)
        return RepositoryHandle(self, repository)

    def fork(self, repository: Repository, login: str) -> Repository:
        """A person's fork, created with the default branch when it is missing."""
        owner = self.accounts.user_or_new(login)
        full_name = f"{owner.login}/{repository.name}"
        if full_name.lower() not in self.state.repositories:
            now = self.clock.now()
            branch = repository.default_branch
            git = repository.git.fork(owner.login)
            git.set_ref(f"heads/{branch}", repository.git.branch(branch) or ZERO_SHA)
            fork_id = self.state.next_id("repository")
            fork = Repository(
                fork_id, owner, repository.name, git, repository.private, branch, now, now, now, parent=repository
            )
            self.state.repositories[full_name.lower()] = fork
        return self.state.repositories[full_name.lower()]

    def find_repository(self, full_name: str) -> Repository | None:
        """A repository's record by `owner/name`; None when there is none."""
        return self.state.repositories.get(full_name.lower())

    def must_find(self, full_name: str) -> Repository:
        """A repository's record. Raises NotFound."""
        repository = self.find_repository(full_name)
        if repository is None:
            raise NotFound()
        return repository

    def repository(self, full_name: str) -> RepositoryHandle:
        """The door through which people act on a repository. Raises NotFound."""
        return RepositoryHandle(self, self.must_find(full_name))

    def pull(self, full_name: str, number: int) -> PullRequestHandle:
        """The door through which people act on a pull request. Raises KeyError for an unknown number."""
        return PullRequestHandle(self, self.must_find(full_name).pulls[number])

    # Time and chance

    def random(self, purpose: str) -> random.Random:
        """Chance of its own for each purpose, so that one does not shift another."""
        return random.Random(f"{self.seed}/{purpose}")

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
