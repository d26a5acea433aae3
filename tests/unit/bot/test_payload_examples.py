"""GitHub's example payloads, and what chance makes of them: stored, ignored with a reason, or refused; never an error.

The examples are those of the npm package @octokit/webhooks-examples (payload_examples.LICENSE).
"""

import asyncio
import base64
import copy
import hashlib
import hmac
import json
import lzma
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from bot.web.application import Readiness, create_app, serve
from bot.webhooks.normalize import MalformedPayload, normalize, why_ignored
from bot.webhooks.receiver import Receiver
from queue_engine.core.database.database import Database
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.known_facts import Fact
from queue_engine.domain.webhooks import WEBHOOK_EVENTS, CommentCommand, WebhookEvent
from tests.unit.queue_engine.handlers.test_receiving import an_inbox

SECRET = "s3cret"
OWN_APP = 77
KINDS = {
    *("labeled", "consent", "unlocked", "comment", "review", "conversation", "check", "checks", "rerun"),
    *("base_moved", "rules", "teams", "installed"),
}

HOSTILE: tuple[Any, ...] = (
    None,
    0,
    -1,
    2**31,
    2**63,
    10**40,
    1.5,
    float("inf"),
    True,
    "",
    "\x00",
    "a\x00b",
    "\ud800",
    "\u202e\u2066" * 50,
    "x" * 70_000,
    "0" * 40,
    "/queue\n" * 50,
    "2026-13-45T99:99:99Z",
    [],
    [None],
    [[[]]] * 50,
    {},
    {"id": None},
    {"login": 5, "type": []},
)


@cache
def examples() -> dict[str, list[dict[str, Any]]]:
    """Every event's examples, as deliveries to an App: each has its installation, which those to others lack."""
    packed = Path(__file__).with_name("payload_examples.b64").read_bytes()
    read: dict[str, list[dict[str, Any]]] = json.loads(lzma.decompress(base64.decodebytes(packed)))
    for payload in (payload for payloads in read.values() for payload in payloads):
        payload.setdefault("installation", {"id": 9})
    return read


def _all() -> Iterator[tuple[str, dict[str, Any]]]:
    return ((event, payload) for event, payloads in examples().items() for payload in payloads)


def test_every_example_is_an_event_or_ignored_with_a_reason() -> None:
    """IMQ refuses no delivery that GitHub is known to send; its kind says what it means."""
    kinds: Counter[str] = Counter()
    for event, payload in _all():
        webhook_event = normalize(event, "d-1", payload, own_app_id=OWN_APP)
        if webhook_event is None:
            assert event in why_ignored(event, payload)
        else:
            kinds[webhook_event.kind] += 1
    # No example of a comment has a command, and none of a re-run is of IMQ's own check.
    assert kinds.keys() == KINDS - {"comment", "rerun"}


def test_example_of_a_comment_with_a_command_is_a_command() -> None:
    """The same comments with one more line; deleted and edited ones stay none."""
    meant = Counter[str]()
    for payload in copy.deepcopy(examples()["issue_comment"]):
        payload["comment"]["body"] += "\n\n/queue"
        payload["issue"]["pull_request"] = {"url": "https://api.github.com/repos/a/b/pulls/1"}
        webhook_event = normalize("issue_comment", "d-1", payload, own_app_id=OWN_APP)
        assert (webhook_event is not None) == (payload["action"] == "created")
        if webhook_event is not None:
            assert isinstance(webhook_event, CommentCommand)
            assert webhook_event.commands == ("queue",)
            assert webhook_event.comment_id == payload["comment"]["id"]
            meant[payload["action"]] += 1
    assert meant["created"] >= 5


