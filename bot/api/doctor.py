"""`/api/v1/doctor`: the findings of `imq doctor`. For operators."""

from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web
from pydantic import Field

from bot.api.auth import operator
from bot.api.errors import ApiError
from bot.api.finding import Report
from bot.api.payload import Payload, json_data, query
from bot.api.routes import Caller, Route

Examine = Callable[[str | None], Awaitable[Report]]
"""Examines the installation, or of its repositories only the named one. Raises LookupError for an unknown one."""


class DoctorQuery(Payload):
    """Parameters of an examination."""

    repository: str | None = Field(None, pattern=r"^[^/\s]{1,100}/[^/\s]{1,100}$")


class DoctorRoutes:
    """The route that examines the installation."""

    def __init__(self, examine: Examine | None) -> None:
        """`examine` is None only where the routes are described, and not served."""
        self._examine = examine

    def routes(self) -> Sequence[Route]:
        """List the route."""
        return [
            Route(
                "GET",
                "/doctor",
                self.show,
                "examine_installation",
                "Examines settings, database, App and repositories.",
                caller=Caller.OPERATOR,
                query=DoctorQuery,
                answers={200: Report},
                refusals=(404,),
            )
        ]

    async def show(self, request: web.Request) -> web.Response:
        """Answer 200 with the findings, or 404 for a repository that the App does not see."""
        operator(request)
        assert self._examine is not None
        try:
            report = await self._examine(query(request, DoctorQuery).repository)
        except LookupError as problem:
            raise ApiError(404, str(problem)) from None
        return web.json_response(json_data(report))
