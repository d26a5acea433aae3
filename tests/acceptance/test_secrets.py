"""No log, answer or database has secrets: a real process at debug level, searched for every secret."""

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlalchemy import make_url, select

import queue_engine.store.tables  # noqa: F401 -- all tables
from github_emulator import Fault
from queue_engine.core.database.database import Database, metadata
from tests.acceptance.template import Template
from tests.acceptance.world import LABEL
from tests.process.processes import Theatre, a_theatre

pytestmark = [pytest.mark.process, pytest.mark.slow]

UNKNOWN_TOKEN = "imq_4fJ0lZrT9xVb2QmWc7KsYp1NdHgEu3oAi5RtLk8BqXw"
DATABASE_PASSWORD = "correct-horse-battery"
WEBHOOK_SECRET = "9c1f6d4be0a2473f8f5e"
STRANGERS_SECRET = "a-strangers-signature"


def with_password(url: str) -> str:
    """The same database by a URL that holds a password, where there can be one."""
    made = make_url(url)
    if made.get_backend_name() == "sqlite":
        return url
    return made.set(password=made.password or DATABASE_PASSWORD).render_as_string(hide_password=False)


def pieces(secret: str) -> set[str]:
    """Runs of a secret such that every part of it that is worth hiding holds one whole."""
    return {secret[start : start + 16] for start in range(0, max(len(secret) - 15, 1), 8)}


def credentials_sent_to(theatre: Theatre) -> set[str]:
    """Gathers what the bot signs its requests with: JWTs of the App, and tokens of the installation."""
    sent: set[str] = set()
    caller = theatre.server.tokens.caller

    def noting(authorization: str | None) -> Any:
        sent.add((authorization or "").partition(" ")[2])
        return caller(authorization)

    theatre.server.tokens.caller = noting  # type: ignore[method-assign]
    return sent


async def a_token(theatre: Theatre) -> str:
    """An operator's token of the API, made as operators make it."""
    assert theatre.template is not None
    output = theatre.log.with_name("token.log")
    arguments = ("token", "create", "ops", "--operator", "--person", "mona")
    made = await theatre.template.fork_module("bot", arguments, theatre.environment, output)
    assert await made.wait() == 0
    (token,) = [line for line in output.read_text().splitlines() if line.startswith("imq_")]
    return token


async def ask_everywhere(port: int, token: str) -> str:
    """Operators and strangers send what they have to every address, some of it wrong; all that they are answered."""
    answers = []
    headers = {"Authorization": f"Bearer {token}", "X-Hub-Signature-256": f"sha256={STRANGERS_SECRET}"}
    paths = ("/webhook", "/api/v1/dead-letters", f"/api/v1/{token}", "/readyz", "/metrics", "/queue/status")
    async with aiohttp.ClientSession(headers=headers) as session:
        for path in paths:
            for method in ("GET", "POST", "DELETE"):
                async with session.request(method, f"http://127.0.0.1:{port}{path}", json={"token": token}) as answer:
                    answers.append(f"{dict(answer.headers)}{await answer.text()}")
    return "\n".join(answers)


async def stored_in(url: str) -> str:
    """Every row of every table."""
    database = Database(url)
    try:
        async with database.transaction() as connection:
            rows = [(await connection.execute(select(table))).all() for table in metadata.sorted_tables]
    finally:
        await database.close()
    return repr(rows)


@pytest.mark.thorough
@pytest.mark.long("postgres")
async def test_no_secret_is_in_log_answers_or_database_of_a_process(tmp_path: Path, database_url: str) -> None:
    """From start to end: a merge, refused tokens, faults of GitHub, unauthenticated callers, and a `kill -9`."""
    async with a_theatre(with_password(database_url), tmp_path) as theatre:
        theatre.template = Template()
        app = next(app for app in theatre.github.state.apps.values() if app.slug == "imq")
        app.webhook_secret = theatre.environment["IMQ_GITHUB_WEBHOOK_SECRET"] = WEBHOOK_SECRET
        theatre.environment["IMQ_LOG_LEVEL"] = "debug"
        sent = credentials_sent_to(theatre)
        pull = theatre.repository.open_pull_request("Add", head="add", by="mona", files={"new.py": "new\n"})
        await theatre.start()
        token = await a_token(theatre)
        answers = await ask_everywhere(theatre.port, token) + await ask_everywhere(theatre.port, UNKNOWN_TOKEN)
        theatre.server.faults.add(Fault(kind="fail", status=502, times=2))
        theatre.server.faults.add(
            Fault(kind="bad_json", method="POST", route="/app/installations/{installation_id}/access_tokens")
        )
        # Refused once each: the bot waits half a minute before it takes a new token for one that was revoked.
        theatre.server.faults.add(Fault(kind="fail", status=401, times=2))
        pull.label(LABEL, by="mona")
        await theatre.until(lambda: pull.merged)
        theatre.kill("after the merge")
        await theatre.until(lambda: LABEL not in pull.labels)
        assert await theatre.stop() == 0
        written = theatre.log.read_text()
        stored = await stored_in(theatre.environment["DATABASE_URL"])
    key = [line for line in app.private_key.splitlines() if "-----" not in line]
    tokens = {credential for credential in sent if credential.startswith("ghs_")}
    jwts = {credential for credential in sent if credential.count(".") == 2}
    assert len(tokens) >= 2
    assert jwts
    assert {json.loads(line)["level"] for line in written.splitlines()} >= {"debug", "info", "warning"}
    secrets = {*key, *tokens, *jwts, token, UNKNOWN_TOKEN, DATABASE_PASSWORD, WEBHOOK_SECRET, STRANGERS_SECRET}
    for place in (written, answers, stored):
        assert [piece for secret in secrets for piece in pieces(secret) if piece in place] == []
    assert "ops" in stored, "the token's name, beside its hash"
