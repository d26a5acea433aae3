"""Remember the members of teams for an hour, in the database that all processes share.

A webhook about teams ends what was read before. GitHub's reads may lag behind it, so that a read soon after it counts
for a short time only.
"""

import json
from datetime import datetime, timedelta

from bot.gateway.teams import ReadTeam, Team, with_teams
from queue_engine.config.model import Policy
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.model import Repository
from queue_engine.store import Store
from queue_engine.store.config_files import ConfigFile
from queue_engine.store.reconciler_state import changed_teams

_CACHED_FOR = timedelta(hours=1)
_UNREAD_FOR = timedelta(minutes=10)
"""How long IMQ waits before it reads a team again that it could not read."""
_LAG = timedelta(seconds=10)


class KnownTeams:
    """Adds the members of teams to policies. Raises GitHubError."""

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
        async with self._store.transaction() as tx:
            await tx.configuration_files.put(row, 0, _row_of(team), now)
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
