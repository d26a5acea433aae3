"""A release bot commits to the base after each landing, and no checks restart where those files need no test."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.choosing import configure, green
from tests.acceptance.test_configuration import validate
from tests.acceptance.world import CI_TIME, LABEL, World

UNTESTED = 'checks: {untested_paths: [CHANGELOG.md, "docs/**", "packages/*/package.json"]}\n'
UPDATE = "PUT /repos/{owner}/{repo}/pulls/{number}/update-branch"
COMPARE = "GET /repos/{owner}/{repo}/compare/{basehead}"
TREE = "GET /repos/{owner}/{repo}/git/trees/{tree_sha}"
MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"
HALFWAY = timedelta(minutes=1)
BOT = "rhea"
"""Whose right to push past required checks the bot uses."""


def release(world: World, files: Mapping[str, str | None], message: str = "Release [skip ci]") -> str:
    """The bot pushes a release to the base."""
    return str(world.repository.push("main", files, message, by=BOT))


async def checking(world: World, text: str = UNTESTED, name: str = "front", **more: Any) -> Any:
    """A pull request that was updated once, and whose checks run."""
    await configure(world, text)
    pull = await world.behind(name, **more)
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(HALFWAY)
    return pull


async def lands_after(world: World, pull: Any, updates: int) -> None:
    """It lands after so many updates by IMQ in all, and the queue is not paused."""
    await world.until(lambda: pull.merged, within=CI_TIME * 5)
    await world.settle()
    assert world.requests(UPDATE) == updates
    assert await world.paused() is None


@pytest.mark.thorough
@pytest.mark.lagging
async def test_releases_after_each_landing_restart_no_checks(world: World) -> None:
    """Each pull request is tested once on top of the one before, and its comment names what changed after the test."""
    await configure(world, UNTESTED)
    pulls = [await world.behind(name) for name in ("one", "two", "three")]
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.settle()
    for number, pull in enumerate(pulls):
        await world.until(partial(getattr, pull, "merged"), within=CI_TIME * 2)
        await world.pass_time(HALFWAY)
        release(world, {"CHANGELOG.md": f"{number}\n", "packages/core/package.json": f"{number}\n"})
        await world.settle()
    assert world.landed() == [pull.number for pull in pulls]
    assert world.requests(UPDATE) == 3
    assert await world.paused() is None
    kept = "After the test, `main` changed only in files that need none: `CHANGELOG.md`, `packages/core/package.json`."
    assert [kept in world.comment(pull) for pull in pulls] == [False, True, True]
    assert set(world.repository.files("main")) >= {"one.py", "two.py", "three.py", "CHANGELOG.md"}


@pytest.mark.lagging
@pytest.mark.parametrize("method", ["merge", "squash", "rebase"])
async def test_result_is_kept_by_each_merge_method(world: World, method: str) -> None:
    """P1: the landed tree differs from the tested one only in the released files."""
    pull = await checking(world, UNTESTED + f"merge: {{method: {method}}}\n")
    release(world, {"docs/news/one.md": "new\n", "CHANGELOG.md": "1\n"})
    await lands_after(world, pull, 1)
    tested, landed = world.repository.files(pull.head_sha), world.repository.files("main")
    assert {path for path in landed if landed[path] != tested.get(path)} == {"docs/news/one.md", "CHANGELOG.md"}
    assert world.requests(COMPARE, TREE) <= (6 if world.settling else 5)


RESTARTS: dict[str, Mapping[str, str | None]] = {
    "code": {"CHANGELOG.md": "1\n", "app.py": "changed\n"},
    "a rename out of the code": {"app.py": None, "docs/app.py": "one\ntwo\nthree\n"},
    "workflows": {".github/workflows/docs.yml": "on: push\n"},
    "300 files": {f"docs/{number}.md": f"{number}\n" for number in range(300)},
}


@pytest.mark.lagging
@pytest.mark.parametrize("case", list(RESTARTS))
async def test_push_that_may_need_a_test_restarts_the_checks(world: World, case: str) -> None:
    """P1: other files, a file that left the code, workflows whatever the patterns say, and a list that is cut off."""
    pull = await checking(world, UNTESTED.replace("docs/**", 'docs/**", ".github/**'))
    release(world, RESTARTS[case])
    await lands_after(world, pull, 2)
    assert "After the test" not in world.comment(pull)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_release_on_top_of_other_code_restarts_the_checks(world: World) -> None:
    """P1: what counts is all that changed since the tested commit, and not the last push."""
    pull = await checking(world)
    world.repository.push("main", {"app.py": "changed\n"}, "By hand", by="rhea", webhook=False)
    release(world, {"CHANGELOG.md": "1\n"})
    await lands_after(world, pull, 2)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_push_right_before_the_merge_is_compared_too(world: World) -> None:
    """P1: no webhook reported it yet; the read before the merge shows the tip."""
    pull = await checking(world)
    release(world, {"CHANGELOG.md": "1\n"})
    await world.settle()
    world.github.webhooks.faults.drop(None, event="push")
    await world.pass_time(CI_TIME - 2 * HALFWAY)
    release(world, {"app.py": "changed\n"})
    await lands_after(world, pull, 2)


@pytest.mark.lagging
async def test_code_pushed_during_the_merge_pauses_the_queue(world: World) -> None:
    """P1: the trees are compared after the merge, and code among their differences is a mismatch as ever."""
    pull = await checking(world)
    release(world, {"CHANGELOG.md": "1\n"})
    world.meanwhile(MERGE, lambda: release(world, {"app.py": "changed\n"}))
    world.repository.protect("main", required_checks=[("ci/test", world.app_id("ci"))], by="rhea")
    await world.until(lambda: pull.merged, within=CI_TIME * 3)
    await world.settle()
    assert await world.paused() == "tree_mismatch"


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("shown", [True, False], ids=["shown", "hidden"])
async def test_branch_that_requires_up_to_date_heads_is_updated_all_the_same(world: World, shown: bool) -> None:
    """GitHub merges no other head: IMQ updates it, also where only the state of the pull request shows the rule."""
    if not shown:
        world.grant("administration", None)
    checks = [("ci/test", world.app_id("ci"))]
    world.repository.protect("main", required_checks=checks, strict=True, by="rhea")
    pull = await checking(world)
    release(world, {"CHANGELOG.md": "1\n"})
    await lands_after(world, pull, 2)
    if shown:
        assert [call.status for call in world.server.requests.of(MERGE)] == [200]


@pytest.mark.thorough
@pytest.mark.lagging
async def test_refused_merge_of_a_kept_result_leads_to_an_update(world: World) -> None:
    """P5: a rule that IMQ sees nowhere refuses heads that are behind; the second try contains the base."""
    pull = await checking(world)
    release(world, {"CHANGELOG.md": "1\n"})
    await world.settle()

    def require() -> None:
        checks = [("ci/test", world.app_id("ci"))]
        world.repository.protect("main", required_checks=checks, strict=True, by="rhea", webhook=False)

    world.meanwhile(MERGE, require)
    await lands_after(world, pull, 2)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_process_killed_after_the_merge_of_a_kept_result_finds_it_as_tested(world: World) -> None:
    """P2: the trees are compared after the next start."""
    pull = await checking(world)
    release(world, {"CHANGELOG.md": "1\n"})
    world.bot.engine.ending.clear()
    await world.until(lambda: pull.merged, within=CI_TIME * 3)
    await world.kill()
    await world.restart()
    await world.pass_time(HALFWAY)
    assert await world.paused() is None
    assert await world.entries() == ()
    assert "Landed" in world.comment(pull)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_tree_that_github_cuts_off_is_compared_by_directory(world: World) -> None:
    """Repositories of more than 100,000 files keep results, too."""
    world.github.behaviour.most_tree_entries = 11
    pull = await checking(world)
    release(world, {"packages/core/package.json": "1\n", "packages/core/src/deep/index.js": "1\n"})
    await world.settle()
    await lands_after(world, pull, 2)
    again = await checking(world, name="again")
    release(world, {"packages/core/package.json": "2\n", "docs/a/b.md": "new\n"})
    await lands_after(world, again, 3)
    assert "`docs/a/b.md`, `packages/core/package.json`" in world.comment(again)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_repository_without_the_key_pays_no_request(world: World) -> None:
    """P7: a push to the base restarts the checks, as ever, and nothing is listed."""
    pull = await checking(world, "depth: 5\n")
    before = world.requests(TREE)
    release(world, {"CHANGELOG.md": "1\n"})
    await lands_after(world, pull, 2)
    assert world.requests(TREE) == before


@pytest.mark.thorough
async def test_kept_result_costs_at_most_fifteen_requests(world: World) -> None:
    """P7: with a release while its checks run, from the label to the comment."""
    await configure(world, UNTESTED)
    first, pull = await world.behind("first"), await world.behind("second")
    first.label(LABEL, by="mona")
    await world.until(lambda: first.merged)
    await world.settle()
    before = world.server.requests.by_template()
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    release(world, {"CHANGELOG.md": "1\n"})
    await world.until(lambda: pull.merged, within=CI_TIME * 2)
    await world.settle()
    spent = world.server.requests.by_template() - before
    assert spent.total() <= 15, spent


@pytest.mark.parametrize("strict", [True, False])
async def test_validate_says_whether_a_result_can_be_kept(world: World, tmp_path: Path, strict: bool) -> None:
    """Where the branch requires up-to-date heads, the key has no effect, and the dry run says why."""
    pull = await green(world, "asked-about")
    checks = [("ci/test", world.app_id("ci"))]
    world.repository.protect("main", required_checks=checks, strict=strict, by="rhea")
    target = f"acme/widgets#{pull.number}"
    result = await validate(world, tmp_path, UNTESTED, "--against", target, "--by", "mona")
    assert result.exit_code == 0, result.output
    words = "it requires up-to-date branches" if strict else "unless it changes only files that need no test"
    assert words in result.stdout
