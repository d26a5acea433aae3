"""`POST /webhook` over a real socket: what is accepted, what is stored, and the answers to GitHub."""

import hashlib
import hmac
import json
from datetime import timedelta
from urllib.parse import urlencode

import aiohttp
import pytest
import structlog
from pydantic import SecretStr
from structlog.testing import capture_logs

from bot.metrics import Metrics
from bot.metrics.gauges import text
from bot.webhooks.receiver import Receiver
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.metrics.test_meter import values
from tests.unit.bot.webhooks.signed import PAYLOAD, SECRET, Inbox, _post, _signed


async def test_delivery_signed_is_stored_and_accepted(session: aiohttp.ClientSession, url: str, inbox: Inbox) -> None:
    """What is answered with 202 is stored first."""
    assert await _post(session, url, json.dumps(PAYLOAD).encode()) == (202, {"result": "stored"})
    (webhook_event,) = inbox.hints
    assert (webhook_event.kind, webhook_event.number, webhook_event.delivery) == (
        "consent",
        3,
        "72d3162e-cc78-11e3-81ab-4c9367dc0958",
    )


async def test_delivery_again_is_accepted_and_does_nothing(
    session: aiohttp.ClientSession, url: str, inbox: Inbox
) -> None:
    """A redelivery keeps its id."""
    body = json.dumps(PAYLOAD).encode()
    await _post(session, url, body)
    assert await _post(session, url, body) == (202, {"result": "known"})
    assert len(inbox.hints) == 1


async def test_delivery_as_a_form_is_stored(session: aiohttp.ClientSession, url: str, inbox: Inbox) -> None:
    """The App's settings let the operator choose; the signature is over the raw body in both cases."""
    body = urlencode({"payload": json.dumps(PAYLOAD)}).encode()
    status, _ = await _post(session, url, body, Content_Type="application/x-www-form-urlencoded")
    assert (status, len(inbox.hints)) == (202, 1)


@pytest.mark.parametrize("event", ["ping", "star"])
async def test_delivery_without_meaning_is_accepted_and_not_stored(
    session: aiohttp.ClientSession, url: str, inbox: Inbox, event: str
) -> None:
    """GitHub's ping when the App is registered, and whatever else it may send."""
    assert await _post(session, url, b'{"zen": "x"}', X_GitHub_Event=event) == (
        202,
        {"result": "ignored", "why": f"{event} is no event that concerns a queue"},
    )
    assert inbox.hints == []


@pytest.mark.parametrize(
    "signature",
    [
        None,
        "",
        "sha256=",
        "sha256=" + "0" * 64,
        _signed(b"another body"),
        _signed(json.dumps(PAYLOAD).encode())[:-1] + "g",
        _signed(json.dumps(PAYLOAD).encode())[:-1] + ("1" if _signed(json.dumps(PAYLOAD).encode())[-1] == "0" else "0"),
        _signed(json.dumps(PAYLOAD).encode(), "another secret"),
        _signed(json.dumps(PAYLOAD).encode()).removeprefix("sha256="),
        "sha1=" + hmac.new(SECRET.encode(), json.dumps(PAYLOAD).encode(), hashlib.sha1).hexdigest(),
        "sha256=schlüssel",
    ],
)
async def test_delivery_not_signed_with_the_secret_is_refused(
    session: aiohttp.ClientSession, url: str, inbox: Inbox, signature: str | None
) -> None:
    """Missing, SHA-1 only, not ASCII, of another body or secret (gidgethub lets some pass, and raises on others)."""
    body = json.dumps(PAYLOAD).encode()
    sha1 = "sha1=" + hmac.new(SECRET.encode(), body, hashlib.sha1).hexdigest()
    status, answer = await _post(session, url, body, X_Hub_Signature_256=signature, X_Hub_Signature=sha1)
    assert status == 401
    assert "signature" in answer["error"].lower()
    assert inbox.hints == []


@pytest.mark.parametrize(
    ("body", "changes", "words"),
    [
        (b"{}", {"X_GitHub_Event": None}, "X-GitHub-Event"),
        (b"{}", {"X_GitHub_Event": "Pull Request!"}, "X-GitHub-Event"),
        (b"{}", {"X_GitHub_Delivery": None}, "X-GitHub-Delivery"),
        (b"{}", {"X_GitHub_Delivery": "x" * 65}, "X-GitHub-Delivery"),
        (b"{}", {"X_GitHub_Delivery": "é"}, "X-GitHub-Delivery"),
        (b"{}", {"Content_Type": "text/plain"}, "content type"),
        (b"", {}, "not the JSON"),
        (b"{", {}, "not the JSON"),
        (b"\xff\xfe", {}, "not the JSON"),
        (b"[" * 200_000, {}, "not the JSON"),
        (b"[]", {}, "not an object"),
        (b"pay=1", {"Content_Type": "application/x-www-form-urlencoded"}, "not the JSON"),
        (b"payload=%7B", {"Content_Type": "application/x-www-form-urlencoded"}, "not the JSON"),
        (b"{}", {}, "pull_request: missing or wrong: action, installation, pull_request, repository"),
    ],
)
async def test_delivery_malformed_is_refused_with_the_reason(
    session: aiohttp.ClientSession, url: str, inbox: Inbox, body: bytes, changes: dict[str, str | None], words: str
) -> None:
    """The App's delivery log shows the sentence."""
    status, answer = await _post(session, url, body, **changes)
    assert (status, inbox.hints) == (400, [])
    assert words in answer["error"]


