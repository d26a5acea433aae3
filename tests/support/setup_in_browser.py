"""The registration in a real browser, as one person does it: for the test, and for the pictures in the documents."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from playwright.async_api import Page, async_playwright

from tests.support.setup_process import Imq, World

OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""Chromium as root, in a machine without a screen and without the internet."""

Step = Callable[[str], Awaitable[None]]


def chromium() -> str | None:
    """Where Chromium is, as Debian and others install it; None if it is missing."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@asynccontextmanager
async def browser_page(executable: str) -> AsyncIterator[Page]:
    """A page of a new browser that runs no scripts."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=list(OPTIONS))
        context = await browser.new_context(java_script_enabled=False, viewport={"width": 900, "height": 420})
        try:
            yield await context.new_page()
        finally:
            await browser.close()


async def register(page: Page, place: World, imq: Imq, step: Step) -> None:
    """Go from the code of the log to the green page; `step` is called on each page, with its name."""
    opened = await imq.until("setup_page_open")
    await imq.until("listening")
    await page.goto(f"{opened['page']}?code={opened['code']}")
    await step("code")
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_label("Name of the App").fill("IMQ of acme")
    await page.get_by_label("administration: read").uncheck()
    await step("permissions")
    await page.get_by_role("button", name="Continue").click()
    await step("hand-over")
    await page.get_by_role("button", name="Continue to GitHub").click()
    await step("github")
    await page.get_by_role("button", name="Create GitHub App").click()
    await step("registered")
    await page.get_by_role("link", name="Install the App").click()
    await page.get_by_role("button", name="Install").click()
    await page.get_by_text("The first webhook has arrived").wait_for(timeout=30_000)
    await step("ready")
