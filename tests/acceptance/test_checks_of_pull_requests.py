"""Required checks that judge the pull request and not the tree: its title, or the sign-off of its commits."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CISettings, Job, PullRequest, Trigger, WorkflowRun, WorkflowRunner
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.test_train_refusals import events
from tests.acceptance.test_workflow_permission import accept
from tests.acceptance.train_stage import CHECK, WORKFLOW, configure
from tests.acceptance.train_world import queue_all
from tests.acceptance.world import CI_TIME, LABEL, LAG, World, a_world

MINUTE = timedelta(minutes=1)
TITLE = "title"
_TESTS = "jobs: {test: {runs-on: ubuntu-latest, steps: [{run: make test}]}}\n"
_ON = "on: {pull_request: {types: [opened, synchronize, reopened, edited]}}\n"
_VARIABLE = f"""{_ON}jobs:
  title:
    runs-on: ubuntu-latest
    steps:
      - env: {{TITLE: '${{{{ github.event.pull_request.title }}}}'}}
        run: '[[ "$TITLE" =~ ^(feat|fix): ]] || exit 1'
"""
_ACTION = f"{_ON}jobs: {{title: {{runs-on: x, steps: [{{uses: amannn/action-semantic-pull-request@v6}}]}}}}\n"


@dataclass
class Titles:
    """A world in which `test` and a check of titles are required, and the runs of its tests."""

    world: World
    tests: WorkflowRunner
    number: int = 0

    async def ready(self, *sizes: int) -> list[Any]:
        """Pull requests with good titles whose own checks have passed; their sizes count in every tree."""
        pulls = []
        for size in sizes:
            self.number += 1
            name = f"feat: {self.number}"
            files = {f"{self.number}.txt": f"{size}\n"}
            pulls.append(self.world.repository.open_pull_request(name, head=f"h{self.number}", by="mona", files=files))
        await self.world.pass_time(CI_TIME * 2)
        return pulls

    async def outcomes(self) -> list[str | None]:
        """How the runs of trains ended."""
        return [each[2] for each in await events(self.world) if each[0] == "run_ended"]

    def on_candidates(self) -> list[WorkflowRun]:
        """The runs of its tests on candidates."""
        return [run for run in self.tests.runs if str(run.suite.head_branch).startswith("imq/")]


def _good(title: str) -> bool:
    return title.startswith("feat:")


@asynccontextmanager
async def titles(
    directory: Path,
    file: str | None = _VARIABLE,
    *,
    on: str = "pull_request",
    method: str = "merge",
    trains: str = "auto",
    judges: Callable[[PullRequest], bool] | None = None,
) -> AsyncIterator[Titles]:
    """A world whose titles a workflow checks, or without its file another App by statuses."""
    async with a_world(directory, ci=False, protect=False) as world:
        starts = {"push": "push: {branches: [main, 'imq/**']}", "pull_request": "pull_request: {}"}
        files = {WORKFLOW: f"on: {{{starts['push'] + ', ' if on == 'push' else ''}{starts['pull_request']}}}\n{_TESTS}"}
        triggers = [Trigger("push", branches=["main", "imq/**"])] if on == "push" else []
        tests = world.repository.add_workflow(
            "CI",
            path=WORKFLOW,
            jobs=[Job(CHECK, duration=CI_TIME, judge=total_at_most_ten)],
            on=[*triggers, Trigger("pull_request")],
        )
        if file is None:
            settings = CISettings(
                app="words",
                status=True,
                duration=MINUTE,
                on=("pull_request",),
                judges=judges or (lambda pull: _good(pull.title)),
            )
            world.repository.add_ci(TITLE, settings=settings)
        else:
            path = ".github/workflows/title.yml"
            files[path] = file
            job = Job(TITLE, duration=MINUTE, judges=lambda run: _good(run.title))
            kinds = ("opened", "synchronize", "reopened", "edited")
            world.repository.add_workflow("Title", path=path, jobs=[job], on=[Trigger("pull_request", types=kinds)])
        world.repository.push("main", files, "CI", by="rhea")
        world.repository.protect("main", required_checks=[CHECK, TITLE], by="rhea")
        configure(world, f"{{candidates: {trains}}}", method=method)
        await world.pass_time(CI_TIME * 2)
        yield Titles(world, tests)


@pytest.mark.parametrize(
    ("file", "on"),
    [
        (_VARIABLE, "pull_request"),
        (_ACTION, "push"),
        pytest.param(_VARIABLE, "push", marks=pytest.mark.long),
        pytest.param(_ACTION, "pull_request", marks=pytest.mark.long),
    ],
    ids=["variable_draft", "action_push", "variable_push", "action_draft"],
)
async def test_train_lands_although_its_draft_has_no_good_title(tmp_path: Path, file: str, on: str) -> None:
    """P1, P5: the check of titles counts from each pull request's own head, and one CI run tests all of them."""
    async with titles(tmp_path, file, on=on) as made:
        pulls = await made.ready(1, 2, 3)
        queue_all(pulls)
        await made.world.until(lambda: all(pull.merged for pull in pulls))
        await made.world.settle()
        assert [await made.world.reasons(pull) for pull in pulls] == [[], [], []]
        assert await made.outcomes() == ["landed"]
        assert [run.event for run in made.on_candidates()] == [on]


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["merge", pytest.param("squash", marks=pytest.mark.long)])
async def test_member_whose_title_is_red_in_the_end_leaves_alone(tmp_path: Path, method: str) -> None:
    """P4: its title changed while the train was tested; the others land without it."""
    async with titles(tmp_path, on="push", method=method) as made:
        pulls = await made.ready(1, 2, 3)
        queue_all(pulls)
        await made.world.pass_time(MINUTE)
        pulls[1].edit_title("Improve things", by="mona")
        await made.world.until(lambda: bool(pulls[0].merged and pulls[2].merged))
        await made.world.settle()
        assert [await made.world.reasons(pull) for pull in pulls] == [[], ["checks_failed"], []]
        text = made.world.comment(pulls[1])
        assert f"`{TITLE}`" in text
        assert "If the check judges the title, labels or commits, correct those." in text
        assert f"`{CHECK}`" not in text


