"""The pages in a real browser: as a newcomer sees them, on a phone, in the dark, without scripts, and by axe."""

from typing import Any, Literal

from playwright.async_api import ViewportSize

from tests.acceptance.world import CI_TIME, LABEL, World
from tests.support.browsing import DESKTOP, PHONE, Visit, findings, log_in, overflow, visiting

QUEUE = "/repositories/acme/widgets/branches/main"
MARKUP = "<img src=x onerror=alert(1)><b>bold</b>"
VIEWS: dict[str, tuple[ViewportSize, Literal["light", "dark"]]] = {
    "desktop": (DESKTOP, "light"),
    "dark": (DESKTOP, "dark"),
    "phone": (PHONE, "light"),
}
"""What a page shows in each, without being loaded again."""


async def fill(world: World) -> dict[str, Any]:
    """Land one pull request, eject one, have one tested and one wait; its title is markup."""
    landed, failing = world.open("landed"), world.open("failing", files={"total": "99\n"})
    for pull in (landed, failing):
        pull.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 4)
    tested = world.open("tested")
    waiting = world.repository.open_pull_request(MARKUP, head="waiting", by="mona", files={"waiting.py": "waiting\n"})
    for pull in (tested, waiting):
        pull.label(LABEL, by="mona")
    await world.until_status(tested, "checking")
    return {"landed": landed, "failing": failing, "tested": tested, "waiting": waiting}


def pages(pulls: dict[str, Any]) -> list[str]:
    """The addresses of all pages that a person may open."""
    return [
        "/",
        QUEUE,
        *(f"/repositories/acme/widgets/pulls/{pull.number}" for pull in pulls.values()),
        f"{QUEUE}/statistics",
        "/statistics",
        "/requests",
        "/account",
        "/no-such-page",
    ]


def url(world: World) -> str:
    """Where the pages are."""
    return world.environment["IMQ_PUBLIC_URL"]


async def test_newcomer_logs_in_and_follows_a_pull_request_from_the_overview(site: World, browser: str) -> None:
    """Each page leads to the next; a person needs no address but the first one."""
    pulls = await fill(site)
    async with visiting(browser) as visit:
        page = visit.page
        await page.goto(f"{url(site)}/")
        await log_in(page, url(site), "mona")
        await page.get_by_role("link", name="Queues").first.click()
        await page.get_by_role("link", name="acme/widgets main").first.click()
        assert page.url == f"{url(site)}{QUEUE}"
        await page.get_by_role("link", name=f"#{pulls['tested'].number}").first.click()
        await page.get_by_text("ci/test").first.wait_for()
        assert "waits for" in await page.inner_text("main") or "checks run" in await page.inner_text("main")
        assert [line for line in visit.faults() if "404" not in line] == []
        assert visit.hosts == {"127.0.0.1"}


async def test_pages_are_accessible_fit_their_window_and_keep_their_own_policy(site: World, browser: str) -> None:
    """Axe finds nothing, nothing is wider than the window, no console has an error, and no other host is asked."""
    pulls = await fill(site)
    async with visiting(browser) as visit:
        await log_in(visit.page, url(site), "rhea")
        found: dict[str, list[str]] = {}
        for path in pages(pulls):
            await visit.page.goto(f"{url(site)}{path}")
            for view, (window, scheme) in VIEWS.items():
                await visit.page.set_viewport_size(window)
                await visit.page.emulate_media(color_scheme=scheme)
                faults = await findings(visit.page)
                if (wide := await overflow(visit.page)) > 0:
                    faults.append(f"{wide} pixels too wide")
                if faults:
                    found[f"{path} ({view})"] = faults
        assert found == {}
        assert [line for line in visit.faults() if "404" not in line] == []
        assert visit.hosts == {"127.0.0.1"}


async def test_pages_say_the_same_without_scripts(site: World, browser: str) -> None:
    """Scripts only keep a page up to date."""
    pulls = await fill(site)
    read: list[dict[str, str]] = []
    for scripts in (True, False):
        async with visiting(browser, scripts=scripts) as visit:
            await log_in(visit.page, url(site), "rhea")
            read.append({path: await _text(visit, f"{url(site)}{path}") for path in pages(pulls)})
    assert read[0] == read[1]
    assert MARKUP in read[0][QUEUE], "markup is text"


async def _text(visit: Visit, address: str) -> str:
    await visit.page.goto(address)
    lines = (await visit.page.inner_text("main")).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("Live", "Refresh")))


async def test_private_repository_is_invisible_to_others(site: World, browser: str) -> None:
    """Someone without access gets the same page for a hidden repository as for one that does not exist."""
    pulls = await fill(site)
    outsider = "outsider-" + "w" * 30
    site.github.create_user(outsider)
    async with visiting(browser, viewport={"width": 320, "height": 640}) as visit:
        await log_in(visit.page, url(site), outsider)
        for path in [each for each in pages(pulls) if "acme" in each]:
            hidden = await visit.page.goto(f"{url(site)}{path}")
            shown = await visit.page.inner_text("main")
            unknown = await visit.page.goto(f"{url(site)}{path.replace('widgets', 'gadgets')}")
            assert hidden is not None
            assert unknown is not None
            assert (hidden.status, shown) == (unknown.status, await visit.page.inner_text("main")) == (404, shown)
        for path in ("/", "/statistics", "/requests"):
            await visit.page.goto(f"{url(site)}{path}")
            assert await overflow(visit.page) <= 0, "the longest login of GitHub fits a small phone"
            content = await visit.page.content()
            assert "acme" not in content
            assert "widgets" not in content
