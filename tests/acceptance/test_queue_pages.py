"""The pages of queues and pull requests, as people use them while something happens on GitHub."""

from datetime import timedelta

import pytest

from tests.acceptance.failed_requests import dead_label
from tests.acceptance.page_readers import reader
from tests.acceptance.world import CI_TIME, LABEL, World

QUEUE = "/repositories/acme/widgets/branches/main"
PULLS = "/repositories/acme/widgets/pulls"
MINUTE = timedelta(minutes=1)


@pytest.mark.thorough
async def test_pages_follow_a_pull_request_until_it_lands(world: World) -> None:
    """What runs, since when, its checks and whose move it is; then that it landed."""
    pull, other = await world.behind("add"), world.open("other")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    other.label(LABEL, by="mona")
    await world.pass_time(MINUTE)
    async with reader(world, "mona") as mona:
        overview, queue = await mona.get("/"), await mona.get(QUEUE)
        assert (overview.status, queue.status) == (200, 200)
        assert f"#{pull.number} 1 min" in overview.text
        assert "1 waits" in overview.text
        assert "2 queued in 1 queue" in overview.text
        assert "ci/test waiting 1 min since the update" in queue.text
        assert f"2 #{other.number} other mona" in queue.text
        assert f"#{pull.number} is tested. No action needed. 2 queued." in queue.text
        page = await mona.get(f"{PULLS}/{pull.number}")
        assert "Position 1 of 2 in the queue of main" in page.text
        assert "Next: Wait for the checks. No action needed: CI is at work." in page.text
        assert page.text.count("ci/test") == 1, "its check, once"
        waiting = await mona.get(f"{PULLS}/{other.number}")
        assert "No action needed: IMQ is at work." in waiting.text
        assert f"Ahead of it #{pull.number}" in waiting.text
        await world.until(lambda: pull.merged and other.merged)
        await world.settle()
        page = await mona.get(f"{PULLS}/{pull.number}")
        assert "State landed" in page.text
        assert page.forms == [f"{PULLS}/{pull.number}/revert"], "no other control applies"
        assert "The pull request landed on main." in page.text
        assert "passed" in page.text, "its test"
        queue = await mona.get(QUEUE)
        assert "All is landed" in queue.text
        assert "Landed · 2 today" in queue.text
        assert f"✓ #{pull.number} add" in queue.text
        assert "2 this week" in (await mona.get("/")).text


async def test_page_says_that_checks_ended_while_a_red_base_blocks_the_queue(world: World) -> None:
    """Nothing runs, so no reader says so: the page, the queue's page and `/why` agree."""
    pull = world.open("add")
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"limits.txt": "20\n"}, "Raise the limits", by="rhea")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 5)
    async with reader(world, "rhea") as rhea:
        page, queue = (await rhea.get(f"{PULLS}/{pull.number}")).text, (await rhea.get(QUEUE)).text
        assert "main fails its own checks" in page
        assert "State checks ended, the queue is blocked Position 1 of 1" in page
        assert "ended; IMQ continues when the queue does" in queue.lower().replace("imq", "IMQ")
        assert "checks run" not in page + queue
    pull.comment("/why", by="mona")
    await world.settle()
    assert "Its checks have ended; IMQ continues when the queue does." in world.comment(pull)


@pytest.mark.thorough
async def test_every_page_with_entries_or_requests_has_the_refresh_button(world: World) -> None:
    """Pages poll until more than five errors in a row, and a person's refresh begins that again (P6)."""
    pull = await world.behind("add")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await dead_label(world, world.open("dead").number)
    world.unsettled = "a dead letter waits for an operator"
    async with reader(world, "mona") as mona:
        for address in ("/", QUEUE, f"{PULLS}/{pull.number}", "/requests", "/dead-letters"):
            page = await mona.get(address)
            assert page.html.count("data-refresh=") == 1, address
            assert "data-monitor=" not in page.html or '"maxErrors": 6' in page.html, address
        left = await mona.get("/statistics/departures")
        assert left.status != 200 or "data-refresh=" in left.html


async def test_pages_show_an_ejection_with_its_failing_check_and_what_to_do(world: World) -> None:
    """Whose move it is, the link of the check, and the next step."""
    pull = await world.behind("six", files={"six.txt": "6\n"})
    world.repository.push("main", {"five.txt": "5\n"}, "Five", by="rhea")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.until_status(pull, None)
    async with reader(world, "mona") as mona:
        page, queue = await mona.get(f"{PULLS}/{pull.number}"), await mona.get(QUEUE)
        assert "State ejected" in page.text
        assert "(checks_failed)" in page.text
        assert "The author has to act." in page.text
        assert "Failing checks ci/test" in page.text
        assert any("/runs/" in link or "/actions/" in link for link in page.links)
        assert f"Waits for its author · 1 ✕ #{pull.number} six Fails together with what landed since." in queue.text


