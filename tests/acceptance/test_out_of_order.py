"""P5, P6: an installation or a repository that is out of order holds its queues, announces that once, and ejects
no pull request. Its event resumes them; if the event is lost, the sweep does.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Fault, Job
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import ShadowOutcome
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.shadow_mode import begin, decision, writes
from tests.acceptance.test_check_outcomes import sound
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

LONG = timedelta(minutes=90)
"""Longer than any outage may last."""
ALLOW_LIST = (
    "Although you appear to have the correct authorization credentials, the `acme` organization has an IP allow list "
    "enabled, and your IP address is not permitted to access this resource."
)
IN_GRAPHQL = {
    "data": {"repository": None},
    "errors": [{"type": "FORBIDDEN", "path": ["repository"], "message": ALLOW_LIST}],
}
"""As GraphQL refuses, with status 200 (vscode-remote-repositories-github #491, aquaproj/user-list #2101)."""
BLOCKED = "Repository access blocked"


@dataclass
class Disorder:
    """How it begins and ends. `silent`: GitHub sends no webhook at its end."""

    world: World
    before: dict[str, str] = field(default_factory=dict)

    @property
    def installation(self) -> Any:
        (found,) = [each for each in self.world.github.state.installations.values() if each.app is self.world.app]
        return found

    def suspended(self, on: bool) -> None:
        self.world.github.accounts.suspend(self.installation, on)

    def uninstalled(self, on: bool) -> None:
        if on:
            self.world.github.accounts.uninstall(self.installation)
        else:
            self.world.github.install(self.world.app, "acme")

    def archived(self, on: bool) -> None:
        self.world.repository.archive(on, by="acme")

    def blocked(self, on: bool) -> None:
        self._refuse(on, BLOCKED)

    def blocked_by_law(self, on: bool) -> None:
        self._refuse(on, BLOCKED, status=451)

    def unpaid(self, on: bool) -> None:
        self._refuse(on, "Your account is locked due to a billing issue.")

    def account_suspended(self, on: bool) -> None:
        self._refuse(on, "Sorry. Your account was suspended.")

    def shut_out(self, on: bool) -> None:
        if on:
            in_graphql = Fault(times=None, kind="fail", route="/graphql", status=200, body=IN_GRAPHQL)
            self.world.server.faults.add(in_graphql)
        self._refuse(on, ALLOW_LIST)

    def unaccepted(self, on: bool) -> None:
        if on:
            self.before = dict(self.installation.permissions)
            self.world.grant("contents", "read")
        else:
            self.world.github.accounts.accept_permissions(self.installation, self.before)

    def _refuse(self, on: bool, words: str, status: int = 403) -> None:
        if on:
            self.world.server.faults.add(Fault(times=None, kind="fail", status=status, body={"message": words}))
        else:
            self.world.server.faults.clear()


ORDINARY = (("uninstalled", True), ("unaccepted", False), ("blocked_by_law", True))
RESUMED_AT_ONCE = ("suspended", "unaccepted")
FAULTS = ("blocked", "blocked_by_law", "unpaid", "account_suspended", "shut_out")
CAUSES = ("suspended", "uninstalled", "archived", "unaccepted", *FAULTS)


async def queue_of_three(world: World) -> list[Any]:
    """Three pull requests behind their base, the first being checked."""
    pulls = [await world.behind("first"), world.open("second"), world.open("third")]
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.until_status(pulls[0], "checking")
    return pulls


async def announced(world: World, pull: Any) -> list[str]:
    """What the timeline has of pauses of the queue of this pull request."""
    async with world.bot.engine.store.reading() as tx:
        events = await tx.timeline.history(pull.record.repository.id, "main", pull.number, limit=100)
    return [each.event for each in events if each.reason is Reason.GITHUB_REFUSES]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("cause", "lost"),
    [
        pytest.param(
            cause, lost, marks=[] if (cause, lost) in ORDINARY else [pytest.mark.thorough], id=f"{cause}-{lost}"
        )
        for cause in CAUSES
        for lost in ((True,) if cause in FAULTS else (False, True))
    ],
)
async def test_queue_of_what_is_out_of_order_keeps_its_entries_and_resumes(
    world: World, cause: str, lost: bool
) -> None:
    """No pull request leaves, one statement, and all land afterwards; the front too, whose checks passed long ago."""
    pulls = await queue_of_three(world)
    change: Callable[[bool], None] = getattr(Disorder(world), cause)
    change(True)
    await world.pass_time(LONG)
    assert [await world.reasons(pull) for pull in pulls] == [[], [], []]
    assert await world.paused() == "github_refuses"
    assert await announced(world, pulls[2]) == ["paused"]
    url = world.app.webhook_url
    world.app.webhook_url = None if lost else url
    change(False)
    await world.settle()
    world.app.webhook_url = url
    if cause in RESUMED_AT_ONCE and not lost:
        assert await world.paused() is None
    await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(hours=1))
    await world.settle()
    assert [await world.reasons(pull) for pull in pulls] == [[], [], []]
    assert await world.paused() is None
    assert await announced(world, pulls[2]) == ["paused", "resumed"]


