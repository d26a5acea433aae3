"""P7: the first sweep of a large installation costs one request for each repository, and people come before it."""

from datetime import timedelta
from typing import Any

import pytest

from queue_engine.handlers import reconciler
from tests.acceptance.world import LABEL, World

REPOSITORIES, PULLS = 6, 2
BY_LABEL = "GET /repos/{owner}/{repo}/issues"
LIST = "GET /repos/{owner}/{repo}/pulls"


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


async def test_first_sweep_lists_each_repository_once_and_creates_labels_where_people_work(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No configuration, no token and no label for a repository that asks nothing of IMQ."""
    monkeypatch.setattr(reconciler, "FEW", 2)
    await world.kill()
    world.app.webhook_url = None
    repositories = company(world)
    repositories[3].pull(1).label("bug", by="mona")
    before = world.requests()
    await world.restart()
    await world.pass_time(timedelta(minutes=3))
    assert world.requests(LIST) >= REPOSITORIES
    assert world.requests() - before <= REPOSITORIES + 2 * 5 + 8 + 3, "the lists, and a configuration"
    without = [each for each in repositories if LABEL not in each.record.labels]
    assert len(without) == REPOSITORIES - 2, "a few at each sweep"
    without[-1].pull(1).label("bug", by="mona")
    await world.pass_time(timedelta(minutes=1))
    assert LABEL in without[-1].record.labels
    await world.pass_time(timedelta(minutes=25))
    assert all(LABEL in each.record.labels for each in repositories)
