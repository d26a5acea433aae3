"""Authorizing an App as a person at a browser, and what the App gets for the code."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from yarl import URL

from github_emulator import EmulatorServer, GitHub, ManualClock
from github_emulator.domain.accounts.user_authorizations import challenge_of
from over_http.browser_forms import Person

CALLBACK = "http://127.0.0.1:1/auth/callback"
VERIFIER = "v" * 43
JSON = {"Accept": "application/json"}


@dataclass
class Flow:
    """An App, a person at a browser, and the App's own requests."""

    github: GitHub
    server: EmulatorServer
    person: Person
    app: Any
    clock: ManualClock

    async def authorize(self, login: str = "mona", *, deny: bool = False, **query: str) -> URL:
        """Where the person is sent after the page; the callback itself does not answer."""
        given = {"client_id": self.app.client_id, "redirect_uri": CALLBACK, "state": "s", **query}
        asked = await self.person.open(URL(f"{self.server.url}/login/oauth/authorize").with_query(given))
        assert asked.status == 200, asked.text
        form = asked.forms[1] if deny else asked.forms[0]
        target = asked.url.join(URL(form.action))
        data = form.filled(login=login)
        async with self.person.session.post(target, data=dict(data), allow_redirects=False) as answer:
            assert answer.status == 302, answer.status
            return URL(answer.headers["Location"])

    async def redeem(self, code: str, **fields: str) -> Any:
        given = {"client_id": self.app.client_id, "client_secret": "shh", "code": code, **fields}
        url = f"{self.server.url}/login/oauth/access_token"
        async with self.person.session.post(url, json=given, headers=JSON) as answer:
            assert answer.status == 200
            return await answer.json()


@pytest.fixture
async def flow(tmp_path: Any) -> AsyncIterator[Flow]:
    """An App with one callback, and mona."""
    clock = ManualClock()
    github = GitHub(clock, seed=1, directory=tmp_path)
    github.create_user("mona")
    app = github.create_app("imq", permissions={}, events=())
    app.client_secret, app.callback_urls = "shh", (CALLBACK,)
    server = EmulatorServer(github)
    await server.start()
    async with Person() as person:
        yield Flow(github, server, person, app, clock)
    await server.stop()
    await github.close()


async def test_code_identifies_the_person_once(flow: Flow) -> None:
    """With the verifier of its challenge; the token names the person, until the App revokes it."""
    back = await flow.authorize(code_challenge=challenge_of(VERIFIER), code_challenge_method="S256")
    assert (back.origin().with_path("/auth/callback"), back.query["state"]) == (URL(CALLBACK), "s")
    given = await flow.redeem(back.query["code"], code_verifier=VERIFIER, redirect_uri=CALLBACK)
    assert (given["token_type"], given["expires_in"]) == ("bearer", 28800)
    headers = {"Authorization": f"Bearer {given['access_token']}"}
    async with flow.person.session.get(f"{flow.server.url}/user", headers=headers) as answer:
        assert (await answer.json())["login"] == "mona"
    again = await flow.redeem(back.query["code"], code_verifier=VERIFIER)
    assert again["error"] == "bad_verification_code"
    revoke = f"{flow.server.url}/applications/{flow.app.client_id}/token"
    basic = {"Authorization": aiohttp.encode_basic_auth(flow.app.client_id, "shh")}
    body = {"access_token": given["access_token"]}
    for expected in (204, 422):
        async with flow.person.session.delete(revoke, json=body, headers=basic) as answer:
            assert answer.status == expected
    async with flow.person.session.get(f"{flow.server.url}/user", headers=headers) as answer:
        assert answer.status == 401


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"code_verifier": "w" * 43}, "bad_verification_code"),
        ({}, "bad_verification_code"),
        ({"code_verifier": VERIFIER, "redirect_uri": "http://127.0.0.1:1/other"}, "redirect_uri_mismatch"),
        ({"code_verifier": VERIFIER, "client_secret": "wrong"}, "incorrect_client_credentials"),
    ],
)
async def test_code_is_refused_in_githubs_words(flow: Flow, fields: dict[str, str], error: str) -> None:
    """A wrong or missing verifier, another redirect_uri, wrong credentials."""
    back = await flow.authorize(code_challenge=challenge_of(VERIFIER), code_challenge_method="S256")
    assert (await flow.redeem(back.query["code"], **fields))["error"] == error


async def test_code_lives_ten_minutes(flow: Flow) -> None:
    """Then it is as wrong as any."""
    back = await flow.authorize()
    flow.clock.advance(timedelta(minutes=10))
    assert (await flow.redeem(back.query["code"]))["error"] == "bad_verification_code"


async def test_person_who_denies_is_sent_back_with_an_error(flow: Flow) -> None:
    """And with the state."""
    back = await flow.authorize(deny=True)
    assert (back.query["error"], back.query["state"]) == ("access_denied", "s")


async def test_private_app_serves_its_owners_people_only(flow: Flow) -> None:
    """A person outside finds nothing (NixOS/org #245)."""
    flow.app.public = False
    with pytest.raises(AssertionError, match="404"):
        await flow.authorize()


async def test_foreign_callback_is_refused_as_both_sources_say(flow: Flow) -> None:
    """By a page, or by an error at the App's first callback."""
    given = {"client_id": flow.app.client_id, "redirect_uri": "https://evil.example/"}
    url = URL(f"{flow.server.url}/login/oauth/authorize").with_query(given)
    assert "not associated with this application" in (await flow.person.open(url)).text
    flow.github.behaviour.redirect_mismatch_returned = True
    async with flow.person.session.get(url, allow_redirects=False) as answer:
        assert URL(answer.headers["Location"]).query["error"] == "redirect_uri_mismatch"
