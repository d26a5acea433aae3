"""The API as one application, which stands under `/api/v1` of the whole."""

from aiohttp import web

from bot.api.auth import authentication
from bot.api.dead_letters import DeadLetterRoutes
from bot.api.errors import telling_errors
from bot.api.idempotent import idempotency
from bot.api.queue import QueueRoutes
from queue_engine.engine import Engine

PREFIX = "/api/v1"
"""Where the API stands; what is published under it stays as it is."""


def create_api(engine: Engine) -> web.Application:
    """The API's routes, behind what holds for all of them: errors as JSON, a known caller, calls done once."""
    app = web.Application(middlewares=[telling_errors, authentication(engine.store, engine.clock), idempotency(engine)])
    app.add_routes([*DeadLetterRoutes(engine).routes(), *QueueRoutes(engine).routes()])
    return app
