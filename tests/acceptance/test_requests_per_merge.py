"""The requests of one merge are those of the table in docs/sizing.md, also where IMQ may bypass a ruleset (P7)."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CISettings
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

ROOT = Path(__file__).parents[2]
COLUMNS = ["up to date", "behind", "unbound, behind", "nothing required, behind"]
RULES = "GET /rules/branches/{branch}"
TOKENS = "POST /app/installations/{installation_id}/access_tokens"
SWEEPS = {
    "GET /app/hook/deliveries",
    "GET /app/installations",
    "GET /installation/repositories",
    "GET /issues",
    "GET /issues/comments",
    "GET /pulls",
    TOKENS,
}
"""Sent at fixed intervals, whatever is merged."""
BYPASS = ["imq", "rhea"]
_OF_BRANCH = "GET /repos/{owner}/{repo}/branches/{branch}"
READS_OF_RULES = ("GET /repos/{owner}/{repo}/rules/branches/{branch}", _OF_BRANCH, f"{_OF_BRANCH}/protection")


def table() -> dict[str, Counter[str]]:
    """The requests of the table, by column."""
    text = (ROOT / "docs/sizing.md").read_text(encoding="utf-8")
    lines = text[text.index("| request | ") :].split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    found = {name: number for number, name in enumerate(cells[0])}
    return {column: +Counter({row[0].strip("`"): int(row[found[column]]) for row in cells[2:]}) for column in COLUMNS}


async def requests_of_merge(world: World, name: str, *, behind: bool, by: str = "mona") -> Counter[str]:
    """Land one pull request; return its requests, named as in the table."""
    pull = world.open(name, by=by)
    await world.pass_time(CI_TIME * 2)
    if behind:
        world.repository.push("main", {f"past-{pull.number}.py": "moved\n"}, "Move the base", by="rhea")
    await world.settle()
    return await requests_of(world, [pull])


def _of_merges(world: World) -> Counter[str]:
    """What was asked until now, without the queries of sweeps."""
    swept = sum("query OwnCheckRuns" in str(each.body) for each in world.server.requests)
    return Counter(world.server.requests.by_template()) - Counter({"POST /graphql": swept})


async def requests_of(world: World, pulls: Sequence[Any]) -> Counter[str]:
    """Label these pull requests at once, and land them; return what was asked for them, named as in the table."""
    before = _of_merges(world)
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.settle()
    spent = _of_merges(world) - before
    routes = {route: route.replace("/repos/{owner}/{repo}", "") for route in spent}
    return Counter({name: spent[route] for route, name in routes.items() if name not in SWEEPS})


@pytest.mark.thorough
@pytest.mark.parametrize("column", COLUMNS)
async def test_merge_costs_what_the_table_says_also_where_imq_may_bypass_a_ruleset(tmp_path: Path, column: str) -> None:
    """Whether the rulesets apply to a head branch costs one request, where IMQ cannot read a pattern of theirs."""
    expected, behind = table()[column], column != "up to date"
    assert expected.total() <= 15
    async with a_world(tmp_path, protect=column in {"up to date", "behind"}) as world:
        if column.startswith("unbound"):
            world.repository.protect("main", required_checks=["ci/test"], by="rhea")
        world.repository.add_ruleset("base", branches=["~DEFAULT_BRANCH"], update=True, bypass=BYPASS, by="rhea")
        world.repository.add_ruleset("all", branches=["~ALL"], non_fast_forward=True, bypass=BYPASS, by="rhea")
        world.repository.add_ruleset("lines", branches=["line/*", "odd-[!x]"], update=True, bypass=BYPASS, by="rhea")
        await world.settle()
        await requests_of_merge(world, "first", behind=behind)
        assert await requests_of_merge(world, "second", behind=behind) == expected
        assert await requests_of_merge(world, "odd-xx", behind=behind) == expected + Counter({RULES: 1})
        if not behind:
            assert await requests_of_merge(world, "line/one", behind=behind, by="rhea") == expected


UNUSED = {
    "known flakes": "checks: {flaky: [{name: other, until: 2027-01-01}]}\n",
    "the culprit": "culprit: revert\n",
    "agents": "fair_share: {agents: ['robot-*']}\n",
}
"""Features that a merge beside them does not use. The others have no configuration, or cost nothing without it."""


async def test_feature_that_a_merge_does_not_use_costs_no_request(world: World) -> None:
    """P7: each alone, beside the figures of the table, which know none of them."""
    expected = table()["behind"]
    found = dict[str, Counter[str]]()
    for name, text in UNUSED.items():
        world.repository.push("main", {".github/imq.yml": text}, "Configure IMQ", by="rhea")
        await requests_of_merge(world, f"first-{len(found)}", behind=True)
        found[name] = await requests_of_merge(world, f"second-{len(found)}", behind=True) - expected
        assert await world.paused() is None
    assert found == {name: Counter() for name in UNUSED}


@pytest.mark.parametrize("ready", [True, False])
async def test_rules_read_after_they_changed_serve_all_labels_of_some_seconds(world: World, ready: bool) -> None:
    """P1, P7: only what decides a landing reads them again; each such read may still show the former rules."""
    pulls = [world.open(f"change-{number}") for number in range(10)]
    await world.pass_time(CI_TIME * 2)
    world.repository.protect(
        "main", required_checks=["ci/test" if ready else "never"], required_approvals=int(not ready), by="rhea"
    )
    await world.settle()
    before = world.requests(*READS_OF_RULES)
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=4))
    assert world.requests(*READS_OF_RULES) - before <= (6 if ready else 4)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("column", "minutes"), [("behind", 20), ("unbound, behind", 3), ("unbound, behind", 10), ("unbound, behind", 14)]
)
async def test_a_queue_of_ten_costs_at_most_twelve_requests_a_merge(tmp_path: Path, column: str, minutes: int) -> None:
    """Neither the wait behind others nor longer CI costs one: the check run alone says when a test begins (P7).

    With CI of ten minutes, the tokens that are renewed meanwhile count, too, but for that of sweeps, which is for no
    single repository. Where ten tests take hours, the hours cost tokens.
    """
    async with a_world(tmp_path, ci=False, protect=False) as world:
        ci = world.repository.add_ci("ci/test", settings=CISettings(duration=timedelta(minutes=minutes)))
        required = ("ci/test", ci.app.id) if column == "behind" else "ci/test"
        world.repository.protect("main", required_checks=[required], by="rhea")
        pulls = [world.open(f"change-{number}") for number in range(11)]
        await world.pass_time(timedelta(minutes=2 * minutes))
        await requests_of(world, pulls[:1])
        before = len(world.server.requests)
        spent = await requests_of(world, pulls[1:])
        tokens = [each for each in list(world.server.requests)[before:] if each.template == TOKENS]
        renewed = sum("repository_ids" in (each.body or {}) for each in tokens)
    assert spent.total() + (renewed if minutes <= 10 else 0) <= 12 * 10, (spent, renewed)
    assert spent["PATCH /issues/comments/{comment_id}"] == 10


async def test_a_comment_says_that_a_long_test_runs(tmp_path: Path) -> None:
    """The comment of a pull request that waited is edited in the end, if its test takes over half an hour (P6)."""
    async with a_world(tmp_path, ci=False) as world:
        world.repository.add_ci("ci/test", settings=CISettings(duration=timedelta(hours=2)))
        first, second = [world.open(name) for name in ("first", "second")]
        await world.pass_time(timedelta(hours=4))
        world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
        for pull in (first, second):
            pull.label(LABEL, by="mona")
            await world.settle()
        await world.until(lambda: first.merged)
        await world.until_status(second, "checking")
        await world.pass_time(timedelta(minutes=25))
        assert "Queued for `main`" in world.comment(second)
        await world.pass_time(timedelta(minutes=10))
        assert "Waiting for checks" in world.comment(second)