async def test_maintainer_controls_the_queue_by_its_page(world: World) -> None:
    """Pause, freeze and resume, with who did it and why; other readers have no buttons, and their forms are refused."""
    pull = await world.behind("add")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    async with reader(world, "rhea") as rhea, reader(world, "mona") as mona:
        assert f"{QUEUE}/pause" in (await rhea.get(QUEUE)).forms
        page = await rhea.post(f"{QUEUE}/pause", reason="the <b>release</b>")
        assert "The queue is paused." in page.text
        assert "main is paused by rhea since" in page.text
        assert "Reason: the <b>release</b> . 1 pull request keeps its place." in page.text
        assert "A maintainer paused this queue on purpose." in page.text
        assert "1 queue needs a person" in (await mona.get("/")).text
        assert "Nothing changed" in (await rhea.post(f"{QUEUE}/pause", reason="the <b>release</b>")).text
        assert [form for form in (await mona.get(QUEUE)).forms if form.startswith(QUEUE)] == []
        for action, fields in (("pause", {}), ("resume", {}), ("unfreeze", {}), ("freeze", {"until": "2h"})):
            assert (await mona.post(f"{QUEUE}/{action}", **fields)).status == 403
        assert await world.paused() == "paused_by_hand"
        waiting = await rhea.get(f"{PULLS}/{pull.number}")
        assert "A maintainer paused the queue for main. (paused_by_hand) " in waiting.text
        assert "By rhea, since " in waiting.text
        assert "Nothing changed" not in (await rhea.post(f"{QUEUE}/resume")).text
        await world.settle()
        assert await world.paused() is None
        frozen = await rhea.post(f"{QUEUE}/freeze", until="2h", reason="holiday")
        assert "The queue is frozen." in frozen.text
        assert "main is frozen by rhea until" in frozen.text
        for wrong in ("", "yesterday", "2020-01-01", "2h and more"):
            assert (await rhea.post(f"{QUEUE}/freeze", until=wrong)).status == 400
        assert "resumed" in (await rhea.post(f"{QUEUE}/unfreeze")).text
        assert await world.paused() is None
        for branch in ("no-such-branch", "ma%0Ain"):
            assert (await rhea.post(f"{QUEUE.removesuffix('main')}{branch}/pause")).status == 404
        rhea.csrf = "a guess"
        assert (await rhea.post(f"{QUEUE}/pause")).status == 403
        assert await world.paused() is None


async def test_confirmation_says_what_a_jump_costs_and_the_jump_does_that(world: World) -> None:
    """Who is delayed is known before anything is done, and nothing is done by looking."""
    first = await world.behind("first")
    pulls = [world.open(f"pull-{number}") for number in range(3)]
    for pull in (first, *pulls):
        pull.label(LABEL, by="mona")
        await world.settle()
    last, address = pulls[-1], f"{PULLS}/{pulls[-1].number}"
    async with reader(world, "rhea") as rhea, reader(world, "mona") as mona:
        page = await rhea.get(f"{address}/confirm?do=priority&priority=high")
        assert "Priority 10, position 2" in page.text
        assert f"Delayed #{pulls[0].number} , #{pulls[1].number}" in page.text
        assert "Run none ends" in page.text, "a jump cancels nothing"
        entry = await world.entry(last)
        assert entry is not None
        assert entry.position == 3, "looking changes nothing"
        assert (await mona.get(f"{address}/confirm?do=priority&priority=high")).status == 403
        assert (await mona.post(f"{address}/priority", priority="high")).status == 403
        assert "The priority is set." in (await rhea.post(f"{address}/priority", priority="10")).text
        entry = await world.entry(last)
        assert entry is not None
        assert (entry.position, entry.priority) == (1, 10)
        assert (await rhea.post(f"{address}/priority", priority="soon")).status == 400
        assert (await rhea.get(f"{address}/confirm?do=nothing")).status == 400


async def test_confirmation_says_what_a_dequeue_costs_and_a_person_queues_it_again(world: World) -> None:
    """The run that ends, the checks that run, and the pull requests that land sooner."""
    pull, other = await world.behind("add"), world.open("other")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    other.label(LABEL, by="mona")
    await world.settle()
    address = f"{PULLS}/{pull.number}"
    async with reader(world, "mona") as mona, reader(world, "tria") as tria:
        page = await mona.get(f"{address}/confirm?do=dequeue")
        assert "its run ends without a result" in page.text
        assert "Checks that run ci/test" in page.text
        assert f"Sooner #{other.number}" in page.text
        assert "Position 2, the last" in (await mona.get(f"{address}/confirm?do=requeue")).text
        assert [link for link in (await tria.get(address)).links if "/confirm" in link] == []
        assert [form for form in (await tria.get(address)).forms if form.startswith(PULLS)] == []
        assert (await tria.post(f"{address}/dequeue")).status == 409
        assert await world.entry(pull) is not None
        page = await mona.post(f"{address}/dequeue")
        assert "The pull request is dequeued" in page.text
        assert "State dequeued" in page.text
        assert await world.entry(pull) is None
        await world.settle()
        assert "Nothing changed: the pull request is not queued." in (await mona.post(f"{address}/dequeue")).text
        assert (await mona.get(f"{address}/confirm?do=dequeue")).location == address
        page = await mona.post(f"{address}/requeue")
        assert "The pull request is queued." in page.text
        assert await world.entry(pull) is not None
        page = await mona.post(f"{address}/requeue", head_sha=pull.head_sha)
        assert (await world.entries())[-1].number == pull.number
        assert (await mona.post(f"{address}/requeue", head_sha="0" * 40)).status == 409, (
            "not the head that the page showed"
        )
        roles = world.repository.record.collaborators
        roles["tria"] = "write"
        own = world.open("own", by="tria")
        roles["tria"] = "triage"
        own.label(LABEL, by="mona")
        await world.settle()
        links = (await tria.get(f"{PULLS}/{own.number}")).links
        assert [link.partition("/confirm")[2] for link in links if "/confirm" in link] == ["?do=requeue", "?do=dequeue"]