@pytest.mark.thorough
async def test_train_waits_for_the_title_check_of_a_member(tmp_path: Path) -> None:
    """P1: the check runs on a head again as the train passes, and nothing lands before it has passed."""
    async with titles(tmp_path, on="push") as made:
        pulls = await made.ready(1, 2)
        queue_all(pulls)
        await made.world.pass_time(CI_TIME - MINUTE / 2)
        pulls[0].edit_title("feat: more", by="mona")
        await made.world.pass_time(MINUTE * 0.75)
        assert len(await made.outcomes()) == 0
        assert [each.status for each in await made.world.entries()] == ["ready", "ready"]
        await made.world.until(lambda: all(pull.merged for pull in pulls), within=MINUTE * 5)
        await made.world.settle()
        assert await made.outcomes() == ["landed"]


@pytest.mark.thorough
async def test_halves_that_are_red_together_do_not_land_beside_a_title_check(tmp_path: Path) -> None:
    """P1: all other checks are still those of the candidate."""
    async with titles(tmp_path) as made:
        pulls = await made.ready(6, 6)
        queue_all(pulls)
        await made.world.until(lambda: any(pull.merged for pull in pulls))
        await made.world.pass_time(CI_TIME * 6)
        assert [bool(pull.merged) for pull in pulls] == [True, False]
        assert CHECK in made.world.comment(pulls[1])


async def test_title_check_of_another_app_ejects_no_pull_request(tmp_path: Path) -> None:
    """P5: it is green on a pull request's own head and red on each draft: IMQ tests one after the other."""
    async with titles(tmp_path, None) as made:
        pulls = await made.ready(1, 2, 3)
        queue_all(pulls)
        await made.world.until(lambda: all(pull.merged for pull in pulls))
        more = await made.ready(0, 0)
        queue_all(more)
        await made.world.until(lambda: all(pull.merged for pull in more))
        await made.world.settle()
        assert [await made.world.reasons(pull) for pull in (*pulls, *more)] == [[]] * 5
        off = [each[1:] for each in await events(made.world) if each[0] == "trains_off"]
        assert off == [("check_fails_on_candidates", TITLE)]


@pytest.mark.parametrize("red", [0, 1])
async def test_check_of_another_app_that_likes_some_drafts_ejects_no_pull_request(tmp_path: Path, red: int) -> None:
    """P5: it judges the number of IMQ's draft, and passes on some candidates; each member's own head is green."""
    async with titles(tmp_path, None, judges=lambda pull: _good(pull.title) or pull.number % 2 == red) as made:
        pulls = await made.ready(*[0] * 6)
        queue_all(pulls)
        await made.world.until(lambda: all(pull.merged for pull in pulls))
        await made.world.settle()
        assert [await made.world.reasons(pull) for pull in pulls] == [[]] * 6
        assert "landed" in await made.outcomes()


