"""What a test in any language asks of the emulator itself, as JSON below `/_emulator`: people, faults, lag, time.

None of it exists on GitHub, so none of it is counted, limited or recorded. Who reaches the port may do all of it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from datetime import timedelta
from typing import Any

from aiohttp import web

from github_emulator.core.clock import ManualClock
from github_emulator.facade.github import GitHub
from github_emulator.rest.faults import Fault, Faults
from github_emulator.rest.lag import READ_KINDS, Lag
from github_emulator.rest.record import Requests

PREFIX = "/_emulator"
_FAULT = {each.name for each in fields(Fault) if each.init} - {"when"}
_WEBHOOK_FAULTS = ("drop", "double", "delay", "reorder")


class Control:
    """The pages of one server. `token_of` gives the token of a person by the login."""

    def __init__(
        self, github: GitHub, *, faults: Faults, lag: Lag, requests: Requests, token_of: Callable[[str], str]
    ) -> None:
        self._github = github
        self._faults = faults
        self._lag = lag
        self._requests = requests
        self._token_of = token_of

    def routes(self) -> list[web.RouteDef]:
        """What is asked, with the method of its address."""
        return [
            web.put(PREFIX + "/people/{login}", self._put_person),
            web.post(PREFIX + "/faults", self._add_fault),
            web.delete(PREFIX + "/faults", self._clear_faults),
            web.post(PREFIX + "/webhook-faults", self._add_webhook_fault),
            web.put(PREFIX + "/lag", self._set_lag),
            web.patch(PREFIX + "/behaviour", self._change_behaviour),
            web.post(PREFIX + "/time", self._pass_time),
            web.get(PREFIX + "/requests", self._list_requests),
        ]

    async def _put_person(self, request: web.Request) -> web.Response:
        """A person, created if missing, and the token to act with."""
        login = request.match_info["login"]
        if login.lower() not in self._github.state.users:
            self._github.create_user(login)
        return web.json_response({"login": login, "token": self._token_of(login)})

    async def _add_fault(self, request: web.Request) -> web.Response:
        """The next requests that fit meet this fault; `delay` is in seconds."""
        given = await _body(request, _FAULT)
        try:
            self._faults.add(Fault(**{**given, "delay": _seconds(given, "delay")}))
        except (TypeError, ValueError) as error:
            raise _bad(str(error)) from error
        return web.Response(status=201)

    async def _clear_faults(self, request: web.Request) -> web.Response:
        """No request and no webhook meets a fault any more."""
        self._faults.clear()
        self._github.webhooks.faults.clear()
        return web.Response(status=204)

    async def _add_webhook_fault(self, request: web.Request) -> web.Response:
        """The next `times` webhooks of this event and action are dropped, doubled, delayed or reordered."""
        given = await _body(request, {"kind", "event", "action", "times", "seconds"})
        kind = given.pop("kind", None)
        if kind not in _WEBHOOK_FAULTS:
            raise _bad(f"kind is one of {', '.join(_WEBHOOK_FAULTS)}")
        span = [_seconds(given, "seconds")] if kind in ("delay", "reorder") else []
        given.pop("seconds", None)
        getattr(self._github.webhooks.faults, kind)(*span, **given)
        return web.Response(status=201)

    async def _set_lag(self, request: web.Request) -> web.Response:
        """How old the state is that these kinds of reads show, all if none is named."""
        given = await _body(request, {"seconds", "kinds"})
        kinds = given.get("kinds", [])
        if unknown := set(kinds) - set(READ_KINDS):
            raise _bad(f"no kind of read is called {', '.join(sorted(unknown))}; there are {', '.join(READ_KINDS)}")
        self._lag.set(_seconds(given, "seconds"), *kinds)
        return web.Response(status=204)

    async def _change_behaviour(self, request: web.Request) -> web.Response:
        """Change switches of what sources disagree about; the answer has all of them."""
        behaviour = self._github.behaviour
        given = await _body(request, set(asdict(behaviour)))
        for name, value in given.items():
            setattr(behaviour, name, value)
        return web.json_response(asdict(behaviour))

    async def _pass_time(self, request: web.Request) -> web.Response:
        """Move a clock that is stopped, and do all that is planned for that time."""
        given = await _body(request, {"seconds"})
        if not isinstance(self._github.clock, ManualClock):
            raise _bad("time passes by itself here; `--speed 0` stops it")
        await self._github.advance(_seconds(given, "seconds"))
        return web.json_response({"now": self._github.clock.now().isoformat()})

    async def _list_requests(self, request: web.Request) -> web.Response:
        """Every request to the API so far, oldest first, with its answer's status."""
        shown = [
            {"method": each.method, "path": each.path, "template": each.template, "status": each.status}
            for each in self._requests
        ]
        return web.json_response(shown)


async def _body(request: web.Request, known: set[str]) -> dict[str, Any]:
    """The JSON object that was sent. Raises 400 for anything else, and for a name that is not known."""
    try:
        given = json.loads(await request.read() or "{}")
    except ValueError as error:
        raise _bad("the body is not JSON") from error
    if not isinstance(given, dict) or not known.issuperset(given):
        raise _bad(f"the body is an object with some of {', '.join(sorted(known))}")
    return given


def _seconds(given: Mapping[str, Any], name: str) -> timedelta:
    value = given.get(name, 0)
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        raise _bad(f"{name} is a number of seconds")
    return timedelta(seconds=value)


def _bad(message: str) -> web.HTTPBadRequest:
    return web.HTTPBadRequest(text=json.dumps({"message": message}), content_type="application/json")
