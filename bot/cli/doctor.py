"""`imq doctor`: examine the settings, the database, the App and its repositories; read-only."""

import asyncio
from typing import TYPE_CHECKING

import click

from bot.cli.console import CommandRefused, RepositoryName, echo, echo_json, json_option
from bot.cli.host import environ, settings
from bot.settings.environment import Settings

if TYPE_CHECKING:
    from bot.api.finding import Report


@click.command()
@click.option("--repository", type=RepositoryName(), help="Examine only this repository.")
@json_option
def doctor(repository: str | None, as_json: bool) -> None:
    """Find faults of settings, database, App and repositories, with their remedies.

    The exit code is 0 without a finding, 1 with findings, and 2 if the command cannot run. It changes nothing.
    """
    operators = settings(quiet=True)
    # Imported when needed, so that `imq --help` and faults in the settings are printed at once.
    from bot.api.payload import json_data
    from bot.doctor.examination import RepositoryNotFound

    try:
        report = asyncio.run(_examine(operators, repository))
    except RepositoryNotFound as problem:
        raise CommandRefused(str(problem)) from None
    if as_json:
        echo_json(json_data(report))
    else:
        echo(report.as_text())
    raise SystemExit(1 if report.findings else 0)


async def _examine(operators: Settings, repository: str | None) -> "Report":
    import aiohttp

    from bot.cli.github import gateway_of
    from bot.doctor.doctor_facts import read_host
    from bot.doctor.examination import Doctor
    from bot.doctor.webhook_probe import WebhookProbe
    from queue_engine.core.timing.clock import SystemClock

    clock = SystemClock()
    async with gateway_of(operators, clock) as gateway, aiohttp.ClientSession() as session:
        app_id, relay_url = int(operators.github_app_id), operators.relay_url
        examined = Doctor(
            gateway,
            clock,
            operators.policy(),
            public_url=operators.public_url,
            relay_url=relay_url,
            probe=WebhookProbe(session, operators.github_webhook_secret, app_id, relay_url),
        )
        return await examined.examine(await read_host(operators, environ(), now=clock.now()), repository)