async def test_fault_that_only_the_base_shows_ejects_after_its_own_branch_is_red_too(tmp_path: Path) -> None:
    """P5: no candidate had passed the check before. The pull request leaves as in sequence, and trains go on."""
    async with titles(tmp_path, on="push") as made:
        world = made.world
        bad, good, other = await made.ready(6, 1, 1)
        world.repository.push("main", {"base.txt": "5\n"}, "Five", by="rhea")
        await world.pass_time(CI_TIME * 2)
        bad.label(LABEL, by="mona")
        await world.until(lambda: LABEL not in bad.labels)
        await world.settle()
        assert await world.reasons(bad) == ["checks_failed"]
        assert f"`{CHECK}` passed on your commit" in world.comment(bad)
        queue_all([good, other])
        await world.until(lambda: bool(good.merged and other.merged))
        await world.settle()
        assert (await made.outcomes())[-1] == "landed"
        assert len(made.on_candidates()) == 2


async def test_sign_off_that_imqs_own_commit_lacks_says_what_to_do(world: World) -> None:
    """P6: the check was green on the queued head, and judges each commit: also that of IMQ's update."""
    repository = world.repository

    def signed(run: WorkflowRun) -> bool:
        assert run.pull is not None
        return all("Signed-off-by" in commit.message for commit in repository.domain.pulls.commits(run.pull))

    repository.add_workflow("DCO", jobs=[Job("dco", duration=MINUTE, judges=signed)], on=["pull_request"])
    repository.protect("main", required_checks=["ci/test", "dco"], by="rhea")
    repository.push("signed", {"a.py": "a\n"}, "Sign\n\nSigned-off-by: Mona <mona@users.example>", by="mona")
    pull = repository.open_pull_request("Sign", head="signed", by="mona")
    await world.pass_time(CI_TIME * 2)
    repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    await world.settle()
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()
    assert await world.reasons(pull) == ["checks_failed"]
    text = world.comment(pull)
    assert "`dco` passed on your commit" in text
    assert "exempt IMQ's App from it, or update the branch by rebase or by hand" in text


@pytest.mark.long
async def test_title_check_to_which_a_member_adds_a_test_is_tested_on_its_candidate(tmp_path: Path) -> None:
    """P1: by the member's own workflow the job has the tree, so its result counts there, and no pull request leaves."""
    async with titles(tmp_path, on="push") as made:
        accept(made.world, webhook=True)
        pulls = await made.ready(1, 1, 1)
        changed = _VARIABLE.replace("    steps:\n", "    steps:\n      - uses: actions/checkout@v5\n")
        pulls[2].push({".github/workflows/title.yml": changed}, "Test more", by="mona")
        await made.world.pass_time(CI_TIME * 2)
        queue_all(pulls)
        await made.world.until(lambda: all(pull.merged for pull in pulls))
        await made.world.settle()
        assert [await made.world.reasons(pull) for pull in pulls] == [[], [], []]
        assert "pull_request" in {run.event for run in made.on_candidates()}


@pytest.mark.parametrize("lag", [timedelta(0), pytest.param(LAG, marks=pytest.mark.thorough)])
async def test_title_check_that_fails_one_by_one_asks_for_another_title(tmp_path: Path, lag: timedelta) -> None:
    """P6: outside the queue and on leaving it; what landed since has nothing to do with it."""
    async with titles(tmp_path, trains="off") as made:
        made.world.server.lag.set(lag)
        made.world.settling = lag * 4
        bad, edited = await made.ready(1, 2)
        bad.edit_title("Improve things", by="mona")
        await made.world.pass_time(MINUTE * 2)
        made.world.repository.push("main", {"moved.py": "1\n"}, "Move the base", by="rhea")
        await made.world.pass_time(MINUTE)
        bad.label(LABEL, by="mona")
        await made.world.pass_time(MINUTE)
        text = made.world.comment(bad)
        assert "Push a fix, or rerun the check if it is flaky. If the check judges the title, labels or commits" in text
        bad.edit_title("feat: improve things", by="mona")
        await made.world.until(lambda: bool(bad.merged))
        edited.label(LABEL, by="mona")
        await made.world.until_status(edited, "checking")
        edited.edit_title("Improve things", by="mona")
        await made.world.until(lambda: LABEL not in edited.labels)
        await made.world.settle()
        text = made.world.comment(edited)
        assert "a required check failed**" in text
        assert "what landed since" not in text
        assert "If the check judges the title, labels or commits, correct those." in text
