"""Text from others on the pages of queues and pull requests: it is shown as text, and its links lead to the web only.

Titles, authors, branches, check names and reasons come from people; links of checks from every App.
"""

from dataclasses import replace
from urllib.parse import quote

import pytest

from queue_engine.control import pauses
from queue_engine.domain.model import Pause, TimelineEvent
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import CheckTiming, Run, RunState
from tests.acceptance.page_readers import Page, reader
from tests.acceptance.world import LABEL, World

MARKUP = "</title><script>alert(1)</script><img src=x onerror=alert(2)>\"'><a href=javascript:alert(3)>{{ 7*7 }}`"
BRANCH = "a</title><script>alert('b')</script>\"'`&amp;"
LINK = "javascript:alert(document.domain)"
WITH_PASSWORD = "https://user:password@ci.example/"  # pragma: allowlist secret
ALLOWED = ("/", "#", "https://github.com/", "https://ci.example/")


async def strange_queue(world: World) -> tuple[int, str]:
    """A queue all of whose texts are markup; returns the number of its pull request, and the address of its page."""
    pull = world.open("add")
    pull.label(LABEL, by="mona")
    await world.settle()
    async with world.bot.engine.store.reading() as tx:
        repository = (await tx.queues.all())[0].repository
    async with world.bot.engine.change() as change:
        tx, now = change.tx, change.now
        queue = await tx.queues.find_or_create(repository, BRANCH, now)
        entry = await tx.entries.add(
            queue_id=queue.id,
            number=77,
            title=MARKUP,
            author=MARKUP,
            queued_by=MARKUP,
            queued_head="head",
            enqueued_at=now,
        )
        timings = (
            CheckTiming(MARKUP, LINK, now),
            CheckTiming(f"{MARKUP} 2", WITH_PASSWORD, now, now, passed=False),
            CheckTiming("sound", "https://ci.example/1?a=1&b=2", now, now, passed=True),
        )
        run = Run(state=RunState.TESTING, started_at=now, candidate=MARKUP, timings=timings, pending_checks=(MARKUP,))
        await tx.entries.save(replace(entry, run=run))
        await pauses.pause(change, repository, BRANCH, by=MARKUP, reason=MARKUP)
        await tx.pauses.put(queue.id, Pause(Reason.TREE_MISMATCH, MARKUP, now, None, MARKUP))
        data = {"head": MARKUP, "base_tip": MARKUP, "tested": MARKUP, "check_seconds": {MARKUP: 7.0}, "by": MARKUP}
        failing = [
            {"check": MARKUP, "url": LINK, "jobs": [MARKUP]},
            {"check": "quoted", "url": 'https://ci.example/"onmouseover="alert(1)', "jobs": []},
            {"check": "secret", "url": WITH_PASSWORD, "jobs": []},
        ]
        for number, word in ((77, "checking"), (77, "updating"), (78, "failed"), (77, "unknown")):
            facts = data | {"failing": failing, "detail": MARKUP, "checks": [MARKUP]}
            reason = Reason.CHECKS_FAILED if word == "failed" else None
            await tx.timeline.append(TimelineEvent(now, word, repository.id, BRANCH, number, "e", reason, data=facts))
    return 77, f"/repositories/acme/widgets/branches/{quote(BRANCH, safe='')}"


def assert_harmless(page: Page) -> None:
    """No tag, no handler and no address of others."""
    assert page.status == 200
    assert not page.tags & {"iframe", "style"}, page.tags
    assert page.html.count("<script") == page.html.count('<script type="module" src="/static/'), "IMQ's own scripts"
    assert page.html.count("<img") == 1, "the icon of IMQ"
    assert [link for link in page.links if not link.startswith(ALLOWED)] == []
    assert "49" not in page.text


async def test_markup_of_others_is_text_on_every_page(world: World) -> None:
    """People read it as it was written; nothing of it runs."""
    number, queue = await strange_queue(world)
    address = f"/repositories/acme/widgets/pulls/{number}"
    async with reader(world, "rhea") as rhea:
        pages = {
            path: await rhea.get(path)
            for path in (
                "/",
                "/repositories/acme/widgets",
                queue,
                address,
                f"{address}?at=2026-01-02",
                "/repositories/acme/widgets/pulls/78",
                f"{address}/confirm?do=dequeue",
                f"{address}/confirm?do=priority&priority=high",
                f"{queue}?done={quote(MARKUP)}",
            )
        }
    for page in pages.values():
        assert_harmless(page)
    assert "<script>alert(1)</script>" in pages[queue].text
    assert "<script>alert('b')</script>" in pages[queue].text
    assert "https://ci.example/1?a=1&b=2" in pages[queue].links
    assert not any("password" in page.html for page in pages.values())
    assert "{{ 7*7 }}" in pages[address].text


@pytest.mark.parametrize(
    "query", ["at=%3Cscript%3E", "at=9999-12-31T23:59:59-14:00", "at=0001-01-01T00:00:00%2B14:00", "at=now"]
)
async def test_instant_that_cannot_be_read_is_refused_in_words(world: World, query: str) -> None:
    """As every bad input: what is wrong, and what to write."""
    pull = world.open("add")
    pull.label(LABEL, by="mona")
    await world.settle()
    async with reader(world, "mona") as mona:
        page = await mona.get(f"/repositories/acme/widgets/pulls/{pull.number}?{query}")
        assert page.status == 400
        assert "Write the instant as 2026-12-24T08:00" in page.text
        for harmless in ("before=x", "before=99999999999999999999", "before=-1", "at=", "done=x", "before=1"):
            assert (await mona.get(f"/repositories/acme/widgets/pulls/{pull.number}?{harmless}")).status == 200
        for harmless in ("page=0", "page=x", "page=99999", "page=999999999999"):
            assert (await mona.get(f"/?{harmless}")).status == 200


@pytest.mark.thorough
async def test_pages_appear_while_github_fails(world: World) -> None:
    """Stored facts are shown without the configuration; a person whose permission is cached still reads."""
    pull = world.open("add")
    pull.label(LABEL, by="mona")
    await world.settle()
    async with reader(world, "mona") as mona:
        path = "/repositories/acme/widgets/branches/main"
        assert (await mona.get(path)).status == 200
        await world.server.stop()
        page = await mona.get(path)
        assert page.status == 200
        assert f"#{pull.number} add" in page.text
        await world.server.start()


@pytest.mark.thorough
async def test_titles_cannot_change_the_direction_of_text(world: World) -> None:
    """Characters that reverse text, and invisible ones, are shown by number; Hebrew and emoji stay as they are."""
    title = "fix \u202etxt.exe \u2066 ma\u200bin שלום 👩\u200d💻"
    pull = world.repository.open_pull_request(title, head="add", by="mona", files={"add.py": "add\n"})
    pull.label(LABEL, by="mona")
    await world.settle()
    async with reader(world, "mona") as mona:
        page = await mona.get("/repositories/acme/widgets/branches/main")
    assert "fix \\u202etxt.exe \\u2066 ma\\u200bin שלום 👩\u200d💻" in page.text
    assert "\u202e" not in page.html
