"""The registration in a real browser, as one person does it: for the test, and for the pictures in the documents."""

from collections.abc import Awaitable, Callable

from playwright.async_api import Page

from tests.support.setup_process import Imq, World

WINDOW = {"width": 900, "height": 420}

Step = Callable[[str], Awaitable[None]]


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
    await page.get_by_text("The first webhook has arrived").wait_for()
    await step("ready")
