"""The pages of registration. A running IMQ serves the last of them, without what the steps before need."""

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from bot.web.pages.render import as_sentence, page


def step_page(step: str, *, status: int = 200, **context: Any) -> web.Response:
    """Return the page of one step. Its forms send to IMQ alone."""
    return page("registration.html", status=status, step=step, **context)


def hand_over_page(target: str, origin: str, manifest: dict[str, Any]) -> web.Response:
    """Return the page whose form sends the manifest to GitHub at `origin`, which takes it only from a person."""
    shown = step_page("hand_over", target=target, origin=origin, manifest=manifest)
    policy = shown.headers["Content-Security-Policy"]
    shown.headers["Content-Security-Policy"] = policy.replace("form-action 'self'", f"form-action 'self' {origin}")
    shown.headers["Referrer-Policy"] = "strict-origin"
    return shown


def failure_page(sentence: str, *, status: int, again: str = "/setup") -> web.Response:
    """Return what went wrong, with a link to try again."""
    return step_page("failure", status=status, sentence=as_sentence(sentence), again=again)


class InstalledPage:
    """`GET /setup/installed`, for everybody: whether webhooks arrive, without names of the App or repositories."""

    def __init__(self, delivered: Callable[[], Awaitable[bool]]) -> None:
        """`delivered` returns whether any webhook has arrived."""
        self._delivered = delivered

    async def handle(self, _request: web.Request) -> web.Response:
        """Answer 200; until a webhook has arrived, the page reloads itself."""
        return step_page("ready" if await self._delivered() else "waiting")
