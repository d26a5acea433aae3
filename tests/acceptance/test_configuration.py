"""A repository's own rules, on real git: read from its base branch, changed by a push, broken, and fixed."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bot.cli import dry_run, host, main
from github_emulator import CISettings
from tests.acceptance.choosing import green
from tests.acceptance.project import FILES, total_at_most_ten
from tests.acceptance.world import CI_TIME, LABEL, World

FILE = ".github/imq.yml"
PEOPLE = ("mona", "rhea")


async def configure(world: World, text: str, repository: Any = None) -> None:
    """Push a configuration to the base branch, and let its webhooks arrive."""
    (repository or world.repository).push("main", {FILE: text}, "Configure the queue", by="rhea")
    await world.settle()


def check_run(pull: Any) -> Any:
    return next(run for run in pull.check_runs if run.name == "IMQ")


@pytest.mark.thorough
async def test_configuration_absent_leaves_the_operators_settings(world: World) -> None:
    """Absent = defaults: the operator's label queues, no other one does."""
    pull = await green(world, "plain")
    pull.label("ship", by="mona")
    await world.settle()
    assert await world.entries() == ()
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=timedelta(seconds=5))


@pytest.mark.thorough
async def test_configuration_pushed_counts_at_once(world: World) -> None:
    """From the push on the new label queues, the old one does not, and the new words and method land it."""
    before = await green(world, "before")
    before.label(LABEL, by="mona")
    await world.until(lambda: before.merged)
    await configure(
        world,
        'trigger_labels: ship\nmerge: {method: squash, title: "{title} (#{number}) by {author}", body: "{body}"}\n',
    )
    pull = await green(world, "after")
    pull.label(LABEL, by="mona")
    await world.settle()
    assert await world.entries() == ()
    pull.label("Ship", by="mona")
    await world.until(lambda: pull.merged)
    assert world.repository.log("main")[0].title == f"after (#{pull.number}) by mona"


@pytest.mark.thorough
async def test_configuration_of_the_pull_request_changes_nothing_before_it_landed(world: World) -> None:
    """P4: what a pull request says of the queue holds for those after it, when it has landed."""
    files = {FILE: "enabled: false\n", "own.py": "own\n"}
    pull = await green(world, "own-rules", files=files)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    later = await green(world, "later")
    later.label(LABEL, by="mona")
    await world.settle()
    assert await world.reasons(later) == ["branch_not_served"]


@pytest.mark.thorough
async def test_configuration_of_a_branch_has_a_label_of_its_own_that_queues_and_takes_out(world: World) -> None:
    """Read from the base branch: what only that branch's file names as its label is one, when set and when removed."""
    world.repository.push("release", {FILE: "trigger_labels: ship\nchecks: {required: [never]}\n"}, "Rules", by="rhea")
    pull = await green(world, "backport", base="release")
    pull.label("ship", by="mona")
    await world.settle()
    assert [entry.number for entry in await world.entries()] == [pull.number]
    pull.unlabel("ship", by="mona")
    await world.settle()
    assert await world.entries() == ()
    assert await world.reasons(pull) == ["label_removed"]


@pytest.mark.thorough
@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize(("before", "after", "label"), [(None, "ship", "ship"), ("ship", None, LABEL)])
async def test_configuration_of_a_branch_without_a_queue_counts_from_its_push_on(
    world: World, before: str | None, after: str | None, label: str, rewritten: bool
) -> None:
    """What was read on it, or not found there, when a label came is void with the push, that deletes the file too."""
    held = {} if before is None else {FILE: f"trigger_labels: {before}\n"}
    world.repository.push("release", {"own.py": "1\n", **held}, "Branch off", by="rhea")
    pull = world.open("backport", base="release")
    pull.label(label, by="mona")
    await world.settle()
    assert await world.entries() == ()
    pull.unlabel(label, by="mona")
    holds: dict[str, str | None] = {FILE: after and f"trigger_labels: {after}\n"}
    if rewritten:
        others = {} if after is None else holds
        world.repository.force_push("release", {"other.py": "2\n", "own.py": "1\n", **others}, "Rules", by="rhea")
    else:
        world.repository.push("release", holds, "Rules", by="rhea")
    await world.settle()
    pull.label(label, by="mona")
    await world.settle()
    assert [entry.number for entry in await world.entries()] == [pull.number]


@pytest.mark.thorough
async def test_configuration_costs_nothing_when_topic_branches_are_made_and_rewritten(world: World) -> None:
    """P7: a rewritten branch may hold any file; one that nothing was ever based on is no base branch."""
    ahead = world.open("ahead")
    ahead.label(LABEL, by="mona")
    await world.settle()
    before = world.requests("GET /repos/{owner}/{repo}/contents/{path}")
    world.repository.push("topic", {"own.py": "1\n"}, "Topic", by="mona")
    world.repository.force_push("topic", {"own.py": "2\n"}, "Topic", by="mona")
    await world.until(lambda: ahead.merged)
    assert world.requests("GET /repos/{owner}/{repo}/contents/{path}") == before


