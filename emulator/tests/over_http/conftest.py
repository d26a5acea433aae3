"""A world with a repository, its app and its people, served over HTTP; every success is checked against its schema."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import jwt
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from multidict import CIMultiDict
from yarl import URL

from github_emulator import EmulatorServer, GitHub, KeyPair, ManualClock
from github_emulator.rest.apps.graphql import TEMPLATE as GRAPHQL
from github_schemas import octokit
from github_schemas.schemas import check_answer

KEY = KeyPair()
"""The app's key, made once."""
PERMISSIONS = {
    "metadata": "read",
    "actions": "write",
    "administration": "read",
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "pull_requests": "write",
    "statuses": "write",
    "members": "read",
}
EVENTS = (
    "pull_request",
    "push",
    "check_run",
    "check_suite",
    "status",
    "workflow_run",
    "issue_comment",
    "pull_request_review",
    "pull_request_review_comment",
    "pull_request_review_thread",
    "branch_protection_configuration",
    "branch_protection_rule",
    "repository_ruleset",
    "label",
    "membership",
    "team",
    "repository",
    "delete",
    "create",
)
R = "/repos/acme/widgets"
"""The repository's place in the API."""


@dataclass
class Answer:
    """One answer as a client receives it."""

    status: int
    content: Any
    headers: CIMultiDict[str]
    template: str

    def __getitem__(self, key: Any) -> Any:
        return self.content[key]


@dataclass
class Receiver:
    """Where the app's webhooks arrive; answers them all with `status`."""

    status: int = 202
    received: list[tuple[dict[str, str], Any]] = field(default_factory=list)

    async def receive(self, request: web.Request) -> web.Response:
        self.received.append((dict(request.headers), await request.json()))
        return web.Response(status=self.status)


@dataclass
class Client:
    """Calls the API as the app's installation, as the app, as a person, or anonymously."""

    github: GitHub
    server: EmulatorServer
    session: ClientSession
    app: Any
    installation: Any
    repo: Any
    clock: ManualClock
    receiver: Receiver
    visited: set[str] = field(default_factory=set)

    def jwt(self, **claims: Any) -> str:
        """The app's JSON web token at the emulator's time."""
        now = int(self.clock.now().timestamp())
        content = {"iat": now - 60, "exp": now + 540, "iss": str(self.app.id), **claims}
        content = {name: value for name, value in content.items() if value is not None}
        return jwt.encode(content, self.app.private_key, algorithm="RS256")

    def installation_token(self, permissions: dict[str, str] | None = None) -> str:
        """A token of the app's installation, as the access token endpoint issues it."""
        return self.server.tokens.issue(self.installation, permissions or PERMISSIONS, None).text

    def authorization(self, who: str) -> dict[str, str]:
        """`app`, `installation`, `anonymous`, or a login."""
        if who == "anonymous":
            return {}
        if who == "app":
            return {"Authorization": f"Bearer {self.jwt()}"}
        token = self.installation_token() if who == "installation" else self.server.user_token(who)
        return {"Authorization": f"Bearer {token}"}

    async def call(
        self,
        method: str,
        path: str,
        expect: int | None = None,
        *,
        who: str = "installation",
        json_body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request (percent-encoded path, or absolute address); a success is checked against GitHub's schema."""
        if not path.startswith("http"):
            path = self.server.url + path
        sent = {**self.authorization(who), **(headers or {})}
        async with self.session.request(
            method, URL(path, encoded=True), json=json_body, headers=sent, allow_redirects=False
        ) as response:
            text = await response.text()
            status, received = response.status, CIMultiDict(response.headers)
        kind = received.get("Content-Type", "")
        raw = ".raw+json" in kind
        content = json.loads(text) if text and "json" in kind and not raw else text or None
        template = self.server.requests[-1].template
        answer = Answer(status, content, received, template)
        assert expect is None or status == expect, f"{method} {path}: {status} {text[:500]}"
        if status < 300 and not raw and method != "HEAD" and template != GRAPHQL:
            check_answer(template, status, content)
            self.visited.add(template)
        elif status == 302:
            self.visited.add(template)
        elif template.endswith("/merge-async") and status in (400, 409):
            check_answer(template, status, content)
        elif status >= 400 and isinstance(content, dict):
            assert content.keys() >= {"message", "documentation_url", "status"}
            assert content["status"] == str(status)
            octokit.check_answer(template, status, content)
        return answer

    async def get(self, path: str, expect: int | None = 200, **options: Any) -> Answer:
        return await self.call("GET", path, expect, **options)

    async def settle(self, seconds: float = 1) -> None:
        """Lets the emulator's background work happen."""
        await self.github.schedule.advance(timedelta(seconds=seconds))


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """The app installed on acme, whose repository has a maintainer, an author and a triager."""
    receiver = Receiver()
    hooks = web.Application()
    hooks.router.add_post("/webhook", receiver.receive)
    hook_server = TestServer(hooks)
    await hook_server.start_server()
    clock = ManualClock()
    github = GitHub(clock, seed=1)
    for login in ("acme", "maria", "ann", "tom", "stranger"):
        github.create_user(login)
    app = github.create_app(
        "imq", permissions=PERMISSIONS, events=EVENTS, webhook_url=str(hook_server.make_url("/webhook"))
    )
    app.key = KEY
    repo = github.create_repository(
        "acme/widgets",
        files={"README.md": "Widgets\n", "docs/a.txt": "a\n"},
        collaborators={"maria": "maintain", "ann": "write", "tom": "triage"},
    )
    installation = github.install(app, "acme")
    server = EmulatorServer(github)
    await server.start()
    session = ClientSession()
    session._retry_connection = False  # aiohttp would send a PUT again when the connection is cut, and hide the cut
    try:
        yield Client(github, server, session, app, installation, repo, clock, receiver)
    finally:
        await session.close()
        await server.stop()
        await github.close()
        await hook_server.close()
    for headers, payload in receiver.received:
        octokit.check_webhook(headers["X-GitHub-Event"], payload)
