"""Entry and exit of public methods: logged at debug level, harmless, and nearly free for all other callers."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
from pydantic import SecretStr

from queue_engine.core.observability import trace
from queue_engine.core.observability.log import logged, shown
from tests.support.captured import captured


class Colour(StrEnum):
    RED = "red"


@dataclass
class Thing:
    id: str
    payload: str = "ghs_payload"


@logged("shelf")
class Shelf:
    """Works, and logs."""

    async def claim(self, limit: int, *, owner: str) -> tuple[Thing, ...]:
        return (Thing("t-1"),) * limit

    async def find(self, name: str) -> Thing:
        raise LookupError(f"no {name}")

    def count(self) -> int:
        return self._count()

    def fail(self) -> None:
        raise ValueError("broken")

    def sign(self, token: str, request: dict[str, str]) -> str:
        """Sign."""
        return "x" * 500

    def each(self) -> Iterator[int]:
        yield 1

    async def all(self) -> AsyncIterator[int]:
        yield 1

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[int]:
        yield 2

    @property
    def size(self) -> int:
        return 3

    @staticmethod
    def shape() -> str:
        return "flat"

    def _count(self) -> int:
        return 7


async def test_public_method_logs_entry_and_exit() -> None:
    """With arguments, result, elapsed time, component, and the trace that it belongs to."""
    with captured() as log, trace.of_delivery("d-1"):
        assert len(await Shelf().claim(2, owner="me")) == 2
        ids = trace.ids()
    enter, leave = log.lines()
    assert (enter["event"], enter["args"]) == ("ENTER claim", {"limit": 2, "owner": "me"})
    assert (leave["event"], leave["result"]) == ("EXIT claim", "tuple of 2")
    assert leave["elapsed"].endswith("ms")
    for line in (enter, leave):
        assert (line["component"], line["level"]) == ("shelf", "debug")
        assert {name: line[name] for name in ids} == ids


async def test_method_that_fails_logs_the_errors_type_and_raises_it() -> None:
    """The error itself is for its handler; its words may be secret."""
    with captured() as log:
        with pytest.raises(LookupError, match="no n"):
            await Shelf().find("n")
        with pytest.raises(ValueError, match="broken"):
            Shelf().fail()
    assert [line["error"] for line in log.lines() if "error" in line] == ["LookupError", "ValueError"]
    assert "broken" not in log.text


def test_method_that_does_not_wait_is_logged_and_private_ones_are_not() -> None:
    """The log has the methods that others call, and not their parts."""
    with captured() as log:
        assert Shelf().count() == 7
    assert [line["event"] for line in log.lines()] == ["ENTER count", "EXIT count"]


async def test_context_manager_is_left_when_its_body_is() -> None:
    """The line says how long something was held, and how that ended."""
    with captured() as log:
        async with Shelf().opened() as opened:
            assert opened == 2
            assert [line["event"] for line in log.lines()] == ["ENTER opened"]
        with pytest.raises(ValueError, match="broken"):
            async with Shelf().opened():
                raise ValueError("broken")
    assert [line["event"] for line in log.lines()] == ["ENTER opened", "EXIT opened"] * 2
    assert log.lines(error="ValueError") == log.lines()[-1:]


async def test_what_may_never_be_over_stays_as_it_is() -> None:
    """Generators are left alone, like properties and static methods."""
    with captured() as log:
        shelf = Shelf()
        assert list(shelf.each()) == [1]
        assert [number async for number in shelf.all()] == [1]
        assert (shelf.size, shelf.shape()) == (3, "flat")
    assert log.text == ""


def test_payloads_and_secrets_are_not_shown() -> None:
    """Of a payload its size, of a secret nothing, of a long result its length."""
    with captured() as log:
        Shelf().sign("hunter2", request={"body": "private words"})
    enter, leave = log.lines()
    assert enter["args"] == {"token": "[secret]", "request": "dict of 1"}
    assert leave["result"] == "str of 500"
    assert "hunter2" not in log.text


def test_value_is_shown_small_and_harmless() -> None:
    """Numbers, ids, names and times as they are; everything else by its type and size."""
    for value, expected in [
        (None, None),
        (True, True),
        (3, 3),
        ("short", "short"),
        ("l" * 81, "str of 81"),
        (Colour.RED, "red"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (timedelta(minutes=2), "0:02:00"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02 00:00:00+00:00"),
        ([1, 2], "list of 2"),
        (b"abc", "bytes of 3"),
        (Thing("t-9"), "Thing t-9"),
        (Thing("t" * 81), "Thing"),
        (object(), "object"),
        (SecretStr("ghs_secret"), "SecretStr"),
    ]:
        assert shown(value) == expected, (value, expected)


def test_call_with_wrong_arguments_fails_as_it_would_without() -> None:
    """The error is the method's own."""
    wrong: Any = Shelf()
    with captured(), pytest.raises(TypeError, match="sign"):
        wrong.sign()


def test_decorated_method_keeps_its_name_and_words() -> None:
    """For help pages and tracebacks."""
    assert (Shelf.sign.__name__, Shelf.sign.__doc__) == ("sign", "Sign.")


def test_single_method_can_be_decorated() -> None:
    """A function is logged like a method."""

    @logged("sums")
    def add(a: int, b: int = 2) -> int:
        return a + b

    with captured() as log:
        assert add(1) == 3
    assert [line["event"] for line in log.lines(component="sums")] == ["ENTER add", "EXIT add"]


async def test_method_shows_no_argument_while_no_log_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job store's methods run thousands of times a second: a call costs the look at the level alone."""

    def fails(*_: object) -> None:
        raise AssertionError("nobody reads this")

    for work in ("shown", "_arguments", "_elapsed"):
        monkeypatch.setattr(f"queue_engine.core.observability.log.{work}", fails)
    with captured("info") as log:
        assert await Shelf().claim(1, owner="me") == (Thing("t-1"),)
    assert log.text == ""
    with captured("debug"), pytest.raises(AssertionError, match="nobody"):
        await Shelf().claim(1, owner="me")