@pytest.mark.thorough
async def test_configuration_broken_holds_its_queue_and_no_other_until_mended(world: World) -> None:
    """P5: comment and check run name the line; other repositories continue; the fixed file resumes the queue."""
    pull = await green(world, "waiting")
    others = world.github.create_repository("acme/gadgets", files=FILES, collaborators=dict.fromkeys(PEOPLE, "write"))
    others.add_ci("ci/test", settings=CISettings(duration=CI_TIME, judge=total_at_most_ten))
    other = others.open_pull_request("Add", head="add", by="mona", files={"add.py": "add\n"})
    await configure(world, "depth: 5\nenabeld: true\n")
    pull.label(LABEL, by="mona")
    other.label(LABEL, by="mona")
    await world.until(lambda: other.merged)
    await world.pass_time(timedelta(minutes=30))
    assert not pull.merged
    words = "line 2: enabeld is unknown; did you mean enabled?"
    assert words in world.comment(pull)
    assert words in json.dumps(check_run(pull).output)
    await configure(world, "depth: 5\nenabled: true\n")
    await world.until(lambda: pull.merged, within=CI_TIME * 2)
    await world.settle()
    assert "Landed" in world.comment(pull)


@pytest.mark.thorough
async def test_configuration_that_is_a_directory_is_reported_and_followed_again_when_it_is_a_file(world: World) -> None:
    """The sender of a label reads what is wrong, at the price of few requests; it lands when the directory is gone."""
    before = await green(world, "before")
    before.label(LABEL, by="mona")
    await world.until(lambda: before.merged)
    world.repository.push("main", {f"{FILE}/rules": "depth: 5\n"}, "Rules in a directory", by="rhea")
    await world.settle()
    pull = await green(world, "waiting")
    asked = world.requests()
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(hours=1))
    words = ".github/imq.yml of main is a directory, not a file"
    assert words in world.comment(pull)
    assert words in json.dumps(check_run(pull).output)
    assert world.requests() - asked <= 26
    await world.kill()
    await world.restart()
    world.repository.push("main", {f"{FILE}/rules": None}, "Without them", by="rhea")
    await world.until(lambda: pull.merged, within=CI_TIME * 3)


@pytest.mark.thorough
async def test_configuration_broken_dequeues_no_entry_whatever_happens_meanwhile(world: World) -> None:
    """A label that only the broken file gave its meaning still queues: through sweeps, and a restart of the bot."""
    await configure(world, "trigger_labels: ship\n")
    pull = await green(world, "waiting")
    ahead = await world.behind("ahead")
    for each in (ahead, pull):
        each.label("ship", by="mona")
        await world.settle()
    await configure(world, "trigger_labels: [ship\n")
    await world.pass_time(timedelta(minutes=25))
    assert [entry.number for entry in await world.entries()] == [ahead.number, pull.number]
    await world.kill()
    await world.restart()
    await world.pass_time(timedelta(minutes=25))
    assert [entry.number for entry in await world.entries()] == [ahead.number, pull.number]
    await configure(world, "trigger_labels: ship\n")
    await world.until(lambda: ahead.merged and pull.merged)


@pytest.mark.thorough
async def test_configuration_is_asked_for_once_an_hour(world: World) -> None:
    """P7: ten pull requests cost no more requests for the rules than one."""
    template = "GET /repos/{owner}/{repo}/contents/{path}"
    pulls = [world.open(f"number-{n}") for n in range(4)]
    await world.pass_time(CI_TIME * 2)
    pulls[0].label(LABEL, by="mona")
    await world.until(lambda: pulls[0].merged)
    before = world.requests(template)
    assert 0 < before <= 3
    for pull in pulls[1:]:
        pull.label(LABEL, by="mona")
    await world.until(lambda: all(pull.merged for pull in pulls))
    assert world.requests(template) == before


async def validate(world: World, path: Path, text: str, *arguments: str) -> Result:
    """`imq validate` as its operator types it, with the settings and at the time of this world's bot."""
    file = path / "imq.yml"
    file.write_text(text)
    runner = CliRunner(env=dict(world.environment))
    command = ["validate", str(file), *arguments]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "configure", lambda *_: None)
        patch.setattr(dry_run, "SystemClock", lambda: world.clock)
        return await asyncio.to_thread(runner.invoke, main.main, command, catch_exceptions=False)