@pytest.mark.parametrize("missing", ["X_GitHub_Event", "X_GitHub_Delivery", "Content_Type"])
async def test_delivery_neither_signed_nor_well_formed_is_refused_as_unsigned(
    session: aiohttp.ClientSession, url: str, missing: str
) -> None:
    """Who cannot sign learns nothing of what a delivery has to look like."""
    status, answer = await _post(session, url, b"{", **{missing: "?", "X_Hub_Signature_256": None})
    assert (status, "X-Hub-Signature-256" in answer["error"]) == (401, True)


async def test_body_of_another_secret_is_refused_before_it_is_read_as_json(
    session: aiohttp.ClientSession, url: str
) -> None:
    """What a stranger sent is not parsed: its signature is refused, whatever it holds."""
    status, answer = await _post(session, url, b"{", X_Hub_Signature_256="sha256=" + "0" * 64)
    assert (status, answer["error"]) == (401, "the signature does not match the webhook secret")


async def test_delivery_that_cannot_be_stored_is_not_accepted(
    session: aiohttp.ClientSession, url: str, inbox: Inbox
) -> None:
    """GitHub records the failure, and the redelivery sweep finds it; the next one is served again."""
    body = json.dumps(PAYLOAD).encode()
    inbox.broken = True
    with capture_logs() as lines:
        status, _ = await _post(session, url, body)
    assert status == 503
    assert [line["event"] for line in lines] == ["delivery not stored"]
    inbox.broken = False
    assert await _post(session, url, body) == (202, {"result": "stored"})


async def test_delivery_refused_again_and_again_is_logged_once_a_minute(
    session: aiohttp.ClientSession, url: str, clock: ManualClock
) -> None:
    """A sender without the secret cannot fill the log; the count of refusals is kept."""
    with capture_logs() as lines:
        for _ in range(5):
            assert (await _post(session, url, b"{}", X_Hub_Signature_256=None))[0] == 401
        assert (await _post(session, url, b"{}", X_GitHub_Event=None))[0] == 400
        clock.instant += timedelta(minutes=1)
        assert (await _post(session, url, b"{}", X_Hub_Signature_256=None))[0] == 401
    assert [(line["status"], line["repeats"]) for line in lines] == [(401, 0), (400, 0), (401, 4)]


async def test_deliveries_refused_are_counted_by_status(
    session: aiohttp.ClientSession, url: str, inbox: Inbox, metrics: Metrics
) -> None:
    """The counts distinguish another secret from an outage of the database; accepted ones do not count."""
    body = json.dumps(PAYLOAD).encode()
    for _ in range(2):
        await _post(session, url, body, X_Hub_Signature_256=None)
    inbox.broken = True
    await _post(session, url, body)
    inbox.broken = False
    await _post(session, url, body)
    counted = values(text(metrics.read()), "imq_deliveries_refused_total")
    assert counted == {("401",): 2, ("503",): 1}


async def test_delivery_id_is_bound_to_every_line_logged_for_it(session: aiohttp.ClientSession, url: str) -> None:
    """One delivery can be followed through the logs."""
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        await _post(session, url, json.dumps(PAYLOAD).encode(), X_GitHub_Delivery="d-7")
    assert [(line["event"], line["delivery"]) for line in lines] == [("delivery stored", "d-7")]


async def test_stored_delivery_names_repository_pull_request_and_head(session: aiohttp.ClientSession, url: str) -> None:
    """An operator finds the deliveries of a pull request by its number."""
    with capture_logs() as lines:
        await _post(session, url, json.dumps(PAYLOAD).encode())
    (line,) = lines
    pull = PAYLOAD["pull_request"]
    assert (line["repository"], line["number"]) == (PAYLOAD["repository"]["full_name"], pull["number"])
    assert line["sha"] == pull["head"]["sha"]


def test_receiver_without_a_secret_is_not_built() -> None:
    """Without a secret anybody could speak for GitHub (gidgethub lets unsigned events pass then)."""
    with pytest.raises(ValueError, match="secret"):
        Receiver(secret=SecretStr(""), own_app_id=1, store=Inbox().store, clock=ManualClock())
