"""The findings of `imq doctor`, which the command prints and the API serves at `/api/v1/doctor`, for operators."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from aiohttp import web
from pydantic import Field

from bot.api.api_errors import ApiError
from bot.api.auth import operator
from bot.api.payload import Payload, json_data, query
from bot.api.routes import Caller, Routes, route
from bot.gateway.doctor_reads import RulesetBypass


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of an installation, with its effect and its remedy."""

    code: str
    subject: str
    """`IMQ`, `App`, or a repository with its owner."""
    finding: str
    impact: str
    remedy: str
    link: str
    """The page of IMQ's documents with more, from the root of its repository."""

    def as_text(self) -> str:
        """Return the finding as text."""
        lines = (f"{self.subject}: {self.finding}", f"Effect: {self.impact}", f"Remedy: {self.remedy}", self.link)
        return "\n  ".join(lines)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings; `left_out` is how many repositories were not examined, `shadow` which are in shadow mode.

    `trains`: by repository with trains, what starts CI on them, and why. `server`: which Enterprise Server GitHub is,
    and what it lacks; null for github.com.
    """

    findings: tuple[Finding, ...]
    repositories: tuple[str, ...] = ()
    left_out: int = 0
    rulesets: Mapping[str, Sequence[RulesetBypass]] = field(default_factory=dict)
    """By repository, the rulesets that IMQ sees, with how it may bypass each."""
    shadow: tuple[str, ...] = ()
    trains: Mapping[str, str] = field(default_factory=dict)
    tested_again: Mapping[str, str] = field(default_factory=dict)
    """By repository, the minutes that workflows spend on trees that were tested, and what spares them."""
    server: str | None = None

    def as_text(self) -> str:
        """Return the report as text."""
        lines = [each.as_text() for each in self.findings]
        for name, rulesets in self.rulesets.items():
            listed = ", ".join(f"{each.name} (bypass: {each.bypass or 'unknown'})" for each in rulesets)
            lines.append(f"{name}: rulesets: {listed}")
        lines += [f"{name}: in shadow mode: IMQ writes nothing there" for name in self.shadow]
        lines += [f"{name}: trains: {text}" for name, text in self.trains.items()]
        lines += [f"{name}: tested again: {text}." for name, text in self.tested_again.items()]
        if self.server is not None:
            lines.append(f"GitHub: {self.server}")
        count = len(self.findings)
        examined = f"Repositories examined: {len(self.repositories)}."
        if self.left_out:
            examined += f" Left out: {self.left_out}; name one with --repository."
        verdict = "No findings." if not count else f"Findings: {count}."
        return "\n\n".join([*lines, f"{verdict} {examined}"])


Examine = Callable[[str | None], Awaitable[Report]]
"""Examines the installation, or of its repositories only the named one. Raises LookupError for an unknown one."""


class DoctorQuery(Payload):
    """Parameters of an examination."""

    repository: str | None = Field(None, pattern=r"^[^/\s]{1,100}/[^/\s]{1,100}$")


class DoctorRoutes(Routes):
    """The route that examines the installation."""

    def __init__(self, examine: Examine | None) -> None:
        """`examine` is None only where the routes are described, and not served."""
        self._examine = examine

    @route(
        "GET",
        "/doctor",
        "examine_installation",
        "Examines settings, database, App and repositories.",
        caller=Caller.OPERATOR,
        query=DoctorQuery,
        answers={200: Report},
        refusals=(404,),
    )
    async def show(self, request: web.Request) -> web.Response:
        """Answer 200 with the findings, or 404 for a repository that the App does not see."""
        operator(request)
        assert self._examine is not None
        try:
            report = await self._examine(query(request, DoctorQuery).repository)
        except LookupError as problem:
            raise ApiError(404, str(problem)) from None
        return web.json_response(json_data(report))
