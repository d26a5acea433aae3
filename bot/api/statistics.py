"""`/api/v1/repositories/{owner}/{repo}/branches/{branch}/statistics`: what a queue did in a period."""

from collections.abc import Sequence

from aiohttp import web
from pydantic import Field

from bot.api import request_scope
from bot.api.access import Access
from bot.api.payload import Payload, json_data, query
from bot.api.routes import Caller, Route
from queue_engine.effects.context import Engine
from queue_engine.queries.statistics import MOST_DAYS, USUAL_DAYS, QueueStatistics, load_statistics, period
from queue_engine.store.departures import DepartureQuery

STATISTICS = f"{request_scope.BRANCH}/statistics"


class StatisticsQuery(Payload):
    """Parameters of statistics: the number of days, today included, in UTC."""

    days: int = Field(USUAL_DAYS, ge=1, le=MOST_DAYS)


class StatisticsRoutes:
    """The route of statistics."""

    def __init__(self, engine: Engine, access: Access) -> None:
        self._engine = engine
        self._access = access

    def routes(self) -> Sequence[Route]:
        """List the route."""
        return [
            Route(
                "GET",
                STATISTICS,
                self.show,
                "show_statistics",
                "Shows what a queue did in a period: waits, landings, reasons of leaving, flaky checks and CI time.",
                caller=Caller.READER,
                query=StatisticsQuery,
                answers={200: QueueStatistics},
                variables=request_scope.VARIABLES,
            )
        ]

    async def show(self, request: web.Request) -> web.Response:
        """Answer 200, for the last 30 days without `days`; 404: hidden repository, or no queue."""
        repository = await self._access.readable(request)
        branch = request_scope.branch_of(request)
        first, last = period(self._engine.clock.now(), query(request, StatisticsQuery).days)
        async with self._engine.store.reading() as tx:
            if await tx.queues.find(repository.id, branch) is None:
                raise request_scope.no_such_branch()
            wanted = DepartureQuery(first, last, frozenset({repository.id}), branch)
            found = await load_statistics(tx, wanted, repository)
        return web.json_response(json_data(found))
