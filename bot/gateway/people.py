"""Read accounts and permissions for the API, whose callers act for people.

After a rename anyone can take the old login (bors-ng #769, dwf-request #25), while an id stays: callers compare ids.
"""

from collections.abc import Mapping

from bot.gateway import facts
from bot.gateway.http.connection import Connection
from bot.gateway.schemas import PermissionAnswer
from queue_engine.core.read_model import ReadModel
from queue_engine.domain.errors import NotFound
from queue_engine.domain.facts import Actor, Permission
from queue_engine.domain.model import Repository


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
        return None if user is None else Actor(user.id, user.login), facts.permission(answer)

    async def by_login(self, installation_id: int, login: str) -> Actor | None:
        """Read `GET /users/{username}`; None if no account has this login."""
        return await self._account(installation_id, "/users/{username}", {"username": login})

    async def by_id(self, installation_id: int, person_id: int) -> Actor | None:
        """`GET /user/{account_id}`, in the reference as "Get a user using their ID"; long before that in use
        (github3.py #949, php-github-api #894). None if the account was deleted."""
        return await self._account(installation_id, "/user/{account_id}", {"account_id": str(person_id)})

    async def _account(self, installation_id: int, template: str, variables: Mapping[str, str]) -> Actor | None:
        try:
            answer = await self._connection.get(installation_id, _AccountAnswer, template, variables, fresh=True)
        except NotFound:
            return None
        return Actor(answer.id, answer.login)