@pytest.mark.thorough
@pytest.mark.parametrize("answer", ["valid", pytest.param("not_found", marks=pytest.mark.thorough)])
async def test_queue_of_an_uninstalled_app_waits_whatever_its_tokens_are_answered(world: World, answer: Any) -> None:
    """P4: nothing lands after the App was uninstalled, although GitHub may accept its tokens for an hour."""
    world.github.behaviour.uninstalled_tokens = answer
    await test_queue_of_what_is_out_of_order_keeps_its_entries_and_resumes(world, "uninstalled", lost=False)


async def test_refusal_of_a_token_in_unknown_words_ejects_no_entry(world: World) -> None:
    """The request of a token needs no permission: its refusal ejects no entry."""
    pulls = await queue_of_three(world)
    world.bot.gateway.forget_token(Disorder(world).installation.id)
    words = {"message": "Access is not possible now."}
    tokens = "/app/installations/{installation_id}/access_tokens"
    world.server.faults.add(Fault(times=None, kind="fail", route=tokens, status=403, body=words))
    await world.pass_time(timedelta(minutes=30))
    assert [await world.reasons(pull) for pull in pulls] == [[], [], []]
    world.server.faults.clear()
    await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(hours=1))


async def test_suspension_of_half_a_minute_ejects_no_entry(world: World) -> None:
    """Whatever is under way: reads, an update, checks."""
    pulls = await queue_of_three(world)
    disorder = Disorder(world)
    for _ in range(5):
        disorder.suspended(True)
        await world.pass_time(timedelta(seconds=30))
        disorder.suspended(False)
        await world.pass_time(timedelta(seconds=47))
    await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(hours=1))
    assert [await world.reasons(pull) for pull in pulls] == [[], [], []]


UNPAID = (
    "The job was not started because recent account payments have failed or your spending limit needs to be increased. "
    "Please check the 'Billing & plans' section in your settings"
)
LOCKED = "The job was not started because your account is locked due to a billing issue."
RERUN = "POST /repos/{owner}/{repo}/actions/runs/{run_id}/rerun-failed-jobs"
ANNOTATIONS = "GET /repos/{owner}/{repo}/check-runs/{check_run_id}/annotations"


@pytest.fixture
async def in_actions(tmp_path: Path) -> AsyncIterator[World]:
    """A world whose required check is a job of GitHub Actions, for which GitHub bills."""
    async with a_world(tmp_path, ci=False, protect=False) as made:
        jobs = [Job("test", duration=CI_TIME, judge=sound)]
        made.repository.add_workflow("CI", jobs=jobs, on=["pull_request"])
        made.repository.protect("main", required_checks=["test"])
        yield made


