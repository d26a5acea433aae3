"""P7: the first sweep of a large installation costs one request for each repository, and people come before it."""

from datetime import timedelta
from typing import Any

import pytest

from queue_engine.handlers import reconciler
from tests.acceptance.world import CI_TIME, LABEL, World

REPOSITORIES, PULLS = 6, 2
BY_LABEL = "GET /repos/{owner}/{repo}/issues"
LIST = "GET /repos/{owner}/{repo}/pulls"
REPOSITORY_LIST = "GET /installation/repositories"
FILE = "GET /repos/{owner}/{repo}/contents/{path}"


def company(world: World, count: int = REPOSITORIES) -> list[Any]:
    """Repositories with open pull requests, of which none has a label."""
    found = []
    for number in range(count):
        repository = world.github.create_repository(
            f"acme/part-{number}", files={"README.md": "Part\n"}, collaborators={"mona": "write", "rhea": "admin"}
        )
        for pull in range(PULLS):
            repository.open_pull_request(f"add-{pull}", head=f"add-{pull}", by="mona", files={f"{pull}.py": "new\n"})
        found.append(repository)
    return found


async def test_label_of_a_repository_beyond_the_first_is_found_without_its_webhook(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: only repositories whose pull requests have no label are left out; a full list may not show it."""
    monkeypatch.setattr(reconciler, "FEW", 0)
    monkeypatch.setattr(reconciler, "PAGE", PULLS)
    await world.kill()
    world.app.webhook_url = None
    (repository,) = company(world, 1)
    await world.restart()
    await world.pass_time(timedelta(minutes=3))
    assert world.requests(BY_LABEL) > 0
    monkeypatch.setattr(reconciler, "PAGE", PULLS + 1)
    world.app.webhook_url = None
    repository.create_label(LABEL)
    pull = repository.pull(1)
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=11))
    assert world.spoken(pull) == 1


@pytest.mark.thorough
async def test_first_sweep_lists_each_repository_once_and_creates_labels_where_people_work(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No token and no configuration of its own for a repository whose pull requests have labels of others."""
    monkeypatch.setattr(reconciler, "FEW", 2)
    await world.kill()
    world.app.webhook_url = None
    repositories = company(world)
    for each in repositories:
        each.pull(1).label("dependencies", by="mona")
    before, files = world.requests(), world.requests(FILE)
    await world.restart()
    await world.pass_time(timedelta(minutes=3))
    assert world.requests(LIST) >= REPOSITORIES
    assert world.requests(FILE) - files <= 1, "that of the owner, for all"
    assert world.requests() - before <= REPOSITORIES + 2 * 2 + 10, "the lists, two tokens and labels, one query"
    without = [each for each in repositories if LABEL not in each.record.labels]
    assert len(without) == REPOSITORIES - 2, "a few at each sweep"
    without[-1].pull(1).label("bug", by="mona")
    await world.pass_time(timedelta(minutes=1))
    assert LABEL in without[-1].record.labels
    await world.pass_time(timedelta(minutes=25))
    assert all(LABEL in each.record.labels for each in repositories)


@pytest.mark.thorough
async def test_first_sweep_finds_labels_that_configurations_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """P2: configurations are read together; what may be the target of a link is read by itself."""
    monkeypatch.setattr(reconciler, "FEW", 0)
    await world.kill()
    world.app.webhook_url = None
    whole, line = company(world, 2)
    await world.github.advance(timedelta(minutes=1))
    for each, text in ((whole, "trigger_labels: ship\n"), (line, "trigger_labels: ship")):
        each.push("main", {".github/imq.yml": text}, "Configure IMQ", by="rhea")
        each.create_label("ship")
        each.pull(1).label("ship", by="mona")
    await world.restart()
    await world.pass_time(timedelta(minutes=5))
    assert [world.spoken(each.pull(1)) for each in (whole, line)] == [1, 1]
    alone = {each.path for each in world.server.requests if each.template == FILE and "ref" not in each.query}
    assert [any(each.record.full_name in path for path in alone) for each in (whole, line)] == [False, True]


@pytest.mark.thorough
async def test_repository_that_is_added_or_renamed_is_swept_alone(world: World) -> None:
    """P7: the others have not changed, and are not listed again."""
    await world.pass_time(timedelta(minutes=1))
    lists, all_lists = world.requests(LIST), world.requests(REPOSITORY_LIST)
    (added,) = company(world, 1)
    await world.pass_time(timedelta(minutes=1))
    assert LABEL in added.record.labels
    added.rename("gears", by="acme")
    await world.pass_time(timedelta(minutes=1))
    assert (world.requests(LIST) - lists, world.requests(REPOSITORY_LIST) - all_lists) == (2, 0)
    await world.pass_time(timedelta(minutes=10))
    assert (world.requests(LIST) - lists, world.requests(REPOSITORY_LIST) - all_lists) == (4, 1), (
        "the next sweep of all"
    )


@pytest.mark.parametrize("behind", [0, 1], ids=["front", "second"])
async def test_label_that_somebody_sets_during_the_first_sweep_is_answered_at_once(world: World, behind: int) -> None:
    """P7: background work leaves room for people, and what plainly waits for checks or others needs no second look."""
    company(world)
    pulls = [world.open(f"add-{number}") for number in range(behind + 1)]
    await world.kill()
    await world.restart()
    for pull in pulls:
        pull.label(LABEL, by="mona")
    since = world.clock.now()
    await world.until(lambda: world.spoken(pulls[-1]) == 1)
    assert world.clock.now() - since < timedelta(seconds=1)


async def test_pull_request_that_lands_at_once_has_one_comment_that_is_never_edited(world: World) -> None:
    """P6: words about its place would be outdated before anyone read them."""
    pull = world.open("add")
    await world.pass_time(CI_TIME)
    pull.label(LABEL, by="mona")
    await world.until(lambda: world.spoken(pull) == 1)
    assert pull.merged
    await world.pass_time(timedelta(minutes=5))
    assert world.requests("PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}") == 0
