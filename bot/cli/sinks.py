"""`imq sinks`: list the sinks of `IMQ_SINKS`, and send one a test message."""

import asyncio
from uuid import uuid4

import click

from bot.cli.console import columns, echo
from bot.cli.host import host_settings
from bot.settings.environment import HostSettings
from notifications.sinks.sink import EventKind, Sink


@click.group()
def sinks() -> None:
    """Show and test where messages go besides GitHub."""


@sinks.command("list")
def list_sinks() -> None:
    """Show all sinks, without their addresses."""
    found = host_settings(quiet=True).sinks
    if not found:
        echo("No sinks. Set IMQ_SINKS; docs/notifications.md shows how.")
        return
    rows = (
        (
            each.name,
            each.kind.value,
            " ".join(each.repositories),
            " ".join(each.branches),
            " ".join(kind for kind in EventKind if kind in each.events),
        )
        for each in found
    )
    echo(columns(("NAME", "KIND", "REPOSITORIES", "BRANCHES", "EVENTS"), rows))


@sinks.command()
@click.argument("name")
def test(name: str) -> None:
    """Send the sink NAME a test message now, and print what its receiver answered."""
    settings = host_settings(quiet=True)
    sink = next((each for each in settings.sinks if each.name.casefold() == name.casefold()), None)
    if sink is None:
        known = ", ".join(each.name for each in settings.sinks) or "none"
        raise click.ClickException(f"IMQ_SINKS has no sink {name}. Its sinks: {known}")
    if (fault := asyncio.run(_send(settings, sink))) is not None:
        raise click.ClickException(f"The receiver of {sink.name} {fault}")
    echo(f"The receiver of {sink.name} accepted a test message.")


async def _send(settings: HostSettings, sink: Sink) -> str | None:
    """Send the message, and return what was wrong; None if the receiver accepted it."""
    from bot.settings.setting_values import website
    from bot.sinks.sink_client import SinkClient
    from notifications.sinks.answers import ReceiverError, Verdict, described, judge
    from notifications.sinks.message_text import Site
    from notifications.sinks.sender import request_to
    from notifications.sinks.sink import Message
    from queue_engine.core.timing.clock import SystemClock

    client, now = SinkClient(SystemClock()), SystemClock().now()
    message = Message(kind=EventKind.TEST, at=now, event=EventKind.TEST.value)
    site = Site(website(settings.github_api_url), settings.public_url)
    try:
        answer = await client(sink.url, *request_to(sink, message, site, message_id=uuid4().hex, at=now))
    except ReceiverError as error:
        return str(error)
    finally:
        await client.close()
    return None if judge(sink.kind, answer) is Verdict.SENT else described(sink.kind, answer)
