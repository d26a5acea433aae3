"""The report of shadow mode, as a page of the server and as a file that asks for nothing."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from aiohttp import web

from bot.api import routes
from bot.api.branch_routes import StatisticsQuery
from bot.api.payload import query
from bot.web.addresses import shadow_url
from bot.web.pages.render import render
from bot.web.pages.site import Pages, get
from queue_engine.domain.shadow_pull import BaseState, ShadowLanding, ShadowOutcome, ShadowPull, ShadowRejection
from queue_engine.queries.shadow_report import ShadowReport, load_shadow_report

MOST_SHOWN = 200
OUTCOMES = {
    ShadowOutcome.REJECTED: "would not have queued it",
    ShadowOutcome.WAITING: "would have queued it, and it would wait",
    ShadowOutcome.UPDATING: "would have updated its branch",
    ShadowOutcome.RERUNNING: "would have rerun failed jobs",
    ShadowOutcome.DEQUEUED: "would have dequeued it",
    ShadowOutcome.MERGED: "would have merged it",
}
DIFFERENCES = {
    ShadowRejection.REJECTED: "would not have queued it",
    ShadowRejection.CHECKS_NOT_PASSED: "would not have merged it without passed checks",
    ShadowRejection.UNTESTED_TREE: "would have updated it first: no check tested what landed",
}


class ShadowPage(Pages):
    """The report of shadow mode as a page."""

    @get(f"{routes.REPOSITORY}/shadow")
    async def _show(self, request: web.Request) -> web.Response:
        engine = self._site.engine
        repository = await self._site.access.readable(request)
        days = query(request, StatisticsQuery).days
        async with engine.store.reading() as tx:
            report = await load_shadow_report(tx, engine.clock.now() - timedelta(days=days), repository=repository)
        return await self._site.render(
            request,
            "shadow.html",
            repository=repository,
            address=shadow_url(repository),
            in_shadow=bool(report.repositories),
            days=days,
            report=report,
            pulls=[(each, _decided(each)) for each in reversed(report.pulls[-MOST_SHOWN:])],
            outcomes=[(OUTCOMES[ShadowOutcome(name)], count) for name, count in report.figures.outcomes.items()],
            differences=[
                (DIFFERENCES[ShadowRejection(name)], count) for name, count in report.figures.differences.items()
            ],
            differing=differing,
            avoided=_avoided(report),
        )


def report_file(report: ShadowReport, now: datetime, *, github: str) -> str:
    """Return the content of the report as a page of its own; `github` is the origin of GitHub's website."""
    newest = tuple(reversed(report.pulls))
    merges = [each for each in newest if each.landing is not None]
    others = [(each, _decided(each)) for each in newest if each.landing is None]
    return render(
        "shadow_report.html",
        report=report,
        now=now,
        path="",
        github=github,
        waited=sum(report.waits, timedelta()),
        landed=[each for each in merges if each.landing and not each.landing.differences],
        otherwise=[each for each in merges if each.landing and each.landing.differences],
        stopped=_ended(others, ShadowOutcome.REJECTED, ShadowOutcome.DEQUEUED),
        waiting=_ended(others, ShadowOutcome.WAITING, ShadowOutcome.UPDATING, ShadowOutcome.RERUNNING),
        merging=_ended(others, ShadowOutcome.MERGED),
        differing=differing,
        avoided=_avoided(report),
        open=[each for each in merges if each.landing and each.landing.base in (BaseState.PENDING, BaseState.UNKNOWN)],
    )


def differing(landing: ShadowLanding) -> str:
    """Return how IMQ would have acted otherwise, each with its reason or checks; empty if it would not have."""
    why: dict[ShadowRejection, Sequence[str | None]] = {
        ShadowRejection.REJECTED: (landing.reason and landing.reason.value.replace("_", " "), landing.detail),
        ShadowRejection.CHECKS_NOT_PASSED: landing.not_passed,
    }
    return "; ".join(_with(DIFFERENCES[each], why.get(each, ())) for each in landing.differences)


def _with(words: str, why: Iterable[str | None]) -> str:
    named = ", ".join(filter(None, why))
    return f"{words} ({named})" if named else words


def _avoided(report: ShadowReport) -> int:
    return sum(pull.landing is not None and bool(pull.landing.differences) for pull, _ in report.red_bases)


def _ended(pulls: Sequence[tuple[ShadowPull, str]], *outcomes: ShadowOutcome) -> list[tuple[ShadowPull, str]]:
    return [pair for pair in pulls if pair[0].decision is not None and pair[0].decision.outcome in outcomes]


def _decided(pull: ShadowPull) -> str:
    decision = pull.decision
    if decision is None:
        return "was not asked: no label"
    if decision.reason is None:
        return OUTCOMES[decision.outcome]
    # A detail that begins so names the pull request for which this one would wait.
    other = f": {decision.detail}" if decision.detail and decision.detail.startswith("#") else ""
    return f"{OUTCOMES[decision.outcome]} ({decision.reason.value.replace('_', ' ')}{other})"
