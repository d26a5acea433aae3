"""`imq sinks` and the findings of `imq doctor` about sinks."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.doctor.doctor import sink_findings
from bot.doctor.facts import HostFacts, read_host
from bot.settings.environment import load_host_settings
from notifications.sinks.sender import DISABLED
from queue_engine.core.jobs.dead_letters import DeadLetter
from queue_engine.store import Transaction
from tests.support.documents import read
from tests.support.sink_receiver import SECRET, SinkReceiver, answers, sink_receiver, sinks_setting
from tests.test_docs import anchors
from tests.unit.bot.cli.imq import Imq
from tests.unit.notifications.sinks.messages import sink

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)


@contextmanager
def receiving() -> Iterator[SinkReceiver]:
    """Serve a receiver beside the command, which has an event loop of its own."""
    found: list[SinkReceiver] = []
    loop, ready = asyncio.new_event_loop(), threading.Event()
    ended = asyncio.Event()

    async def serve() -> None:
        async with sink_receiver() as receiver:
            found.append(receiver)
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait(10)
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)
        loop.close()


def setting(url: str) -> str:
    """Two sinks of one receiver."""
    return sinks_setting(
        {"name": "team", "slack": f"{url}/s3cretpath", "repositories": ["acme/*"]},
        {"name": "ops", "webhook": f"{url}/hook", "secret": SECRET, "repositories": ["*/*"]},
    )


def with_sinks(imq: Imq, url: str) -> Imq:
    """The command line with these sinks."""
    return replace(imq, environ={**imq.environ, "IMQ_SINKS": setting(url)})


def test_test_message_reaches_the_receiver_and_its_answer_is_printed(imq: Imq) -> None:
    """An operator sees at once whether an address works."""
    with receiving() as receiver:
        receiver.replies = [answers(200), answers(404, "no_service")]
        works = with_sinks(imq, receiver.url)("sinks", "test", "ops")
        gone = with_sinks(imq, receiver.url)("sinks", "test", "team")
    assert (works.exit_code, works.output) == (0, "The receiver of ops accepted a test message.\n")
    assert (gone.exit_code, gone.output) == (1, "Error: The receiver of team answered 404 no_service\n")
    assert receiver.received[0].json["type"] == "test"
    assert receiver.received[1].json["blocks"]


def test_test_message_to_a_receiver_that_is_away_names_no_address(imq: Imq) -> None:
    """The address is a secret, also in the output of a command."""
    found = with_sinks(imq, "http://127.0.0.1:1")("sinks", "test", "team")
    assert found.exit_code == 1
    assert "gave no answer" in found.output
    assert "s3cretpath" not in found.output


def test_sinks_are_listed_without_addresses(imq: Imq) -> None:
    """What a sink gets is no secret."""
    found = with_sinks(imq, "http://127.0.0.1:1")("sinks", "list").output
    assert "team  slack    acme/*" in found
    assert "ejected landed_outside base_red base_green" in found
    assert "s3cretpath" not in found
    assert imq("sinks", "list").output.startswith("No sinks.")
    unknown = with_sinks(imq, "http://127.0.0.1:1")("sinks", "test", "x")
    assert "IMQ_SINKS has no sink x. Its sinks: team, ops" in unknown.output


@pytest.mark.parametrize(
    ("facts", "repositories", "codes"),
    [
        ({}, ["acme/rocket"], []),
        ({}, ["globex/gears"], ["sink_matches_nothing"]),
        ({}, [], []),
        ({}, None, []),
        ({"sinks_gone": frozenset({"hook"})}, None, ["sink_gone"]),
        ({"sinks_failing": frozenset({"hook"})}, None, ["sink_fails"]),
    ],
)
def test_doctor_finds_sinks_without_receivers(
    facts: dict[str, frozenset[str]], repositories: list[str] | None, codes: list[str]
) -> None:
    """Each finding has its remedy and a link that leads somewhere."""
    found = list(sink_findings(HostFacts(sinks=(sink(),), **facts), repositories))  # type: ignore[arg-type]
    assert [each.code for each in found] == codes
    for each in found:
        page, _, anchor = each.link.partition("#")
        assert anchor in anchors(read(page))
        assert "secret-address" not in each.as_text()


async def test_doctor_reads_the_dead_letters_of_sinks(imq: Imq, tmp_path: Path) -> None:
    """A receiver that is gone says so in the error of its messages."""

    async def work(tx: Transaction) -> None:
        for name, error in (("team", f"{DISABLED}: it answered 410"), ("ops", "answered 500")):
            letter = DeadLetter(name, name, "sink_slack", error, {"sink": name}, NOW, True, 9, 0, NOW, None)
            await tx.dead_letters.put(letter)

    await asyncio.to_thread(imq.within, work)
    environ = {name: value for name, value in imq.environ.items() if value is not None}
    settings = load_host_settings({**environ, "IMQ_SINKS": setting("http://127.0.0.1:1")})
    facts = await read_host(settings, {})
    assert facts.sinks_gone == frozenset({"team"})
    assert facts.sinks_failing == frozenset({"ops"})
    assert [each.name for each in facts.sinks] == ["team", "ops"]
