"""Which keys a call may carry, and which calls take none."""

from datetime import timedelta

import pytest

from bot.api.permissions import PER_MINUTE
from tests.unit.bot.api.api_server import ApiServer
from tests.unit.bot.api.calls_with_keys import KEY, Works


async def test_key_of_another_caller_is_another_key(works: Works, server: ApiServer) -> None:
    """A key never returns the answer to another caller's call."""
    for by in ("ops", "ada"):
        assert not (await server.call("POST", "/whole", by=by, key=KEY)).replayed
    assert await works.done() == 2


async def test_reading_call_takes_no_key(works: Works, server: ApiServer) -> None:
    """Reading twice is no harm, and nothing is remembered of it, be the key what it may."""
    for _ in range(2):
        assert not (await server.call("GET", "/whole", key="two words")).replayed
    assert await works.done() == 2


@pytest.mark.parametrize("key", ["", "a" * 256, "two words", "t\xf6ken", "tab\tbed"])
async def test_key_that_is_none_is_refused(works: Works, server: ApiServer, key: str) -> None:
    """400 with a sentence, before anything is done."""
    answer = await server.call("POST", "/whole", key=key)
    assert (answer.status, answer.error) == (
        400,
        "the Idempotency-Key must be 1 to 255 visible ASCII characters, such as a UUID",
    )
    assert await works.done() == 0


@pytest.mark.parametrize("key", ["!", "~" * 255])
async def test_key_of_any_visible_characters_is_taken(works: Works, server: ApiServer, key: str) -> None:
    """From one to 255 of them."""
    assert not (await server.call("POST", "/whole", key=key)).replayed
    assert (await server.call("POST", "/whole", key=key)).replayed


async def test_two_keys_are_refused(works: Works, server: ApiServer) -> None:
    """Which one would count?"""
    answer = await server.call("POST", "/whole", headers=[("Idempotency-Key", KEY)], key="other")
    assert (answer.status, answer.error) == (400, "send the Idempotency-Key header only once")
    assert await works.done() == 0


async def test_call_to_no_address_leaves_its_key_unused(works: Works, server: ApiServer) -> None:
    """A mistyped address is corrected and sent again with the same key; nothing is counted or stored of it."""
    assert (await server.call("POST", "/hole", key=KEY)).status == 404
    assert (await server.call("PATCH", "/whole", key=KEY)).status == 405
    assert not server.meter.counted
    assert (await server.call("POST", "/whole", key=KEY)).status == 201


async def test_address_longer_than_any_is_refused(works: Works, server: ApiServer) -> None:
    """A long one is compared by its digest, since a branch may have a long name; beyond all names IMQ refuses it."""
    for number, query in ((1, "x" * 300), (1, "x" * 300)):
        assert (await server.call("POST", f"/whole?{query}", key=KEY)).body == {"number": number}
    assert (await server.call("POST", f"/whole?{'x' * 301}", key=KEY)).status == 409
    answer = await server.call("POST", f"/whole?{'x' * 2_000}", key=KEY)
    assert (answer.status, answer.error) == (414, "the address is too long")


async def test_calls_with_keys_are_counted_and_so_are_their_repetitions(works: Works, server: ApiServer) -> None:
    """A high share of duplicates shows a client that sends every call twice."""
    for body in (b"1", b"1", b"1", b"2"):
        await server.call("POST", "/whole", key=KEY, data=body)
    assert (await server.call("POST", "/whole", key=None)).status == 400
    assert server.meter.counted == {("requests_keyed", "api"): 1, ("duplicates", "api"): 2}


async def test_caller_may_use_only_so_many_keys(works: Works) -> None:
    """Each is stored for days: with a token that may do nothing one could fill the disk."""
    works.gate.set()
    call = works.server.call
    found = [(await call("POST", "/parts", by="mona", key=f"k{n}")).status for n in range(PER_MINUTE + 2)]
    assert found == [200] * PER_MINUTE + [429] * 2
    assert (await call("POST", "/parts", by="rhea", key="k")).status == 200
    assert [(await call("POST", "/parts", key=f"k{n}")).status for n in range(5)] == [200] * 5
    works.server.clock.move(timedelta(minutes=1))
    assert (await call("POST", "/parts", by="mona", key="k")).status == 200
