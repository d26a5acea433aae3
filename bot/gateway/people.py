"""Read accounts, the members of teams, and permissions of people and tokens.

After a rename anyone can take the old login (bors-ng #769, dwf-request #25), while an id stays: callers compare ids.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bot.gateway import conversions
from bot.gateway.http.client import Call, parse_list
from bot.gateway.http.connection import Connection
from bot.gateway.http.scopes import Purpose, Scope, Target
from bot.gateway.schemas import PermissionAnswer
from queue_engine.config.model import Policy
from queue_engine.core.read_model import ReadModel
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import Forbidden, NotFound
from queue_engine.domain.facts import Actor, Permission, Snapshot
from queue_engine.domain.model import Repository
from queue_engine.domain.port import GitHubPorts, SnapshotRequest
from queue_engine.known.own_writes import Forwarding
from queue_engine.store import Store
from queue_engine.store.known import changed_teams
from queue_engine.store.repositories import ConfigFile
from queue_engine.store.tokens import service_name


class _AccountAnswer(ReadModel):
    id: int
    login: str


class _CollaboratorAnswer(PermissionAnswer):
    user: _AccountAnswer | None = None


class People:
    """Reads accounts by an installation's token. Raises the errors of `queue_engine.domain.errors`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def collaborator(self, repository: Repository, login: str) -> tuple[Actor | None, Permission]:
        """Read `GET /repositories/{id}/collaborators/{username}/permission`: the account and its permission.

        By id, as every such call can be made (octokit.net #1120, travis-api #836): after a rename the name
        is free, and the person who takes it administers another repository.

        GitHub's answer for a public repository is `read` (aws-ia resource-providers #14, github-oauth-plugin #17).
        The account is None if it is unknown.
        """
        template = "/repositories/{repository_id}/collaborators/{username}/permission"
        variables = {"repository_id": str(repository.id), "username": login}
        try:
            answer = await self._connection.get(repository, _CollaboratorAnswer, template, variables, fresh=True)
        except NotFound:
            return None, Permission.NONE
        user = answer.user
        return None if user is None else Actor(user.id, user.login), conversions.permission(answer)

    async def by_login(self, installation_id: int, login: str) -> Actor | None:
        """Read `GET /users/{username}`; None if no account has this login."""
        return await self._account(installation_id, "/users/{username}", {"username": login})

    async def by_id(self, target: Target, person_id: int) -> Actor | None:
        """`GET /user/{account_id}` (also github3.py #949, php-github-api #894). None if the account was deleted."""
        return await self._account(target, "/user/{account_id}", {"account_id": str(person_id)})

    async def _account(self, target: Target, template: str, variables: Mapping[str, str]) -> Actor | None:
        try:
            answer = await self._connection.get(target, _AccountAnswer, template, variables, fresh=True)
        except NotFound:
            return None
        return Actor(answer.id, answer.login)


_MOST_PAGES = 10
"""Pages of a hundred members each: more people than should have the right to queue."""


@dataclass(frozen=True, slots=True)
class Team:
    """The members of a team, casefolded, or why IMQ cannot read them."""

    members: frozenset[str] = frozenset()
    unread: str | None = None
    no_teams: bool = False
    """Whether the owner is a personal account, which has no teams."""


ReadTeam = Callable[[Repository, str], Awaitable[Team]]


class _MemberAnswer(ReadModel):
    login: str


class _OwnerAnswer(ReadModel):
    type: str = ""


