"""A sender of webhooks, as a process of its own: `python -m benchmarks.sender` reads one JSON object from its input.

It is an open loop: each delivery has its instant, whatever became of those before it, and its time is counted from
that instant. A receiver that stalls is charged with everything that was due meanwhile. The answers' summary is printed
as one JSON object.
"""

import asyncio
import hashlib
import hmac
import itertools
import json
import sys
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import aiohttp


@dataclass(frozen=True, slots=True)
class Burst:
    """What to send where: pairs of event and body, one after another, `rate` a second for `seconds`."""

    url: str
    secret: str
    rate: int
    seconds: float
    bodies: list[tuple[str, str]]


@dataclass(slots=True)
class Answers:
    """What came back. `stored` are the ids of deliveries answered as stored; `lags` says how late each was sent."""

    times: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    stored: list[str] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)

    def note(self, word: str) -> None:
        """Count one answer."""
        self.statuses[word] = self.statuses.get(word, 0) + 1


async def send(burst: Burst) -> Answers:
    """Send the burst and wait for every answer."""
    answers = Answers()
    signed = [(event, body.encode(), _signature(burst.secret, body)) for event, body in burst.bodies]
    timeout = aiohttp.ClientTimeout(total=30)
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session,
        asyncio.TaskGroup() as group,
    ):
        start = time.perf_counter()
        for number, (event, body, signature) in enumerate(itertools.cycle(signed)):
            if number >= burst.rate * burst.seconds:
                break
            due = start + number / burst.rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            answers.lags.append(time.perf_counter() - due)
            group.create_task(_deliver(session, burst.url, event, body, signature, due, answers))
    return answers


async def _deliver(
    session: aiohttp.ClientSession, url: str, event: str, body: bytes, signature: str, due: float, answers: Answers
) -> None:
    guid = str(uuid4())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/bench",
        "X-GitHub-Delivery": guid,
        "X-GitHub-Event": event,
        "X-Hub-Signature-256": signature,
    }
    try:
        async with session.post(url, data=body, headers=headers) as answer:
            word = str((await answer.json()).get("result", answer.status))
    except (aiohttp.ClientError, TimeoutError) as error:
        word = type(error).__name__
    answers.times.append(time.perf_counter() - due)
    answers.note(word)
    if word == "stored":
        answers.stored.append(guid)


def _signature(secret: str, body: str) -> str:
    return "sha256=" + hmac.new(secret.encode(), body.encode(), hashlib.sha256).hexdigest()


async def carry_out(order: dict[str, Any]) -> dict[str, Any]:
    """Send a burst that is named in JSON, and return its answers' summary."""
    bodies = [(event, body) for event, body in order["bodies"]]
    answers = await send(Burst(order["url"], order["secret"], order["rate"], order["seconds"], bodies))
    return {
        "times": answers.times,
        "statuses": answers.statuses,
        "stored": answers.stored,
        "lag": max(answers.lags),
    }


def main() -> None:
    """Read the burst, send it, print the answers."""
    json.dump(asyncio.run(carry_out(json.load(sys.stdin))), sys.stdout)


if __name__ == "__main__":
    main()
