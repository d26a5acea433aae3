"""Users, apps and installations: who there is, and who may do what."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from github_emulator.core.errors import Forbidden, NotFound
from github_emulator.core.git import Signature
from github_emulator.core.keys import KeyPair
from github_emulator.domain.accounts.repository_paths import RepositoryPaths
from github_emulator.events.context import Context
from github_emulator.events.events import AccountRenamed, InstallationChanged, RepositorySelectionChanged
from github_emulator.state import ROLES, Actor, App, Installation, Repository, User

_REFUSALS = {
    "read": "Must have read access to repository.",
    "triage": "Must have triage access to repository.",
    "write": "Must have push access to repository.",
    "maintain": "Must have maintain rights to Repository.",
    "admin": "Must have admin rights to Repository.",
}

_KNOWN_IDS = {"github-actions": 15368}
"""The ids that Apps of GitHub's own have on github.com (rust-lang/team #2200, terraform-provider-github #2474)."""


class Accounts:
    """Creates accounts and answers what they may do."""

    def __init__(self, context: Context, *, paths: RepositoryPaths) -> None:
        self._context = context
        self._events = context.events
        self._paths = paths
        self.members_shown = False
        """Whether who reads at this moment may see the private members of organisations."""
        self.web_flow = self.create_user("web-flow")
        """GitHub's own account, the committer of what is merged through its pages and its API."""

    @contextmanager
    def showing_members(self, shown: bool) -> Iterator[None]:
        """What is read within shows private members, or does not."""
        before, self.members_shown = self.members_shown, shown
        try:
            yield
        finally:
            self.members_shown = before

    def create_user(self, login: str, kind: str = "User") -> User:
        """A new account. Raises ValueError when the login is taken."""
        state = self._context.state
        if login.lower() in state.users:
            raise ValueError(f"{login} exists already")
        user = User(state.next_id("user"), login, kind, self._context.clock.now())
        state.users[login.lower()] = user
        return user

    def user(self, login: str) -> User:
        """An account by its login. Raises NotFound."""
        user = self._context.state.users.get(login.lower())
        if user is None:
            raise NotFound()
        return user

    def user_or_new(self, login: str) -> User:
        """An account by its login, created as a person when it is missing."""
        return self._context.state.users.get(login.lower()) or self.create_user(login)

    def create_app(
        self, slug: str, permissions: Mapping[str, str], events: Iterable[str], webhook_url: str | None, secret: str
    ) -> App:
        """A new app with a bot of its own. `metadata: read` comes with every app."""
        state = self._context.state
        app_id = _KNOWN_IDS.get(slug) or state.next_id("app")
        app = App(
            id=app_id,
            slug=slug,
            client_id=f"Iv23li{app_id:014d}",
            owner=self.user_or_new("app-owner"),
            bot=self.create_user(f"{slug}[bot]", "Bot"),
            permissions={"metadata": "read"} | dict(permissions),
            events=frozenset(events),
            webhook_url=webhook_url,
            webhook_secret=secret,
            key=KeyPair(),
            hook_id=state.next_id("hook"),
            created_at=self._context.clock.now(),
        )
        state.apps[app.id] = app
        return app

    def app_for(self, slug: str, repository: Repository) -> App:
        """The app of a CI, created when there is none, and installed where the repository is."""
        app = next((app for app in self._context.state.apps.values() if app.slug == slug), None)
        needs = {"checks": "write", "statuses": "write", "contents": "read"}
        app = app or self.create_app(slug, needs, (), None, "")
        if all(installation.app is not app for installation in self._context.state.installations_of(repository)):
            self.install(app, repository.owner)
        return app

    def install(
        self,
        app: App,
        account: User,
        repositories: Iterable[Repository] | None = None,
        permissions: Mapping[str, str] | None = None,
    ) -> Installation:
        """Install an app on an account, on all or some of its repositories, and send the webhook."""
        now = self._context.clock.now()
        granted = dict(app.permissions if permissions is None else {"metadata": "read"} | dict(permissions))
        chosen = None if repositories is None else {repository.id for repository in repositories}
        installation_id = self._context.state.next_id("installation")
        installation = Installation(installation_id, app, account, chosen, granted, now, now)
        self._context.state.installations[installation.id] = installation
        self._events.publish(InstallationChanged(installation, "created", self._repositories_of(installation)))
        return installation

    def accept_permissions(self, installation: Installation, permissions: Mapping[str, str]) -> None:
        """The account's owner grants the permissions that the app now asks for, and send the webhook."""
        installation.permissions |= dict(permissions)
        self._events.publish(
            InstallationChanged(installation, "new_permissions_accepted", self._repositories_of(installation))
        )

    def rename(self, account: User, login: str) -> None:
        """Rename an account: its repositories get other paths, and its installations' apps get webhooks."""
        state, before = self._context.state, account.login
        owned = [repository for repository in state.repositories.values() if repository.owner is account]
        for repository in owned:
            self._paths.move(repository, f"{login}/{repository.name}")
        state.users[login.lower()] = state.users.pop(before.lower())
        account.login = login
        for repository in state.repositories.values():
            # A renamed person keeps their roles: "Changing your username" names what is lost, and no access is.
            if before in repository.collaborators:
                repository.collaborators[login] = repository.collaborators.pop(before)
        for installation in [each for each in state.installations.values() if each.account is account]:
            self._events.publish(AccountRenamed(installation, before))

    def delete(self, account: User) -> None:
        """Delete a person's account; there is no webhook. What it wrote stays (docs, "Deleting your account")."""
        state = self._context.state
        del state.users[account.login.lower()]
        account.deleted = True
        for repository in state.repositories.values():
            repository.collaborators.pop(account.login, None)

    def uninstall(self, installation: Installation) -> None:
        """Remove an installation, and send the webhook."""
        before = self._repositories_of(installation)
        del self._context.state.installations[installation.id]
        self._events.publish(InstallationChanged(installation, "deleted", before))

    def suspend(self, installation: Installation, suspended: bool = True) -> None:
        """Suspend an installation, or end its suspension, and send the webhook."""
        before = self._repositories_of(installation)
        installation.suspended_at = self._context.clock.now() if suspended else None
        self._events.publish(InstallationChanged(installation, "suspend" if suspended else "unsuspend", before))

    def select(self, installation: Installation, repositories: Iterable[Repository]) -> None:
        """Limit an installation to these repositories, and send webhooks with those added and removed."""
        before = self._repositories_of(installation)
        after = list(repositories)
        installation.repositories = {repository.id for repository in after}
        added = [repository for repository in after if repository not in before]
        removed = [repository for repository in before if repository not in after]
        for came, went in ((added, []), ([], removed)):
            if came or went:
                self._events.publish(RepositorySelectionChanged(installation, came, went))

    def announce(self, repository: Repository) -> None:
        """Tell the apps that see all of an account's repositories that there is a new one."""
        for installation in self._context.state.installations_of(repository):
            self._events.publish(RepositorySelectionChanged(installation, [repository], []))

    def actor(self, login: str) -> Actor:
        """Somebody who acts: a person, or an app with its own permissions. Raises NotFound."""
        user = self.user(login)
        app = next((app for app in self._context.state.apps.values() if app.bot is user), None)
        return Actor(user, app, dict(app.permissions) if app else None)

    def role(self, user: User, repository: Repository) -> str:
        """A person's role, none to admin. Everyone reads what is public."""
        if user is repository.owner:
            return "admin"
        return repository.collaborators.get(user.login, "none" if repository.private else "read")

    def has_role(self, user: User, repository: Repository, role: str) -> bool:
        """Whether a person's role is this one or stronger."""
        return ROLES.index(self.role(user, repository)) >= ROLES.index(role)

    def require_role(self, actor: Actor, repository: Repository, role: str) -> None:
        """Raise NotFound or Forbidden when a person lacks a role. Apps have permissions instead: always passed."""
        if actor.app is not None or self.has_role(actor.user, repository, role):
            return
        if not self.has_role(actor.user, repository, "read"):
            raise NotFound()
        raise Forbidden(_REFUSALS[role])

    def account_of(self, who: Signature) -> User | None:
        """The account that a commit's address belongs to."""
        if who.email == "noreply@github.com":
            return self.web_flow
        login = who.email.partition("@")[0].partition("+")[2]
        return self._context.state.users.get(login.lower())

    def _repositories_of(self, installation: Installation) -> list[Repository]:
        return [
            repository for repository in self._context.state.repositories.values() if installation.covers(repository)
        ]
