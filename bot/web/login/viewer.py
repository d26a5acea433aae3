"""The person at the browser, as pages and access checks know them."""

from dataclasses import dataclass

from aiohttp import web

from bot.api.auth import ANONYMOUS as NO_PERSON
from bot.api.auth import act_as
from queue_engine.store.tokens import Token


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks at a page. `token` has the permissions of the person, for `bot.api.access.Access`."""

    token: Token
    csrf: str = ""
    """What each form of this session sends as its field `csrf`; empty without a session."""

    @property
    def login(self) -> str | None:
        """The login on GitHub; None for a person who is not logged in."""
        return self.token.grant.login

    @property
    def person_id(self) -> int | None:
        """GitHub's id of the person; None for a person who is not logged in."""
        return self.token.grant.person_id

    @property
    def operator(self) -> bool:
        """Whether this person runs IMQ: IMQ_OPERATORS names them."""
        return self.token.grant.operator

    @property
    def logged_in(self) -> bool:
        """Whether there is a session."""
        return self.person_id is not None


ANONYMOUS = Viewer(NO_PERSON)
"""A person who is not logged in."""

_VIEWER: web.RequestKey[Viewer] = web.RequestKey("viewer", Viewer)


def viewer(request: web.Request) -> Viewer:
    """Return who looks at a page."""
    return request[_VIEWER]


def view_as(request: web.Request, who: Viewer) -> None:
    """Record who looks, for the page and for access checks."""
    request[_VIEWER] = who
    act_as(request, who.token)
