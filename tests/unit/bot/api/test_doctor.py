"""`GET /api/v1/doctor`: the findings of `imq doctor`, for operators alone."""

import pytest
from aiohttp import web

from bot.api.finding import Report
from bot.api.operator_routes import DoctorRoutes
from queue_engine.core.database.database import Database
from queue_engine.store import Store
from tests.unit.bot.api.api_server import ApiServer, an_api_server

REPORT = Report((), ("acme/rocket",))


async def examine(repository: str | None) -> Report:
    """A report about one repository."""
    if repository == "acme/unknown":
        raise LookupError("The App does not see acme/unknown.")
    return REPORT


def routes(_server: ApiServer) -> list[web.RouteDef]:
    return [web.get("/examined", route.handler) for route in DoctorRoutes(examine).routes()]


@pytest.mark.parametrize(
    ("query", "by", "status"),
    [
        ("", "ops", 200),
        ("?repository=acme/rocket", "ops", 200),
        ("?repository=acme/unknown", "ops", 404),
        ("?repository=rocket", "ops", 400),
        ("", "reader", 403),
        ("", None, 401),
    ],
)
async def test_examination_is_for_operators_and_known_repositories(
    sqlite_database: Database, query: str, by: str | None, status: int
) -> None:
    """Findings name repositories, so only operators read them."""
    async with an_api_server(Store(sqlite_database), routes) as server:
        if by == "reader":
            await server.token(by, login="mona")
        answer = await server.call("GET", f"/examined{query}", by=by)
    assert answer.status == status
    if status == 200:
        assert (answer.body["findings"], answer.body["repositories"]) == ([], ["acme/rocket"])