class Teams:
    """Reads teams by an installation's token. Raises the errors of `queue_engine.domain.errors`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def team(self, repository: Repository, slug: str) -> Team:
        """Read `GET /orgs/{org}/teams/{team_slug}/members`, with the members of child teams (docs, "List team
        members").

        Without the permission GitHub answers 403, or 404 as for an unknown team (pozil/auto-assign-issue #91).
        """
        target = Scope(repository.installation_id, None, Purpose.TEAMS)
        variables = {"org": repository.owner, "team_slug": slug, "per_page": "100"}
        call = Call("GET", "/orgs/{org}/teams/{team_slug}/members{?per_page}", variables)
        found: list[str] = []
        pages = 0
        try:
            async for page in self._connection.pages(target, call, "next"):
                found += [member.login.casefold() for member in parse_list(_MemberAnswer, page.data)]
                pages += 1
                if pages == _MOST_PAGES and "next" in page.links:
                    return Team(unread=f"it has more than {_MOST_PAGES * 100} members")
        except (Forbidden, NotFound) as refusal:
            return await self._unread(repository, refusal)
        return Team(frozenset(found))

    async def _unread(self, repository: Repository, refusal: Forbidden | NotFound) -> Team:
        lacked = "members" in self._connection.missing(repository.installation_id)
        if lacked or isinstance(refusal, Forbidden):
            return Team(unread="its App lacks the permission members: read")
        answer = await self._connection.get(
            repository.installation_id, _OwnerAnswer, "/users/{username}", {"username": repository.owner}
        )
        if answer.type == "User":
            return Team(no_teams=True)
        return Team(unread="GitHub knows no such team, or its App lacks the permission members: read")


async def with_teams(policy: Policy, repository: Repository, read: ReadTeam, *, file: str) -> Policy:
    """Return the policy with the members of the teams that may queue; those that IMQ cannot read count as empty.

    The owner of the repository has the teams: IMQ sees no other's. A personal account has none, which is a fault of
    the `file`.
    """
    members, unread = set[str](), list[str]()
    for name, slug in _slugs(policy.who_may_queue.teams, repository.owner):
        if slug is None:
            unread.append(f"IMQ cannot read the members of {name}: the team is not of {repository.owner}")
            continue
        team = await read(repository, slug)
        if team.no_teams:
            fault = f"{file}: who_may_queue.teams names teams, but {repository.owner} is a personal account without any"
            return replace(policy, fault=policy.fault or fault)
        if team.unread is not None:
            unread.append(f"IMQ cannot read the members of {name}: {team.unread}")
        members |= team.members
    return replace(policy, team_members=frozenset(members), unread_teams=tuple(unread))


def _slugs(teams: Iterable[str], owner: str) -> Iterable[tuple[str, str | None]]:
    """Return each team with its owner, and its slug; None if another owner has it."""
    for team in sorted(teams):
        of, _, slug = team.rpartition("/")
        if of in ("", owner.casefold()):
            yield f"{owner}/{slug}", slug
        else:
            yield team, None


_CACHED_FOR = timedelta(hours=1)
_UNREAD_FOR = timedelta(minutes=10)
"""How long IMQ waits before it reads a team again that it could not read."""
_LAG = timedelta(seconds=10)


class KnownTeams:
    """Adds the members of teams to policies. Raises GitHubError.

    Without the permission to read a team IMQ counts no member, and says which team it cannot read. It remembers members
    for an hour, in the database that all processes share. A webhook about teams ends what was read before. GitHub's
    reads may lag behind it, so that a read soon after it counts for a short time only.
    """

    def __init__(self, read: ReadTeam, store: Store, clock: Clock) -> None:
        self._read = read
        self._store = store
        self._clock = clock

    async def apply(self, policy: Policy, repository: Repository, *, file: str) -> Policy:
        """Return the policy with the members of its teams; without teams this reads nothing."""
        if not policy.who_may_queue.teams:
            return policy
        return await with_teams(policy, repository, self._team, file=file)

    async def _team(self, repository: Repository, slug: str) -> Team:
        row, now = f"team:{repository.installation_id}:{repository.owner.casefold()}:{slug}", self._clock.now()
        async with self._store.reading() as tx:
            changed = await tx.sweeps.last(changed_teams(repository.installation_id))
            found = await tx.configuration_files.find(row, 0, since=_since(now, changed, _CACHED_FOR))
            if found is not None and found.text is None:
                found = await tx.configuration_files.find(row, 0, since=_since(now, changed, _UNREAD_FOR))
        if found is not None:
            return _team_of(found)
        team = await self._read(repository, slug)
        await self._store.write(lambda tx: tx.configuration_files.put(row, 0, _row_of(team), now))
        return team


def _since(now: datetime, changed: datetime | None, cached_for: timedelta) -> datetime:
    """Return since when a read counts. In the seconds after a change any read since counts, but not afterwards."""
    oldest = now - cached_for
    if changed is None:
        return oldest
    settled = changed + _LAG
    return max(oldest, settled if now >= settled else changed)


def _row_of(team: Team) -> ConfigFile:
    if team.unread is None and not team.no_teams:
        return ConfigFile(json.dumps(sorted(team.members)))
    return ConfigFile(None, json.dumps({"unread": team.unread, "no_teams": team.no_teams}))


def _team_of(row: ConfigFile) -> Team:
    if row.text is not None:
        return Team(frozenset(json.loads(row.text)))
    return Team(**json.loads(row.unreadable or "{}"))


class TokenPermissions(Forwarding):
    """Forwards to GitHub, except for permissions of tokens.

    Before a merge the engine reads the permission of the person who queued the pull request again. The operator grants
    a token's permission, which ends with the token: a pull request that a revoked token queued does not land.
    """

    def __init__(self, github: GitHubPorts, store: Store, clock: Clock) -> None:
        super().__init__(github)
        self._store = store
        self._clock = clock

    async def permission(self, repository: Repository, login: str) -> Permission:
        if (name := service_name(login)) is None:
            return await self._github.permission(repository, login)
        token = await self._store.read(lambda tx: tx.tokens.named(name, self._clock.now()))
        if token is None or not token.grant.service or not token.grant.covers(repository):
            return Permission.NONE
        return token.grant.access

    async def snapshot(
        self, repository: Repository, number: int, *, login: str | None, head_sha: str | None = None
    ) -> Snapshot:
        if login is None or service_name(login) is None:
            return await self._github.snapshot(repository, number, login=login, head_sha=head_sha)
        found = await self._github.snapshot(repository, number, login=None, head_sha=head_sha)
        return replace(found, permission=await self.permission(repository, login))

    async def snapshots(self, repository: Repository, requests: Sequence[SnapshotRequest]) -> Mapping[int, Snapshot]:
        services = {each.number: each.login for each in requests if service_name(each.login) is not None}
        asked = [replace(each, login="") if each.number in services else each for each in requests]
        found = dict(await self._github.snapshots(repository, asked))
        for number in found.keys() & services.keys():
            found[number] = replace(found[number], permission=await self.permission(repository, services[number]))
        return found
