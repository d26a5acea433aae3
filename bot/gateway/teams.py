"""Read the members of an owner's teams, which only the organisation's permission `members: read` shows.

Without that permission IMQ counts no member, and says which team it cannot read.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from pydantic import BaseModel

from bot.gateway.http.answers import parse_list
from bot.gateway.http.client import Call
from bot.gateway.http.connection import Connection
from bot.gateway.http.scopes import Purpose, Scope
from queue_engine.config.model import Policy
from queue_engine.domain.errors import Forbidden, NotFound
from queue_engine.domain.model import Repository

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


class _MemberAnswer(BaseModel):
    login: str


class _OwnerAnswer(BaseModel):
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
