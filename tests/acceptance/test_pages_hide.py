"""What people see on the pages of a real bot: never a repository that GitHub hides from them."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.api.permissions import CACHED_FOR, MAX_LOOKUPS
from bot.web.pages.site import ROUTES
from queue_engine.domain.model import Repository
from tests.acceptance.browsing import HOME, SETTINGS, Browser, allow_login, forms
from tests.acceptance.project import FILES
from tests.acceptance.test_hidden_repositories import HIDDEN, MISSING, WORDS, hide
from tests.acceptance.world import LABEL, World, a_world

READ = "GET /repositories/{repository_id}"
VARIABLE = re.compile(r"\{(\w+)(?::[^{}]*(?:\{[^{}]*\}[^{}]*)*)?\}")
VALUES = {"number": "1", "branch": "operation-dusk", "id": "0" * 32}
UNKNOWN = "IMQ does not know yet of each repository"
_CHANGING = ("Date", "Content-Length")
OPEN_PAGES = {"/login/github", "/auth/callback", "/login"}
"""Pages that a person who is not logged in may open."""
STREAMS = {"/events"}
"""They have no end: `test_event_streams.py` reads them."""


@asynccontextmanager
async def a_site(path: Path, **settings: str) -> AsyncIterator[World]:
    """A world in which people can log in, with a hidden repository and a public one, each with a queue."""
    async with a_world(path, settings={**SETTINGS, **settings}) as world:
        allow_login(world)
        await hide(world)
        public = world.github.create_repository("acme/open", files=FILES, private=False)
        public.open_pull_request("Seen", head="seen", by="acme", files={"seen.py": "x\n"}).label(LABEL, by="acme")
        await world.pass_time(timedelta(seconds=30))
        yield world


def routes(world: World) -> list[tuple[str, str]]:
    """Every page that the real application routes, with the variables of its path."""
    return sorted((method, VARIABLE.sub(r"{\1}", path)) for method, path in world.bot.application()[ROUTES])


def path_of(template: str, repository: str) -> str:
    """The page about this repository."""
    owner, _, name = repository.partition("/")
    return template.format(**{"owner": owner, "repo": name, **VALUES})


def same(text: str, repository: str) -> str:
    """A page without the name that was asked for."""
    for name in (repository, repository.partition("/")[2]):
        text = text.replace(name, "NAME").replace(name.replace("/", "%2F"), "NAME")
    return text


async def csrf_of(browser: Browser) -> str:
    """The secret field of a person's forms."""
    return forms((await browser.get("/account")).text)[0][1]["csrf"]


