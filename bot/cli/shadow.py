"""`imq shadow`: what IMQ would have done in repositories in shadow mode."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click

from bot.cli.console import RepositoryName, columns, echo, echo_json, instant, json_option, page_option
from bot.cli.host import StartTime, find_repository, host_settings, run_with_store
from bot.web.pages.shadow import DIFFERENCES, OUTCOMES, differing, report_file
from queue_engine.config.kinds import shown
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.shadow_pull import (
    ShadowAction,
    ShadowLanding,
    ShadowOutcome,
    ShadowPull,
    ShadowRejection,
)
from queue_engine.queries.shadow_report import ShadowFigures, ShadowReport, load_shadow_report
from queue_engine.store import Store


@click.group()
def shadow() -> None:
    """Report on repositories in shadow mode."""


@shadow.command()
@click.option("--repository", type=RepositoryName(), help="Only this repository.")
@click.option("--since", type=StartTime(), default="30d", show_default=True, help="How long ago, or a date.")
@json_option
@page_option
def report(repository: str | None, since: datetime, as_json: bool, page: Path | None) -> None:
    """Show what IMQ would have done, beside what people did.

    The database has it; the command asks GitHub nothing.
    """

    async def work(store: Store) -> ShadowReport:
        async with store.reading() as tx:
            wanted = None if repository is None else await find_repository(tx, repository)
            return await load_shadow_report(tx, since, repository=wanted)

    found = run_with_store(work)
    if page is not None:
        _write(page, found)
    if as_json:
        from bot.api.branch_routes import ShadowAnswer

        echo_json(ShadowAnswer.model_validate(found).model_dump(mode="json"))
        return
    echo("\n\n".join(_parts(found)))


def _write(page: Path, found: ShadowReport) -> None:
    from bot.cli.clone.report_page import page_of, write_page
    from bot.settings.setting_values import website

    text = report_file(found, SystemClock().now(), github=website(host_settings(quiet=True).github_api_url))
    write_page(page, page_of("IMQ in shadow mode", text))


def _parts(found: ShadowReport) -> Iterator[str]:
    """Format the report as paragraphs and a table."""
    names = ", ".join(each.full_name for each in found.repositories) or "none"
    yield f"Repositories in shadow mode: {names}. Since {instant(found.since)}:"
    yield "\n".join(_sums(found.figures))
    if found.pulls:
        titles = ("PULL REQUEST", "BASE", "LABELED", "IMQ", "MERGED", "BY", "IMQ INSTEAD", "BASE AFTER")
        yield columns(titles, map(_row, found.pulls))
    if any(each.decision is not None and each.decision.predicted_at is not None for each in found.pulls):
        yield (
            "~ is a prediction: the checks of an update would take as long as those of the present head, and no other "
            "pull request would be ahead."
        )


def _sums(figures: ShadowFigures) -> Iterator[str]:
    outcomes = (f"{OUTCOMES[ShadowOutcome(each)]} ({count})" for each, count in figures.outcomes.items())
    yield f"Labels judged: {figures.labeled}" + (f"; IMQ {', '.join(outcomes)}." if figures.labeled else ".")
    yield f"Merges by others: {figures.merges}. IMQ would have made {figures.agreed} of them, too."
    for each, count in figures.differences.items():
        yield f"  {count}: IMQ {DIFFERENCES[ShadowRejection(each)]}."
    yield f"Merges after which the base became red: {figures.red_bases}."
    times = {
        "label to merge": figures.label_to_merge,
        "last approval to merge": figures.approval_to_merge,
        "label to IMQ's merge, without updates": figures.label_to_decision,
    }
    known = [f"{name} {shown(time)}" for name, time in times.items() if time is not None]
    if known:
        yield f"Median times: {'; '.join(known)}."


def _row(pull: ShadowPull) -> tuple[str, ...]:
    return (
        f"{pull.repository.full_name}#{pull.number}",
        pull.base_branch,
        instant(pull.enqueued_at),
        "-" if pull.decision is None else _decision(pull.decision),
        *(("-",) * 4 if pull.landing is None else _landing(pull.landing)),
    )


def _decision(decision: ShadowAction) -> str:
    words = f"{OUTCOMES[decision.outcome]} at {instant(decision.at)}"
    if decision.predicted_at is not None:
        words += f", merge at ~{instant(decision.predicted_at)}"
    why = [each for each in (decision.reason, decision.detail, *decision.checks) if each]
    return f"{words} ({', '.join(why)})" if why else words


def _landing(landing: ShadowLanding) -> tuple[str, str, str, str]:
    checks = f" ({', '.join(landing.base_checks)})" if landing.base_checks else ""
    before = ", as before" if landing.red_before else ""
    return (
        instant(landing.at),
        landing.by or "unknown",
        differing(landing) or "nothing",
        f"{landing.base}{before}{checks}",
    )
