"""The requests and calls that the documents list are those of the program, and their examples are answered as shown."""

import json
import re
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp

from bot.api.app import PREFIX
from docs.generate import ROOT
from docs.screens import comments
from github_emulator import CISettings
from notifications.texts.reason_texts import NOT_READY, REASONS
from queue_engine.core.observability import trace
from queue_engine.domain.webhooks import WEBHOOK_JOB
from queue_engine.store.tokens import TokenPolicy
from tests.acceptance.world import CI_TIME, LABEL, World, a_world
from tests.support.device_page import type_code
from tests.support.documents import read, rows

MOST_REQUESTS = 15
"""To land one pull request, whatever is required; the goal of the design."""


async def test_requests_of_a_merge_are_those_of_the_table(tmp_path: Path) -> None:
    """P7: every request of a merge is known, with its reason; one more or less is seen here."""
    async with a_world(tmp_path) as world:
        columns = [await _landing(world, await _green(world, name)) for name in ("warm", "fresh")][1:]
        for number, demanded in enumerate(([("ci/test", world.app_id("ci"))], ["ci/test"], [])):
            world.repository.protect("main", required_checks=demanded, by="rhea")
            outdated = await _green(world, f"outdated-{number}")
            await _landing(world, await _green(world, f"warm-{number}"))
            columns.append(await _landing(world, outdated))
        # Nothing is required by now: checks that end minutes after each other cost no further look.
        world.repository.add_ci("fast", settings=CISettings(app="fast", duration=timedelta(seconds=1)))
        outdated = await _green(world, "outdated-apart")
        await _landing(world, await _green(world, "warm-apart"))
        assert await _landing(world, outdated) == columns[-1]
    table = {row[0].strip("`"): row[1:5] for row in rows(read("docs/sizing.md")) if re.match(r"`[A-Z]+ /", row[0])}
    for at, sent in enumerate(columns):
        assert sent == {name: int(counts[at]) for name, counts in table.items() if counts[at] != "0"}
        assert sum(sent.values()) <= MOST_REQUESTS


async def _green(world: World, name: str) -> Any:
    files = {f"{name}.py": f"{name}\n"}
    pull = world.repository.open_pull_request(f"Add {name}", head=name, by="mona", files=files)
    await world.pass_time(CI_TIME * 2)
    return pull


async def _landing(world: World, pull: Any) -> Counter[str]:
    """The requests from the label to the end of all that follows, those of sweeps not counted."""
    before = len(world.server.requests)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.pass_time(timedelta(seconds=30))
    sent = [request.template.replace("/repos/{owner}/{repo}", "") for request in world.server.requests]
    counted = Counter(sent[before:])
    lists = ("GET /app/installations", "GET /installation/repositories", "GET /app/hook/deliveries")
    for swept in (*lists, "GET /issues", "GET /issues/comments", "GET /pulls"):
        del counted[swept]
    return counted


async def test_calls_of_the_api_are_those_of_its_documents_table(tmp_path: Path) -> None:
    """The table lists every call, and each listed call exists."""
    async with a_world(tmp_path) as world:
        routes = [(route.method, route.resource) for route in world.bot.application().router.routes()]
    served = {f"{method} {resource.canonical}" for method, resource in routes if resource is not None}
    asked = {call for call in served if re.match(rf"(?!HEAD)[A-Z]+ (?:{PREFIX}/|/queue/)", call)}
    assert {row[0].strip("`") for row in rows(read("docs/api.md")) if re.match(r"`[A-Z]+ /", row[0])} == asked


async def test_examples_of_the_api_are_answered_as_its_document_shows(tmp_path: Path) -> None:
    """Each of them, sent to the real bot in the order of the document: the status, and an answer of that form."""
    blocks = re.findall(r"^```http\n(.*?)^```$", read("docs/api.md"), re.MULTILINE | re.DOTALL)
    async with a_world(tmp_path) as world, aiohttp.ClientSession() as session:
        own = await _installation(world)
        for example, shown in zip(blocks[::2], blocks[1::2], strict=True):
            head, _, body = _filled_in(example, own).partition("\n\n")
            (method, path), *headers = (line.split(maxsplit=1) for line in head.strip().splitlines())
            url = f"http://127.0.0.1:{world.runner.addresses[0][1]}{path}"
            sent = {name.rstrip(":"): value for name, value in headers}
            async with session.request(method, url, headers=sent, data=body.strip() or None) as answer:
                given = await answer.json() if await answer.read() else None
            await world.settle()
            await _log_in(world, session, own, path, given)
            shown_head, _, shown_body = shown.partition("\n\n")
            assert (answer.status, _form(given)) == (
                int(shown_head.split()[1]),
                _form(json.loads(shown_body) if shown_body.strip() else None),
            ), example