async def test_validate_against_a_pull_request_says_what_would_happen(world: World, tmp_path: Path) -> None:
    """It shows the answer of admission to GitHub's facts, with the next step, and writes nothing."""
    pull = await world.behind("behind", files={"behind.py": "behind\n"})
    text = """\
merge: {method: squash, title: "{title} (#{number})"}
checks: {required: [coverage]}
priority: {labels: {urgent: 5}}
branches: [{match: ma*, blocking: {titles: "^wip"}}]
"""
    pull.label("urgent", by="mona")
    await world.settle()
    before, comments, head = len(world.server.requests), len(pull.comments), pull.head_sha
    result = await validate(world, tmp_path, text, "--against", f"acme/widgets#{pull.number}", "--by", "mona")
    assert result.exit_code == 0, result.output
    assert f"acme/widgets#{pull.number} behind\nBase branch: main (the rule for ma*)\nQueued by: mona" in result.stdout
    assert "It would be queued for main." in result.stdout
    assert "- it is queued with priority 5\n" in result.stdout
    assert "- IMQ updates it with main (commits behind: 1)\n" in result.stdout
    assert "coverage: not reported" in result.stdout
    assert f'It would land by squash as "behind (#{pull.number})".' in result.stdout
    asked = [request for request in list(world.server.requests)[before:] if "access_tokens" not in request.path]
    assert {request.method for request in asked if request.path != "/graphql"} == {"GET"}
    assert (len(pull.comments), pull.head_sha) == (comments, head)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("enabled: false", "branch_not_served"),
        ("blocking: {titles: '^to-be'}", "blocked_by_title"),
        ("who_may_queue: {permission: admin}", "not_allowed_to_queue"),
    ],
)
async def test_validate_against_a_pull_request_names_the_reason(
    world: World, tmp_path: Path, text: str, reason: str
) -> None:
    """The operator reads the sentence that the author would read, and the code."""
    pull = await green(world, "to-be-refused")
    result = await validate(world, tmp_path, text, "--against", f"acme/widgets#{pull.number}", "--by", "mona", "--json")
    found = json.loads(result.stdout[result.stdout.index("{\n") :])  # behind what a world logs
    waits = reason == "blocked_by_title"
    assert (found["outcome"], found["reason"]) == ("waits" if waits else "refused", reason)
    assert found["sentence"].startswith("It would wait outside the queue. " if waits else "It would not be queued. ")


async def test_validate_against_a_pull_request_names_what_only_the_merge_shows(world: World, tmp_path: Path) -> None:
    """Conversations and deployments hold up a merge, and nothing shows them before: the dry run names them."""
    pull = await green(world, "discussed")
    world.repository.protect("main", required_conversation_resolution=True, by="rhea")
    world.repository.add_ruleset("deployed", deployments=["staging"], by="rhea")
    target = f"acme/widgets#{pull.number}"
    result = await validate(world, tmp_path, "", "--against", target, "--by", "mona")
    assert "- every conversation is resolved\n- it is deployed to staging\n" in result.stdout


async def test_validate_against_a_pull_request_shows_its_present_status(world: World, tmp_path: Path) -> None:
    """It also shows the database's state, or that it was not asked: a paused queue never looks free."""
    pull = await green(world, "to-be-asked-about")

    async def present() -> list[str]:
        target = f"acme/widgets#{pull.number}"
        result = await validate(world, tmp_path, "depth: 1", "--against", target, "--by", "mona", "--json")
        printed: list[str] = json.loads(result.stdout[result.stdout.index("{\n") :])["present"]
        return printed

    first, *_, last = await present()
    assert (first, last) == ("Not queued.", "No pull request was queued for main yet.")
    pull.comment("/pause The demo", by="rhea")
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.settle()
    stands, still, step, depth = await present()
    assert stands.startswith("Queued for main by mona at ")
    assert stands.endswith("now at position 1 of 1.")
    assert still == "The queue is blocked: rhea paused the queue for main at 2026-01-05 09:06 UTC (The demo)."
    assert step.startswith("Who has to act: a maintainer. Next: ")
    assert depth == "Pull requests in the queue for main: 1."
    world.environment["DATABASE_URL"] = "sqlite:///elsewhere.db"
    (line,) = await present()
    assert "No database elsewhere.db" in line


@pytest.mark.parametrize(
    ("target", "words"),
    [("acme/nothing#1", "The App is not installed on acme/nothing."), ("acme/widgets#999", "sees no pull request 999")],
)
async def test_validate_against_what_is_not_there_says_so(
    world: World, tmp_path: Path, target: str, words: str
) -> None:
    """A misspelt name ends with a sentence and exit code 2."""
    result = await validate(world, tmp_path, "", "--against", target)
    assert result.exit_code == 2
    assert words in result.stderr
