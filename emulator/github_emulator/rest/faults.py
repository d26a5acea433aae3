"""Faults on demand: GitHub failing before, during and after it did what was asked."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, get_args

from github_emulator.rest.record import RecordedCall

FaultKind = Literal[
    "fail",  # an error answer, nothing applied
    "apply_then_fail",  # applied, then an error answer
    "reset",  # the connection is cut, nothing applied
    "apply_then_reset",  # applied, then the connection is cut
    "hang",  # never answered, nothing applied
    "apply_then_hang",  # applied, never answered
    "delay",  # waits, then applies and answers
    "apply_then_delay",  # applies, then waits with the answer
    "rate_limit",  # the primary limit's 403: none remaining until the reset
    "secondary_limit",  # 403, 422 or 429, with or without Retry-After
    "expired_token",  # 401 Bad credentials
    "bad_json",  # applied, then a 200 whose body is cut off
    "bad_link",  # applied, then the answer with a Link header whose addresses cannot be parsed
]

_MESSAGES = {
    400: "Bad Request",
    401: "Bad credentials",
    403: "Resource not accessible by integration",
    404: "Not Found",
    405: "Pull Request is not mergeable",
    409: "Head branch was modified. Review and try the merge again.",
    410: "This resource is gone",
    422: "Validation Failed",
    429: "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
    500: "Server Error",
    503: "Service unavailable",
}
_UNICORN = (
    "<!DOCTYPE html>\n<html><head><title>Unicorn! &middot; GitHub</title></head>"
    "<body><p><strong>This page is taking too long to load.</strong></p></body></html>\n"
)


@dataclass
class Fault:
    """One fault for the requests that fit; `skip` of them pass first, then `times` are hit (None: all).

    `route` is a template, a path, or a compiled pattern searched in both; None fits every route.
    `retry_after` in seconds; `delay` is time of the emulator's clock; `body` a JSON value or, as `str`, an HTML page.
    """

    kind: FaultKind
    method: str | None = None
    route: re.Pattern[str] | str | None = None
    status: int = 500
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int | None = 1
    skip: int = 0
    delay: timedelta = timedelta(0)
    retry_after: int | None = None
    when: Callable[[RecordedCall], bool] | None = None
    hits: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.kind not in get_args(FaultKind):
            raise ValueError(f"no fault is called {self.kind!r}; there are {', '.join(get_args(FaultKind))}")
        if self.kind == "secondary_limit" and self.status == 500:
            self.status = 403

    def fits(self, recorded: RecordedCall) -> bool:
        """Whether a request is one of those that it hits."""
        if self.method is not None and self.method.upper() != recorded.method:
            return False
        route = recorded.template.partition(" ")[2]
        if isinstance(self.route, str) and self.route not in (route, recorded.template, recorded.path):
            return False
        if isinstance(self.route, re.Pattern) and not (
            self.route.search(recorded.path) or self.route.search(recorded.template)
        ):
            return False
        return self.when is None or self.when(recorded)

    @property
    def applies_first(self) -> bool:
        """Whether the state changes before the fault shows."""
        return self.kind.startswith("apply_then") or self.kind in ("bad_json", "bad_link")

    def content(self) -> Any:
        """The body to send: the given one, else what GitHub sends with that status (HTML for 502, 504 and 520)."""
        if self.body is not None:
            return self.body
        if self.status in (502, 504, 520):
            return _UNICORN
        message = _MESSAGES.get(self.status, "Server Error")
        return {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(self.status)}


@dataclass
class Faults:
    """The faults still to come, oldest first; the first that fits a request takes it."""

    _pending: list[Fault] = field(default_factory=list)

    def add(self, fault: Fault) -> Fault:
        """Let requests meet this fault."""
        self._pending.append(fault)
        return fault

    def take(self, recorded: RecordedCall) -> Fault | None:
        """The fault that hits this request, if any; counts it."""
        hit = None
        for fault in list(self._pending):
            if not fault.fits(recorded):
                continue
            if fault.skip > 0:
                fault.skip -= 1
                continue
            if hit is not None:
                continue
            hit = fault
            fault.hits += 1
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self._pending.remove(fault)
        return hit

    def clear(self) -> None:
        """Forget all faults."""
        self._pending.clear()
