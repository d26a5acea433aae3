"""Reading bodies: what is read in vain is not kept."""

from unittest import mock

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from bot.http.form import Refused, read_body


async def test_bytes_of_a_body_read_in_vain_are_freed_at_once() -> None:
    """The request keeps the error, whose traceback keeps the frame: twenty dropped deliveries kept 200 MB so."""
    payload = StreamReader(mock.Mock(BaseProtocol, _reading_paused=False), 2**16)
    payload.feed_data(b"x" * 50)
    request = make_mocked_request("POST", "/webhook", payload=payload)
    with pytest.raises(Refused) as refused:
        await read_body(request, "delivery", 20)
    bodies = [entry.frame.f_locals["body"] for entry in refused.traceback if "body" in entry.frame.f_locals]
    assert bodies == [b""]


@pytest.mark.parametrize("lost", [True, False])
async def test_body_of_a_connection_that_was_dropped_before_it_was_read_is_cut_off(*, lost: bool) -> None:
    """A flood of connections, of which each dropped one would log a traceback otherwise; no other error is hidden."""
    payload = StreamReader(mock.Mock(BaseProtocol, _reading_paused=False, connected=False), 2**16)
    transport = mock.Mock(is_closing=lambda: lost)
    request = make_mocked_request("POST", "/webhook", payload=payload, transport=transport)
    with pytest.raises(Refused if lost else RuntimeError):
        await read_body(request, "delivery", 20)