async def _installation(world: World) -> dict[str, str]:
    """Something to ask about; by the text of an example, what is different in each installation."""
    world.app.device_flow = True
    landed = world.open("landed")
    await world.pass_time(CI_TIME * 2)
    landed.merge(by="mona")
    world.open("standing").label(LABEL, by="mona")
    pull = world.open("add")
    await world.settle()
    with trace.span("example"):
        async with world.bot.engine.change() as change:
            token = await change.tx.tokens.create("example", TokenPolicy(login="rhea", operator=True), now=change.now)
            dead = await change.tx.jobs.enqueue(kind=WEBHOOK_JOB, request={}, process_id="7:42", now=change.now)
    await world.settle()
    return {
        "imq_...": str(token),
        "/42/": f"/{pull.number}/",
        "/41/": f"/{landed.number}/",
        _HEAD: pull.head_sha,
        _DEAD: dead,
    }


def _filled_in(example: str, own: dict[str, str]) -> str:
    return re.sub("|".join(map(re.escape, own)), lambda found: own[found[0]], example)


async def _log_in(world: World, session: aiohttp.ClientSession, own: dict[str, str], path: str, given: Any) -> None:
    """Keep the id of a login that began; after the first question about it let a person type its code."""
    if path == f"{PREFIX}/login/device":
        own.update({_LOGIN: given["id"], _CODE: given["user_code"]})
    elif path == f"{PREFIX}/login/device/token" and "token" not in given:
        await type_code(session, f"{world.server.url}/login/device", own[_CODE])
        await world.pass_time(timedelta(seconds=5))


_LOGIN, _CODE = "gAAAAABn...", "WDJB-MJHT"


_HEAD, _DEAD = "8f14e45fceea167a5a36dedd4bea2543ffd1c0de", "5f0c6d1e9a7b4c3d8e2f1a0b9c8d7e6f"


def test_comments_that_the_documents_quote_are_those_of_the_program() -> None:
    """Word by word: each paragraph is one that IMQ renders, with other names, numbers, instants and commits."""
    golden = (each.read_text(encoding="utf-8") for each in (ROOT / "tests/unit/notifications/golden").glob("*.md"))
    reasons = (*REASONS.values(), *NOT_READY.values())
    texts = [f"{each.sentence}\n**Next step for the author:** {each.next_step}" for each in reasons]
    texts = [re.sub(r"\{\w+\}", "`name`", text) for text in texts]
    shown = "\n".join(_words(line) for text in (*golden, *texts, comments()) for line in text.splitlines())
    quoted = dict[str, str]()
    for path in sorted((ROOT / "docs").glob("*.md")):
        text = re.sub(r"<!-- generated.*?<!-- end -->", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for quote in re.findall(r"(?:^>.*\n)+", text, re.MULTILINE):
            plain = re.sub(r"^> ?", "", quote, flags=re.MULTILINE)
            quoted |= {each: path.name for each in re.split(r"\n\s*\n|\n(?=- )", plain) if each.strip()}
    assert len(quoted) > 50
    assert not {each: name for each, name in quoted.items() if _words(each).rstrip(".") not in shown}


def _words(text: str) -> str:
    """A paragraph without what is different each time."""
    line = re.sub(r"\[(`+[^`]*`+)\]\([^)]*\)", r"\1", re.sub(r"^(?:> ?)?(?:- )?", "", " ".join(text.split())))
    line = re.sub(r"`(?:, `)+", "`", re.sub(r"(`+)[^`]*\1", "`", line))
    line = re.sub(r"@[a-z]+(?: @[a-z]+)*", "@", re.sub(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d UTC)?", "0", line))
    return re.sub(r"\b[0-9a-f]{7,40}\b|\d+", "0", line)


def _form(value: Any) -> Any:
    """What stays the same from one installation to the next: names, and kinds of values."""
    if isinstance(value, dict):
        return {name: _form(each) for name, each in value.items()}
    return [_form(each) for each in value] if isinstance(value, list) else type(value).__name__