async def test_page_of_a_pull_request_that_waits_until_it_is_ready_has_its_title_and_no_position(world: World) -> None:
    """It delays no other pull request, and none lands sooner because of its dequeue."""
    pull, other = world.open("add"), world.open("other")
    pull.convert_to_draft(by="mona")
    for each in (pull, other):
        each.label(LABEL, by="mona")
    # A label of the same second waits for the one before it, and a page's request for both.
    await world.pass_time(timedelta(seconds=2))
    address = f"{PULLS}/{pull.number}"
    async with reader(world, "rhea") as rhea:
        page = await rhea.get(address)
        assert f"#{pull.number} add" in page.text
        assert "State waits until it is ready" in page.text
        for asked in ("do=priority&priority=high", "do=dequeue", "do=requeue"):
            confirm = (await rhea.get(f"{address}/confirm?{asked}")).text
            assert "it waits outside of its queue until it is ready" in confirm
            assert "Delayed no pull request" in confirm
            assert "Sooner no pull request" in confirm
            assert "osition" not in confirm
        assert "joins as soon as it is ready." in (await rhea.post(f"{address}/requeue")).text
        assert "This one joins the queue as soon as it is ready" in (await rhea.get(QUEUE)).text


@pytest.mark.thorough
async def test_person_who_may_not_read_gets_the_same_answer_as_for_nothing(world: World) -> None:
    """Neither pages nor forms tell whether a hidden repository or pull request exists."""
    pull = world.open("add")
    pull.label(LABEL, by="mona")
    await world.settle()
    world.github.create_user("eve")
    hidden = [
        QUEUE,
        f"{PULLS}/{pull.number}",
        f"{PULLS}/{pull.number}/confirm?do=dequeue",
        "/repositories/acme/widgets",
    ]
    async with reader(world, "eve") as eve, reader(world, None) as stranger:
        for path in hidden:
            there, nothing = await eve.get(path), await eve.get(path.replace("widgets", "nothing"))
            assert (there.status, nothing.status) == (404, 404)
            assert there.text == nothing.text
            assert (await stranger.get(path)).location == f"/login?to={path.replace('?', '%3F').replace('=', '%3D')}"
        for form in (f"{QUEUE}/pause", f"{PULLS}/{pull.number}/dequeue", f"{PULLS}/{pull.number}/requeue"):
            assert (await eve.post(form)).status in {403, 404}
            assert (await stranger.post(form)).status == 403
        assert "acme" not in (await eve.get("/")).text
    assert await world.entry(pull) is not None


async def test_overview_counts_dead_letters_of_visible_repositories(world: World) -> None:
    """A person learns on the first page that work failed for good."""
    world.unsettled = "a dead letter waits for an operator"
    world.github.create_user("eve")
    async with (
        reader(world, "mona") as mona,
        reader(world, "eve") as eve,
        reader(world, "eve", operator=True) as operator,
    ):
        assert "/dead-letters" not in (await mona.get("/")).links
        await dead_label(world, 1)
        page = await mona.get("/")
        assert "1 dead letter : work that failed for good" in page.text
        assert "/dead-letters" in page.links
        assert "/dead-letters" not in (await eve.get("/")).links, "she may not read the repository"
        assert "1 dead letter : work" in (await operator.get("/")).text


@pytest.mark.thorough
async def test_overview_lists_shadow_mode_for_readers_of_the_repository(shadow: World) -> None:
    """A link to its report; others learn nothing of it."""
    shadow.open("change").label(LABEL, by="mona")
    await shadow.settle()
    shadow.github.create_user("eve")
    address = "/repositories/acme/widgets/shadow"
    async with reader(shadow, "mona") as mona, reader(shadow, "eve") as eve:
        assert address in (await mona.get("/")).links
        assert address not in (await eve.get("/")).links
        assert [(await each.get(address)).status for each in (mona, eve)] == [200, 404]