@pytest.mark.parametrize(("words", "rerun_by"), [(UNPAID, None), (LOCKED, "rhea")])
async def test_unpaid_plan_holds_the_queue_until_jobs_start(
    in_actions: World, words: str, rerun_by: str | None
) -> None:
    """P5, P6: GitHub starts no job, which is no fault of the change. Somebody pays, and runs the jobs again; or IMQ's
    own slow reruns find out."""
    world = in_actions
    pulls = [await world.behind("one"), await world.behind("two")]
    world.github.behaviour.jobs_refused = words
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.settle()
    await world.pass_time(timedelta(minutes=5))
    assert await world.paused() == Reason.GITHUB_REFUSES
    assert all(words[:60] in world.comment(pull) for pull in pulls)
    assert (world.requests(ANNOTATIONS), world.requests(RERUN)) == (2, 1)
    await world.pass_time(timedelta(hours=6))
    assert await world.paused() == Reason.GITHUB_REFUSES
    assert [world.spoken(pull) for pull in pulls] == [1, 1]
    assert 5 <= world.requests(RERUN) <= 8
    world.github.behaviour.jobs_refused = None
    if rerun_by is not None:
        (run,) = [run for run in world.repository.record.workflow_runs.values() if run.head_sha == pulls[0].head_sha]
        paid = world.clock.now()
        world.repository.rerun(run.jobs[-1], by=rerun_by)
        await world.until(lambda: pulls[0].merged)
        assert world.clock.now() - paid < CI_TIME + timedelta(minutes=1)
    await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(hours=2))
    await world.settle()
    assert await world.paused() is None
    assert [await world.reasons(pull) for pull in pulls] == [[], []]


@pytest.mark.thorough
async def test_job_that_fails_at_once_by_itself_is_blamed(in_actions: World) -> None:
    """P5: GitHub is asked once, after its rerun as well, and names no unpaid plan."""
    world = in_actions
    job = Job("short", duration=timedelta(seconds=5), judge=total_at_most_ten)
    world.repository.add_workflow("Short", jobs=[job], on=["push", "pull_request"])
    world.repository.protect("main", required_checks=["test", "short"])
    pull = await world.behind("half", files={"half.txt": "6\n"})
    world.repository.push("main", {"other.txt": "6\n"}, "The other half", by="rhea")
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels)
    assert await world.reasons(pull) == ["checks_failed"]
    assert 1 <= world.requests(ANNOTATIONS) <= 2


SORTED = sorted(CAUSES, key="uninstalled".__ne__)
"""The first runs in the landing gate: an installation that is back has another id."""


@pytest.mark.thorough("False")
@pytest.mark.parametrize("cause", SORTED)
@pytest.mark.parametrize("silent", [False, True])
async def test_train_of_what_is_out_of_order_keeps_its_members_and_lands_them(
    tmp_path: Path, cause: str, silent: bool
) -> None:
    """P5, P6: its candidate is being tested; no member leaves, one statement, and all land once it is in order."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b", "c")
        queue_all(pulls)
        await world.until_status(pulls[0], "checking")
        change: Callable[[bool], None] = getattr(Disorder(world), cause)
        change(True)
        await world.pass_time(LONG)
        assert [await world.reasons(pull) for pull in pulls] == [[], [], []]
        assert await world.paused() == Reason.GITHUB_REFUSES
        assert await announced(world, pulls[2]) == ["paused"]
        url = world.app.webhook_url
        world.app.webhook_url = None if silent else url
        change(False)
        await world.settle()
        world.app.webhook_url = url
        await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(hours=1))
        await world.settle()
        assert [await world.reasons(pull) for pull in pulls] == [[], [], []]
        assert await announced(world, pulls[2]) == ["paused", "resumed"]


@pytest.mark.thorough
@pytest.mark.parametrize("cause", SORTED)
@pytest.mark.parametrize("silent", [True, False])
async def test_entry_of_shadow_mode_outlasts_what_is_out_of_order(tmp_path: Path, cause: str, silent: bool) -> None:
    """P5: the would-be entry waits for its checks; whatever GitHub refuses meanwhile, it is no reason to leave."""
    async with a_world(tmp_path) as world:
        await begin(world)
        pull = world.open("one")
        pull.label(LABEL, by="mona")
        await world.settle()
        change: Callable[[bool], None] = getattr(Disorder(world), cause)
        change(True)
        await world.pass_time(LONG)
        url = world.app.webhook_url
        world.app.webhook_url = None if silent else url
        change(False)
        await world.settle()
        world.app.webhook_url = url
        await world.pass_time(timedelta(hours=1))
        found = await decision(world, pull)
        assert (found.outcome, found.reason) == (ShadowOutcome.MERGED, None)
        assert [each.template for each in writes(world)] == []