async def test_every_example_is_answered_with_202_over_http(session: aiohttp.ClientSession) -> None:
    """As GitHub sends them: signed, over a socket."""
    stored: list[WebhookEvent] = []

    async def store(webhook_event: WebhookEvent) -> bool:
        stored.append(webhook_event)
        return True

    receiver = Receiver(secret=SecretStr(SECRET), own_app_id=OWN_APP, store=store, clock=SystemClock())
    runner = await serve(create_app(receiver, Readiness({}, SystemClock())), 0, "127.0.0.1")
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/webhook"
    answers: Counter[str] = Counter()
    for number, (event, payload) in enumerate(_all()):
        body = json.dumps(payload).encode()
        headers = {
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": f"d-{number}",
            "X-Hub-Signature-256": "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest(),
            "Content-Type": "application/json",
        }
        async with session.post(url, data=body, headers=headers) as response:
            assert response.status == 202, (event, await response.text())
            answers[(await response.json())["result"]] += 1
    await runner.cleanup()
    assert answers["stored"] == len(stored) > 40
    assert answers["ignored"] > 100


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a payload, shallow ones first."""
    children = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, _ in children:
        yield (*path, key)
    for key, child in children:
        yield from _places(child, (*path, key))


def mutated(random: Random, event: str | None = None) -> tuple[str, dict[str, Any]]:
    """A payload of some event with up to four places dropped, or filled with what does not belong there.

    The places that IMQ reads are few and shallow: they are hit more often.
    """
    event = event or random.choice(_READ)
    payload = copy.deepcopy(random.choice(examples()[event]))
    for _ in range(random.randint(1, 4)):
        places = [path for path in _places(payload) if len(path) <= random.choice((1, 2, 2, 3, 3, 6))]
        if not places:
            break
        *parents, last = random.choice(places)
        target: Any = payload
        for key in parents:
            target = target[key]
        if random.random() < 0.3:
            del target[last]
        else:
            target[last] = copy.deepcopy(random.choice(HOSTILE))
    return event, payload


_READ = (
    *(
        "pull_request",
        "pull_request_review",
        "pull_request_review_thread",
        "issue_comment",
        "push",
        "check_run",
        "check_suite",
        "status",
    ),
    *("branch_protection_rule", "repository", "installation", "installation_repositories"),
)


def _taken(event: str, payload: Any) -> WebhookEvent | None:
    """The hint in it, if it is neither ignored nor refused; anything but these three fails the test."""
    try:
        return normalize(event, "d-1", payload, own_app_id=OWN_APP)
    except MalformedPayload:
        return None


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_mutated_payload_is_an_event_that_can_be_stored_or_none(seed: int) -> None:
    """Fields dropped, null, of a wrong type, huge, or hostile: the event is whole, or there is none."""
    event, payload = mutated(Random(seed))
    webhook_event = _taken(event, payload)
    if webhook_event is not None:
        stored = json.loads(json.dumps(webhook_event.model_dump(mode="json", exclude_none=True)))
        assert WEBHOOK_EVENTS.validate_python(stored) == webhook_event.model_copy(update={"facts": ()})
        assert all(Fact.model_validate_json(fact.model_dump_json()) == fact for fact in webhook_event.facts)
        assert "\x00" not in repr(stored)
        for number, most in (
            (webhook_event.repository_id, 2**63),
            (stored.get("number"), 2**31),
            (stored.get("comment_id"), 2**63),
        ):
            assert number is None or 0 <= number < most
        assert len(stored.get("commands", ())) <= 6


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=50)
@given(st.sampled_from(_READ), st.dictionaries(st.sampled_from(["action", "installation", "repository", "x"]), _JSON))
def test_any_json_object_is_ignored_or_refused_with_a_reason(event: str, payload: dict[str, Any]) -> None:
    """A sender with the secret may send anything."""
    if _taken(event, payload) is None:
        assert why_ignored(event, payload)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.thorough
async def test_hints_of_mutated_payloads_are_stored_by_every_database(database: Database, seed: int) -> None:
    """An accepted payload fits into the tables: never a 503 that GitHub would repeat for ever."""
    random, inbox = Random(seed), an_inbox(database)
    webhook_events = [webhook_event for _ in range(400) if (webhook_event := _taken(*mutated(random))) is not None]
    assert len(webhook_events) > 20
    numbered = (
        webhook_event.model_copy(update={"delivery": f"d-{number}"})
        for number, webhook_event in enumerate(webhook_events)
    )
    assert all(await asyncio.gather(*map(inbox.receive, numbered)))
    await inbox.drain()
