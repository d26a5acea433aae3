"""`/api/v1/repositories/{owner}/{repo}/shadow`: what IMQ would have done in a repository in shadow mode."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from aiohttp import web

from bot.api import request_scope
from bot.api.access import Access
from bot.api.payload import AnswerModel, Instant, Payload, json_data, query
from bot.api.routes import Caller, Route
from queue_engine.domain.model import RepositoryName
from queue_engine.domain.shadow_pull import ShadowAction, ShadowLanding
from queue_engine.effects.context import Engine
from queue_engine.queries.shadow_report import ShadowFigures, load_shadow_report

USUAL = timedelta(days=30)
"""The time that a report covers without `since`."""


class ShadowQuery(Payload):
    """Parameters of a report."""

    since: Instant | None = None


class ShadowPullAnswer(AnswerModel):
    """A pull request: when and by whom the label was set, what IMQ decided, and its landing, where there are any."""

    repository: RepositoryName
    number: int
    title: str
    base_branch: str
    enqueued_at: datetime | None
    queued_by: str | None
    decision: ShadowAction | None
    landing: ShadowLanding | None


class ShadowAnswer(AnswerModel):
    """A report. `repositories` are those in shadow mode now; their former merges and decisions stay for 90 days.

    Durations of `figures` are in seconds, and null without a pull request.
    """

    since: datetime
    repositories: tuple[RepositoryName, ...]
    figures: ShadowFigures
    pulls: tuple[ShadowPullAnswer, ...]


class ShadowRoutes:
    """The route of the report."""

    def __init__(self, engine: Engine, access: Access) -> None:
        self._engine = engine
        self._access = access

    def routes(self) -> Sequence[Route]:
        """List the route."""
        return [
            Route(
                "GET",
                f"{request_scope.REPOSITORY}/shadow",
                self.show,
                "show_shadow_report",
                "Shows what IMQ would have done in shadow mode, beside what people did.",
                caller=Caller.READER,
                query=ShadowQuery,
                answers={200: ShadowAnswer},
                refusals=(422,),
                variables=request_scope.VARIABLES,
            )
        ]

    async def show(self, request: web.Request) -> web.Response:
        """Answer 200, for the last 30 days without `since`; 404: the repository is hidden; 422: no instant."""
        repository = await self._access.readable(request)
        since = query(request, ShadowQuery).since or self._engine.clock.now() - USUAL
        async with self._engine.store.reading() as tx:
            report = await load_shadow_report(tx, since, repository=repository)
        return web.json_response(json_data(ShadowAnswer.model_validate(report)))
