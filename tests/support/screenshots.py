"""Pictures of every page in six situations, from the emulator, and those of the documents: `make screenshots`.

All go to `build/screenshots`, named by situation, page, window and colours, to look at after a change of the pages.
`ARGS="bisecting red-base"` selects situations; the documents' pictures are renewed where theirs are among them.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from docs.screens import failure
from queue_engine.domain.departure import Departure
from queue_engine.domain.model import EntryStatus
from tests.acceptance.browsing import SETTINGS
from tests.acceptance.page_readers import reader
from tests.acceptance.template import ROOT
from tests.acceptance.train_world import a_train_world
from tests.acceptance.world import CI_TIME, LABEL, World
from tests.support.browsing import DESKTOP, PHONE, log_in, visiting
from tests.support.chromium import chromium, chromium_process
from tests.support.ports import held_port

FOLDER = ROOT / "build" / "screenshots"
DOCUMENTS = ROOT / "docs" / "img"
QUEUE = "/repositories/acme/widgets/branches/main"
MAINTAINER = "rhea"
ZONE = "Europe/Berlin"
MINUTE = timedelta(minutes=1)

VIEWS: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": DESKTOP},
    "desktop-dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone": {"viewport": PHONE},
    "phone-dark": {"viewport": PHONE, "color_scheme": "dark"},
}
SHOWN_IN_DOCUMENTS = {
    ("running", "queue", "desktop"): "page-train",
    ("running", "queue", "desktop-dark"): "page-train-dark",
    ("bisecting", "overview", "desktop"): "page-overview",
    ("bisecting", "queue", "desktop"): "page-queue",
    ("bisecting", "queue", "desktop-dark"): "page-queue-dark",
    ("bisecting", "queue", "phone"): "page-queue-phone",
    ("red-base", "pull-request", "desktop"): "page-pull-request",
    ("bisecting", "requests", "desktop"): "page-requests",
    ("bisecting", "statistics", "desktop"): "page-statistics",
}
"""Which pictures the documents show, and under which name."""

TITLES = (
    "Warm the pot before brewing",
    "Offer rooibos",
    "Rename steep to infuse",
    "Count cups, not litres",
    "Write down how to release",
    "Pour slowly",
    "Let guests choose the milk",
    "Move the settings page to the new router, with redirects for every old address",
    "Type the events",
    "Update the kettle",
)


def open_pulls(world: World, count: int, *, bad: int | None = None, prefix: str = "change") -> list[Any]:
    """Open pull requests with titles that people write; the one at `bad` is green alone and red behind the base."""
    people = ("mona", "hubot", "rhea")
    return [
        world.repository.open_pull_request(
            TITLES[number % len(TITLES)],
            head=f"{prefix}-{number}",
            by=people[number % len(people)],
            files={f"{prefix}-{number}.txt": "8\n" if number == bad else "0\n"},
        )
        for number in range(count)
    ]


async def idle(world: World) -> int:
    """All is landed."""
    return await past(world)


async def running(world: World) -> int:
    """A run tests three, and two that came later wait."""
    await past(world)
    pulls = open_pulls(world, 5)
    await world.pass_time(CI_TIME * 2)
    for pull in pulls[:3]:
        pull.label(LABEL, by="mona")
    await world.pass_time(MINUTE)
    for pull in pulls[3:]:
        pull.label(LABEL, by="mona")
    await world.pass_time(MINUTE)
    return int(pulls[0].number)


async def bisecting(world: World) -> int:
    """A run of four failed; a smaller one is under way, others wait, and one is not ready."""
    await past(world)
    pulls = open_pulls(world, 8, bad=2)
    draft = world.repository.open_pull_request("Try another font", head="font", by="mona", files={"font.css": "font\n"})
    draft.convert_to_draft(by="mona")
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"two.txt": "2\n"}, "Two more", by="rhea")
    await world.pass_time(CI_TIME * 2)
    for pull in (*pulls[:4], draft):
        pull.label(LABEL, by="mona")
    await world.pass_time(CI_TIME + MINUTE)
    for pull in pulls[4:]:
        pull.label(LABEL, by="mona")
    await world.pass_time(MINUTE)
    return int(pulls[2].number)


async def red_base(world: World) -> int:
    """Somebody broke the base by hand, and three wait."""
    await past(world)
    pulls = open_pulls(world, 3)
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"limits.txt": "20\n"}, "Raise the limits", by="rhea")
    await world.pass_time(CI_TIME * 2)
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 5)
    return int(pulls[0].number)


async def paused(world: World) -> int:
    """A maintainer paused the queue, and two wait."""
    await past(world)
    pulls = open_pulls(world, 2)
    await world.pass_time(CI_TIME * 2)
    async with reader(world, MAINTAINER) as rhea:
        await rhea.post(f"{QUEUE}/pause", reason="the release of 9.2")
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 3)
    return int(pulls[0].number)


async def waiting(world: World) -> int:
    """Five hundred wait behind the run."""
    number = await running(world)
    async with world.bot.engine.store.transaction() as tx:
        queue = next(each for each in await tx.queues.all() if each.base_branch == "main")
        for place in range(500):
            await tx.entries.add(
                queue_id=queue.id,
                number=10_000 + place,
                title=TITLES[place % len(TITLES)],
                author=("mona", "hubot", "rhea")[place % 3],
                queued_by="mona",
                queued_head=f"{place:040x}",
                enqueued_at=world.clock.now(),
            )
    return number


SITUATIONS: dict[str, Callable[[World], Awaitable[int]]] = {
    "idle": idle,
    "running": running,
    "bisecting": bisecting,
    "red-base": red_base,
    "paused": paused,
    "500-waiting": waiting,
}
"""How each situation comes about; each returns the pull request whose page is shown."""


async def past(world: World) -> int:
    """Land some, eject one, and have a week behind; returns one that landed."""
    pulls = open_pulls(world, 6, prefix="past")
    failing = world.repository.open_pull_request("Offer oolong", head="oolong", by="mona", files={"oolong.txt": "9\n"})
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"some.txt": "2\n"}, "Some", by="rhea")
    await world.pass_time(CI_TIME * 2)
    for pull in (*pulls, failing):
        pull.label(LABEL, by="mona")
        await world.pass_time(MINUTE)
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.until_status(failing, None)
    await world.pass_time(MINUTE)
    await add_week(world)
    return int(pulls[0].number)


async def add_week(world: World) -> None:
    """What landed on the days before, of this queue, and a quiet queue beside it."""
    other = world.github.create_repository(
        "acme/recipes", files={"README.md": "Recipes\n"}, collaborators={"mona": "write", MAINTAINER: "admin"}
    )
    await world.pass_time(MINUTE)
    now = world.clock.now()
    async with world.bot.engine.store.transaction() as tx:
        (queue,) = await tx.queues.all()
        beside = replace(queue.repository, id=other.record.id, name="recipes")
        await tx.queues.find_or_create(beside, "main", now)
        for number, days in enumerate((1, 1, 1, 2, 3, 3, 3, 3, 4, 5, 5, 6)):
            repository = beside if number % 5 == 4 else queue.repository
            waited = 500.0 + 120 * number
            await tx.departures.put(
                Departure(
                    id=1_000_000 + number,
                    entry_id=f"{number:032x}",
                    repository_id=repository.id,
                    base_branch="main",
                    number=5_000 + number,
                    title=TITLES[number % len(TITLES)],
                    author="mona",
                    enqueued_at=now - timedelta(days=days, seconds=waited),
                    left_at=now - timedelta(days=days),
                    outcome=EntryStatus.LANDED,
                    reason=None,
                    waited=waited,
                    capacity=waited - 200,
                    checks=180.0,
                    paused=0.0,
                    base_red=0.0,
                    other=20.0,
                    ci_seconds=360.0,
                    reruns=0,
                )
            )


@asynccontextmanager
async def a_site(directory: Path) -> AsyncIterator[World]:
    """A world with trains whose bot has pages at a public address of this machine."""
    with held_port() as port:
        home = f"http://127.0.0.1:{port}"
        settings = SETTINGS | {"IMQ_PUBLIC_URL": home, "PORT": str(port)}
        async with a_train_world(directory, settings=settings) as world:
            world.app.client_secret = SETTINGS["IMQ_GITHUB_CLIENT_SECRET"]
            world.app.callback_urls = (f"{home}/auth/callback",)
            # Half of a picture is what IMQ is about to do.
            world.unsettled = "a picture is taken"
            yield world


async def main() -> None:
    """Take the pictures of the situations that the arguments name, or of all."""
    executable = chromium()
    if executable is None:
        sys.exit("There is no Chromium: install Debian's package chromium.")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, chromium_process(executable, Path(directory, "c")) as browser:
        await picture_comment(browser)
        for name in sys.argv[1:] or SITUATIONS:
            async with a_site(Path(tempfile.mkdtemp(dir=directory))) as world:
                number = await SITUATIONS[name](world)
                await take(browser, world, name, number)


COMMENT = """<!doctype html><meta charset="utf-8"><style>
body { font: 14px/1.5 sans-serif; color: #1f2328; margin: 0; padding: 12px; width: 860px }
div { border: 1px solid #d1d9e0; border-radius: 6px; overflow: hidden }
h6 { margin: 0; padding: 8px 16px; background: #f6f8fa; border-bottom: 1px solid #d1d9e0; font: inherit }
h6 { color: #59636e } h6 b { color: #1f2328 } s { color: #cf222e; text-decoration: none }
h6 i { border: 1px solid #d1d9e0; border-radius: 2em; padding: 0 7px; font: 12px sans-serif }
blockquote { margin: 0; padding: 2px 16px } a { color: #0969da } li { margin: 0 }
code { background: #eff1f3; border-radius: 6px; padding: .2em .4em; font: 85% monospace }
</style><div><h6><b>imq</b> <i>bot</i> commented now</h6>"""


async def picture_comment(browser: str) -> None:
    """Take the picture of the comment that the README leads with, as GitHub shows comments."""
    # Debian's Chromium has no font with coloured signs.
    text = failure().replace("❌", "<s>✖</s>")
    async with visiting(browser, viewport={"width": 884, "height": 100}, device_scale_factor=2) as visit:
        await visit.page.set_content(COMMENT + MarkdownIt().render(text))
        await visit.page.screenshot(path=DOCUMENTS / "comment.png", full_page=True)


def addresses(number: int) -> dict[str, str]:
    """The pages, by the names of their pictures."""
    return {
        "overview": "/",
        "queue": QUEUE,
        "pull-request": f"/repositories/acme/widgets/pulls/{number}",
        "requests": "/requests",
        "statistics": f"{QUEUE}/statistics",
        "dead-letters": "/dead-letters",
        "account": "/account",
        "not-found": "/no-such-page",
    }


async def take(browser: str, world: World, situation: str, number: int) -> None:
    """Take a picture of each page in each window, and say where a page is wider than a phone, or long."""
    url = world.environment["IMQ_PUBLIC_URL"]
    for view, options in VIEWS.items():
        async with visiting(browser, timezone_id=ZONE, **options) as visit:
            await log_in(visit.page, url, MAINTAINER)
            for page, path in addresses(number).items():
                await visit.page.goto(f"{url}{path}", wait_until="load")
                await visit.page.screenshot(path=FOLDER / f"{situation}-{page}-{view}.png", full_page=True)
                if (name := SHOWN_IN_DOCUMENTS.get((situation, page, view))) is not None:
                    await visit.page.screenshot(path=DOCUMENTS / f"{name}.png")
                high = await visit.page.evaluate("document.documentElement.scrollHeight / innerHeight")
                wide = await visit.page.evaluate("document.documentElement.scrollWidth - innerWidth")
                print(f"{situation} {page} {view}: {high:.1f} screens{', TOO WIDE' if wide > 0 else ''}")


if __name__ == "__main__":
    asyncio.run(main())