async def test_no_page_shows_a_hidden_repository(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """Neither without a login, nor to a person without the right; each route answers as for one that is missing."""
    async with a_site(tmp_path, IMQ_PUBLIC_PAGES="1") as world:
        anonymous, stranger = Browser(world, session), Browser(world, session)
        await stranger.log_in("stranger")
        sent = {"csrf": await csrf_of(stranger)}
        for method, template in routes(world):
            if template in OPEN_PAGES | STREAMS or template.startswith("/logout"):
                continue
            for browser in (anonymous, stranger):
                answers = []
                for name in (HIDDEN, MISSING):
                    path = path_of(template, name)
                    shown = await (browser.get(path) if method == "GET" else browser.post(path, sent, Origin=HOME))
                    headers = {key: each for key, each in shown.headers.items() if key not in _CHANGING}
                    answers.append((shown.status, same(shown.text, name), same(str(headers), name)))
                assert answers[0] == answers[1], template
                assert not [word for word in WORDS if word in answers[0][1] and word != "operation-dusk"], template
        assert len([each for each in await world.entries() if each.repository.full_name == HIDDEN]) == 1


@pytest.mark.thorough
async def test_every_form_needs_a_session_and_its_secret(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """No route changes anything for another site."""
    async with a_site(tmp_path, IMQ_PUBLIC_PAGES="1") as world:
        anonymous, mona = Browser(world, session), Browser(world, session)
        await mona.log_in("mona")
        posts = [template for method, template in routes(world) if method != "GET"]
        assert {"/logout", "/logout/everywhere"} <= set(posts)
        for template in posts:
            path = path_of(template, HIDDEN)
            assert (await anonymous.post(path, {"csrf": ""})).status == 403
            assert (await mona.post(path, {})).status == 403
            assert (await mona.post(path, {"csrf": await csrf_of(mona)}, Origin="https://evil.example")).status == 403
        assert (await mona.get("/account")).status == 200


@pytest.mark.thorough
async def test_overview_lists_what_github_lets_a_person_read(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """By person, for an operator, and without a login."""
    async with a_site(tmp_path, IMQ_PUBLIC_PAGES="1", IMQ_OPERATORS="rhea") as world:
        names = ("acme/widgets", HIDDEN, "acme/open")
        world.open("add").label(LABEL, by="mona")
        await world.pass_time(timedelta(seconds=30))
        for login, expected in (
            (None, {"acme/open"}),
            ("stranger", {"acme/open"}),
            ("tria", {"acme/open", "acme/widgets"}),
            ("mona", set(names)),
            ("rhea", set(names)),
        ):
            browser = Browser(world, session)
            if login is not None:
                await browser.log_in(login)
            text = (await browser.get("/")).text
            assert {name for name in names if name in text} == expected, login


async def test_pages_say_that_github_has_not_answered_about_all_repositories(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """IMQ asks about some at a time: until then lists and figures of several repositories are incomplete."""
    for settings in ({}, {"IMQ_PUBLIC_PAGES": "1"}):
        async with a_site(tmp_path / str(len(settings)), **settings) as world:
            async with world.bot.engine.change() as change:
                for number in range(MAX_LOOKUPS):
                    more = Repository(10_000_000 + number, "acme", f"more-{number}", 1)
                    await change.tx.queues.find_or_create(more, "main", change.now)
            browser = Browser(world, session)
            if not settings:
                await browser.log_in()
            assert [UNKNOWN in (await browser.get("/")).text for _ in range(2)] == [True, False]
            assert UNKNOWN not in (await browser.get("/statistics")).text
            world.clock.set(world.clock.now() + CACHED_FOR)
            assert [UNKNOWN in (await browser.get("/statistics")).text for _ in range(2)] == [True, False]


@pytest.mark.thorough
async def test_person_who_lost_the_right_sees_nothing_after_minutes(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """The session stays, its rights do not."""
    async with a_site(tmp_path) as world:
        mona = Browser(world, session)
        await mona.log_in("mona")
        assert HIDDEN in (await mona.get("/")).text
        del world.github.repository(HIDDEN).record.collaborators["mona"]
        world.clock.set(world.clock.now() + timedelta(minutes=5))
        assert HIDDEN not in (await mona.get("/")).text


@pytest.mark.thorough
async def test_renamed_person_keeps_their_rights_and_the_next_owner_of_the_login_has_none(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """A session belongs to GitHub's id."""
    async with a_site(tmp_path) as world:
        mona, thief = Browser(world, session), Browser(world, session)
        await mona.log_in("mona")
        users, hidden = world.github.state.users, world.github.repository(HIDDEN).record
        person = users.pop("mona")
        person.login = "mona-new"
        users["mona-new"] = person
        hidden.collaborators["mona-new"] = hidden.collaborators.pop("mona")
        world.github.create_user("mona")
        await thief.log_in("mona")
        assert HIDDEN not in (await thief.get("/")).text
        assert HIDDEN in (await mona.get("/")).text
        assert "<dd>mona-new</dd>" in (await mona.get("/account")).text


@pytest.mark.thorough
async def test_hidden_repository_takes_as_many_requests_as_a_missing_one(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """For a person without the right, and for one who is not logged in: no clock distinguishes them."""
    async with a_site(tmp_path, IMQ_PUBLIC_PAGES="1") as world:
        mona, stranger, anonymous = (Browser(world, session) for _ in range(3))
        await mona.log_in("mona")
        # IMQ asks about this repository in place of one that it does not know: it has a token for both.
        for browser in (mona, anonymous):
            await browser.get("/repositories/acme/widgets/pulls/1")
        await stranger.log_in("stranger")
        for browser, status in ((stranger, 404), (anonymous, 303)):
            counts = []
            for name in (HIDDEN, MISSING):
                for _ in range(2):
                    before = world.requests()
                    assert (await browser.get(f"/repositories/{name}/pulls/1")).status == status
                    counts.append(world.requests() - before)
            assert counts[:2] == counts[2:] == [1, 0]


@pytest.mark.thorough
async def test_repository_is_public_only_while_github_says_so(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """A webhook hides it at once, time within minutes, and a fault of GitHub as well; the setting is off by default."""
    async with a_site(tmp_path, IMQ_PUBLIC_PAGES="1") as world:
        anonymous = Browser(world, session)
        handle: Any = world.github.repository("acme/open")

        async def shown() -> bool:
            return "acme/open" in (await anonymous.get("/")).text

        assert await shown()
        before = world.requests(READ)
        assert await shown()
        assert world.requests(READ) == before
        handle.set_private(True, by="acme")
        await world.settle()
        assert not await shown()
        handle.set_private(False, by="acme")
        await world.settle()
        assert await shown()
        handle.set_private(True, by="acme", webhook=False)
        assert await shown()
        world.clock.set(world.clock.now() + timedelta(minutes=5))
        assert not await shown()


@pytest.mark.thorough
async def test_public_pages_are_closed_by_default(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """IMQ asks GitHub nothing for a person who is not logged in."""
    async with a_site(tmp_path) as world:
        before = world.requests()
        assert (await Browser(world, session).get("/")).location == "/login?to=/"
        assert world.requests() == before
