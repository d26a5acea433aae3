"""P2, for real: a process killed with `kill -9` in bulk calls of the API, and while it sends messages to sinks."""

from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from aiohttp import web

from queue_engine.core.database.database import Database
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.facts import Permission
from queue_engine.store import Store
from queue_engine.store.tokens import TokenPolicy
from tests.acceptance.template import Template
from tests.acceptance.world import LABEL, REPOSITORY
from tests.process.processes import Theatre, a_theatre
from tests.process.test_kill import REFUSE
from tests.support.real_time import LIMIT
from tests.support.sink_receiver import SECRET, SinkReceiver, sink_receiver, sinks_setting

pytestmark = [pytest.mark.process, pytest.mark.slow]

CALL = f"/api/v1/repositories/{REPOSITORY}/queue"


async def token_of(theatre: Theatre, login: str) -> str:
    """A token of this person, made as `imq token create` makes one."""
    database = Database(theatre.environment["DATABASE_URL"])
    person_id = theatre.github.state.users[login].id
    grant = TokenPolicy(login=login, person_id=person_id, access=Permission.WRITE)
    async with Store(database).transaction() as tx:
        token = await tx.tokens.create(login, grant, now=SystemClock().now())
    await database.close()
    assert token is not None
    return token


async def ask(theatre: Theatre, method: str, path: str, **sent: Any) -> Any:
    """Call the API until it answers, as a program does that repeats a call with its key; the body of the answer."""
    found: list[Any] = []
    async with aiohttp.ClientSession() as session:
        while not found:
            try:
                url = f"http://127.0.0.1:{theatre.port}{path}"
                async with session.request(method, url, timeout=aiohttp.ClientTimeout(LIMIT), **sent) as answer:
                    if answer.status < 300:
                        found.append(await answer.json())
                    assert answer.status < 300 or answer.status in {409, 429, 503}, await answer.text()
            except (aiohttp.ClientError, TimeoutError):
                pass
            died = theatre.process is None or theatre.process.returncode is not None
            await theatre.until(lambda: True) if not died else await theatre.start()
    return found[0]


async def finished(theatre: Theatre, path: str, token: str) -> Any:
    """The results of a bulk call once all have come."""
    while True:
        body = await ask(theatre, "GET", f"{path}?wait=1", headers={"Authorization": f"Bearer {token}"})
        if body["state"] == "done":
            return body


async def events_of(theatre: Theatre, pull: Any) -> Counter[str]:
    """How often each event happened to a pull request."""
    database = Database(theatre.environment["DATABASE_URL"])
    async with Store(database).reading() as tx:
        found = await tx.timeline.of_pull_request(theatre.repository.record.id, pull.number)
    await database.close()
    return Counter(event.event for event in found)


@pytest.mark.thorough
async def test_bulk_call_killed_at_each_step_queues_and_lands_each_pull_request_once(tmp_path: Path) -> None:
    """The program repeats its call with the same key; nothing is lost, and each result comes."""
    async with a_theatre(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path) as theatre:
        theatre.template = Template()
        pulls = [
            theatre.repository.open_pull_request(name, head=name, by="mona", files={f"{name}.py": f"{name}\n"})
            for name in ("known", "first", "second", "third")
        ]
        await theatre.start()
        await theatre.next_second()
        # IMQ knows a repository since its first webhook.
        pulls[0].label(LABEL, by="mona")
        await theatre.until(lambda: pulls[0].merged)
        token = await token_of(theatre, "mona")
        theatre.kill_once_at_each_step(reading=False)
        items = [{"number": pull.number} for pull in pulls[1:]] + [{"number": 999}]
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": str(uuid4())}
        begun = await ask(theatre, "POST", CALL, json={"pulls": items}, headers=headers)
        again = await ask(theatre, "POST", CALL, json={"pulls": items}, headers=headers)
        assert again["process_id"] == begun["process_id"]
        done = await finished(theatre, f"/api/v1/processes/{begun['process_id']}", token)
        assert [each["status"] for each in done["results"]] == [202, 202, 202, 404]
        await theatre.until(lambda: all(pull.merged for pull in pulls))
        await theatre.until(lambda: all(LABEL not in pull.labels for pull in pulls))
        assert len(theatre.deaths) >= 5, theatre.deaths
        for pull in pulls:
            counts = await events_of(theatre, pull)
            assert (counts["queued"], counts["landed"]) == (1, 1), counts
        merges = [
            commit.message for commit in theatre.repository.log("main") if commit.message.startswith("Merge pull")
        ]
        assert len(merges) == len(pulls)


def killer(theatre: Theatre, receiver: SinkReceiver, *, answers: bool) -> Any:
    """A reply that kills the bot at the first try of each message: without an answer, or right after it."""
    met: set[str] = set()

    async def reply(request: web.Request) -> web.StreamResponse:
        message = f"{request.path} {receiver.received[-1].headers.get('webhook-id', receiver.received[-1].body)}"
        if message in met:
            return web.Response(text="ok")
        met.add(message)
        if not answers:
            theatre.kill(message)
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        response = web.Response(text="ok")
        await response.prepare(request)
        await response.write_eof()
        theatre.kill(message)
        return response

    return reply


@pytest.mark.parametrize("answers", [False, pytest.param(True, marks=pytest.mark.thorough)])
async def test_bot_killed_while_it_sends_messages_loses_none_and_repeats_them_with_their_ids(
    tmp_path: Path, answers: bool
) -> None:
    """A receiver that knows ids sees each message once; each death may repeat in Slack what was under way."""
    async with sink_receiver() as receiver, a_theatre(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path) as theatre:
        theatre.template = Template()
        kinds = ["queued", "landed", "ejected"]
        hook = {"name": "hook", "webhook": f"{receiver.url}/hook", "secret": SECRET, "events": kinds}
        slack = {"name": "slack", "slack": f"{receiver.url}/slack", "events": kinds}
        theatre.environment["IMQ_SINKS"] = sinks_setting(
            *({**each, "repositories": [REPOSITORY]} for each in (hook, slack))
        )
        theatre.repository.push("main", REFUSE, "Refuse red heads", by="rhea")
        good = theatre.repository.open_pull_request("Good", head="good", by="mona", files={"good.py": "1\n"})
        red = theatre.repository.open_pull_request("Red", head="red", by="mona", files={"red.txt": "99\n"})
        await theatre.start()
        await theatre.next_second()
        receiver.always = killer(theatre, receiver, answers=answers)
        for pull in (good, red):
            pull.label(LABEL, by="mona")
        await theatre.until(lambda: good.merged and LABEL not in red.labels)

        def ids() -> Counter[str]:
            of_id = {
                each.headers["webhook-id"]: each.json["type"] for each in receiver.received if each.path == "/hook"
            }
            return Counter(of_id.values())

        def slack_texts() -> Counter[bytes]:
            return Counter(each.body for each in receiver.received if each.path == "/slack")

        wanted = Counter({"queued": 2, "landed": 1, "ejected": 1})
        await theatre.until(lambda: ids() >= wanted and len(slack_texts()) >= 4)
        await theatre.until(lambda: len(theatre.deaths) >= 4)
        receiver.always = None
        assert ids() == wanted
        assert len(slack_texts()) == 4
        assert all(count <= 1 + len(theatre.deaths) for count in slack_texts().values()), slack_texts()
