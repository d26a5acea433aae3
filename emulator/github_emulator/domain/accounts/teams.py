"""Teams of organisations: who is in which."""

from collections.abc import Iterator

from github_emulator.core.errors import NotFound
from github_emulator.events.context import Context
from github_emulator.events.events import MembershipChanged, TeamChanged
from github_emulator.state import Actor, Team, User


class Teams:
    """Creates and deletes teams, and changes who is in them. Each change sends a webhook."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def create(self, organisation: User, name: str, parent: Team | None, *, actor: Actor) -> Team:
        """A new team without members; the slug is made of its name."""
        slug = name.lower().replace(" ", "-")
        team = Team(self._context.state.next_id("team"), organisation, name, slug, parent)
        self._context.state.teams[f"{organisation.login}/{slug}".lower()] = team
        self._context.events.publish(TeamChanged(team, "created", actor))
        return team

    def find(self, organisation: str, slug: str) -> Team:
        """A team. Raises NotFound."""
        team = self._context.state.teams.get(f"{organisation}/{slug}".lower())
        if team is None:
            raise NotFound()
        return team

    def delete(self, team: Team, *, actor: Actor) -> None:
        """Delete a team; its child teams stay, without a parent."""
        del self._context.state.teams[f"{team.organisation.login}/{team.slug}".lower()]
        for other in self._context.state.teams.values():
            if other.parent is team:
                other.parent = None
        self._context.events.publish(TeamChanged(team, "deleted", actor))

    def add(self, team: Team, member: User, *, actor: Actor) -> None:
        """Put a person into a team."""
        if member not in team.direct_members:
            team.direct_members.append(member)
            self._context.events.publish(MembershipChanged(team, "added", actor, member))

    def remove(self, team: Team, member: User, *, actor: Actor) -> None:
        """Take a person out of a team. Raises NotFound if the person is not in it."""
        if member not in team.direct_members:
            raise NotFound()
        team.direct_members.remove(member)
        self._context.events.publish(MembershipChanged(team, "removed", actor, member))

    def members(self, team: Team) -> list[User]:
        """The members, with those of child teams (docs, "List team members"; octokit.js #579)."""
        found = dict.fromkeys(member for each in self._with_children(team) for member in each.direct_members)
        return list(found)

    def _with_children(self, team: Team) -> Iterator[Team]:
        yield team
        for child in self._context.state.teams.values():
            if child.parent is team:
                yield from self._with_children(child)
