"""People in a real browser: what their pages show, ask for and write to the console."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import BrowserContext, Page, ViewportSize, async_playwright

from tests.support.real_time import LIMIT

PHONE: ViewportSize = {"width": 390, "height": 844}
DESKTOP: ViewportSize = {"width": 1280, "height": 800}


@dataclass
class Visit:
    """What one person's browser did: its pages, their console, and every address that they asked for."""

    context: BrowserContext
    page: Page
    console: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def watch(self, page: Page) -> None:
        """Keep what the pages write to the console, and the hosts that they ask."""
        page.on("console", lambda line: self.console.append(f"{line.type}: {line.text} ({line.location['url']})"))
        page.on("pageerror", lambda error: self.console.append(f"error: {error.message}"))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).hostname or request.url))

    def faults(self) -> list[str]:
        """Return errors and warnings of the console; an answer with an error status is a line of its own there."""
        return [line for line in self.console if line.startswith(("error", "warning"))]


@asynccontextmanager
async def visiting(address: str, *, scripts: bool = True, **options: Any) -> AsyncIterator[Visit]:
    """One person's browser, with cookies of its own."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.connect_over_cdp(address)
        context = await browser.new_context(java_script_enabled=scripts, **({"viewport": DESKTOP} | options))
        context.set_default_timeout(LIMIT * 1000)
        try:
            visit = Visit(context, await context.new_page())
            visit.watch(visit.page)
            yield visit
        finally:
            await context.close()
            await browser.close()


async def log_in(page: Page, url: str, person: str) -> None:
    """Log a person in by the emulator's page of GitHub, beginning at IMQ's page for it."""
    await page.goto(f"{url}/login")
    await page.get_by_role("link", name="Log in with GitHub").click()
    await page.get_by_label("Person").fill(person)
    await page.get_by_role("button", name="Authorize").click()
    await page.get_by_text(person).first.wait_for()


async def findings(page: Page, *, allowed: str | None = None) -> list[str]:
    """Return what axe finds wrong on a page, with the elements, except by one `allowed` rule."""
    results = await Axe().run(page)
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: "
        + "; ".join(node["html"][:160] for node in each["nodes"][:3])
        for each in results.response["violations"]
        if each["id"] != allowed
    ]


async def overflow(page: Page) -> int:
    """Return by how many pixels a page is wider than its window."""
    wide: int = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return wide
