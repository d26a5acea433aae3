"""A would-be entry is judged by the decisions of a pass, up to the first that a pass would write."""

from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from queue_engine.config.model import Policy
from queue_engine.domain.errors import WriteRefused
from queue_engine.domain.facts import CheckState
from queue_engine.domain.policy import FreezeWindow
from queue_engine.domain.port import Comments, GitHubPorts, Reads, Writes
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import ShadowAction, ShadowOutcome
from queue_engine.shadow.decide import ReadOnly, ShadowResult, duration_of, next_decision
from queue_engine.store import Store
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import (
    CHECKING,
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    REPOSITORY,
    comparison,
    entry,
    pull,
    report,
)

FAILED, PENDING = CheckState.FAILED, CheckState.PENDING


@pytest.fixture
def scene() -> Setup:
    """A judgement needs no database."""
    return Setup(cast(Store, None))


async def decided(scene: Setup, policy: Policy = POLICY, **changes: object) -> ShadowResult:
    github = ReadOnly(cast(GitHubPorts, scene.github))  # type: ignore[abstract]
    engine = replace(scene.engine, github=github)
    return await next_decision(engine, entry(**changes), policy)


@pytest.mark.parametrize("port", [Writes, Comments])
async def test_each_write_is_refused_and_named(scene: Setup, port: type) -> None:
    """No request leaves IMQ, whatever the call is; reads go on."""
    github = ReadOnly(cast(GitHubPorts, scene.github))  # type: ignore[abstract]
    names = {name for name in vars(port) if not name.startswith("_") and not hasattr(Reads, name)}
    assert names
    for name in names:
        with pytest.raises(WriteRefused) as refused:
            await getattr(github, name)(REPOSITORY)
        assert refused.value.what == name
    assert (await github.pull_request(REPOSITORY, 1)).number == 1


async def test_green_and_current_head_would_be_merged(scene: Setup) -> None:
    """The double refuses every merge, so none was requested."""
    found = await decided(scene)
    assert found.decision == ShadowAction(ShadowOutcome.MERGED, NOW, method="merge")
    assert found.due_at is None


async def test_head_behind_its_base_would_be_updated_with_a_prediction(scene: Setup) -> None:
    """Its checks took ten minutes; the entry continues as one whose update was requested."""
    scene.github.compared = comparison(behind=2)
    scene.github.reports = (replace(report("ci"), started_at=NOW - 12 * MINUTE, completed_at=NOW - 2 * MINUTE),)
    found = await decided(scene)
    assert found.decision == ShadowAction(ShadowOutcome.UPDATING, NOW, predicted_at=NOW + 10 * MINUTE)
    assert found.entry.status.value == "updating"
    assert "update" not in scene.github.asked


async def test_head_without_reports_gets_no_prediction(scene: Setup) -> None:
    """IMQ says that it does not know."""
    scene.github.compared = comparison(behind=2)
    scene.github.reports = ()
    assert (await decided(scene)).decision.predicted_at is None


async def test_pending_check_would_be_waited_for(scene: Setup) -> None:
    """The next poll is due as it would be in a queue."""
    scene.github.reports = (report("ci", PENDING),)
    found = await decided(scene)
    assert (found.decision.outcome, found.decision.checks) == (ShadowOutcome.WAITING, ("ci",))
    assert found.due_at is not None
    assert found.due_at > NOW


async def test_failed_jobs_of_actions_would_be_rerun_and_are_not(scene: Setup) -> None:
    """Whether they would pass then is unknown."""
    scene.github.reports = (report("ci", FAILED, run=5, workflow=9),)
    found = await decided(scene)
    assert (found.decision.outcome, found.decision.checks) == (ShadowOutcome.RERUNNING, ("ci",))
    assert scene.github.reruns == []


async def test_check_that_fails_on_the_base_too_holds_the_pull_request(scene: Setup) -> None:
    """A red base is not the author's fault."""
    scene.github.reports = (report("ci", FAILED),)
    scene.github.base_reports = (report("ci", FAILED),)
    found = await decided(scene)
    assert (found.decision.outcome, found.decision.reason) == (ShadowOutcome.WAITING, Reason.BASE_RED)
    assert found.due_at is not None


async def test_failed_check_would_eject(scene: Setup) -> None:
    """It passes on the base."""
    scene.github.reports = (report("ci", FAILED),)
    scene.github.base_reports = (report("ci"),)
    found = await decided(scene)
    assert (found.decision.outcome, found.decision.reason) == (ShadowOutcome.DEQUEUED, Reason.CHECKS_FAILED)


async def test_freeze_holds_all_but_exempt_pull_requests(scene: Setup) -> None:
    """The blockers of a queue are those of the would-be entry; IMQ judges it again at the end of the freeze."""
    frozen = replace(POLICY, freeze=replace(POLICY.freeze, windows=(FreezeWindow(NOW - HOUR, NOW + HOUR, "Weekend"),)))
    found = await decided(scene, frozen)
    assert found.decision == ShadowAction(ShadowOutcome.WAITING, NOW, Reason.FROZEN, "Weekend")
    assert found.due_at == NOW + HOUR
    assert (await decided(scene, frozen, freeze_exempt=True)).decision.outcome is ShadowOutcome.MERGED


async def test_withdrawn_consent_counts_in_a_freeze(scene: Setup) -> None:
    """A label may be removed at any time."""
    frozen = replace(POLICY, freeze=replace(POLICY.freeze, windows=(FreezeWindow(NOW - HOUR, NOW + HOUR, "Weekend"),)))
    assert (await decided(scene, frozen, needs_refetch=True)).decision.reason is Reason.FROZEN
    scene.github.pull = pull(labels=frozenset())
    found = await decided(scene, frozen, needs_refetch=True)
    assert (found.decision.outcome, found.decision.reason) == (ShadowOutcome.DEQUEUED, Reason.LABEL_REMOVED)


async def test_checks_that_never_report_would_time_out(scene: Setup) -> None:
    """The stored entry keeps when its checks began, so the time limit continues."""
    scene.github.reports = (report("ci", PENDING),)
    found = await decided(
        scene,
        status=CHECKING,
        candidate="head-1",
        started_at=NOW - 9 * HOUR,
        status_since=NOW - 9 * HOUR,
        checks_started_at=NOW - 9 * HOUR,
        check_limits={"ci": 3600},
        started_checks=("ci",),
        polls=1,
    )
    assert (found.decision.outcome, found.decision.reason) == (ShadowOutcome.DEQUEUED, Reason.CHECKS_TIMED_OUT)


def test_duration_is_from_the_first_start_to_the_last_end() -> None:
    """Of checks that run beside each other; none is known while none has ended."""
    fast = replace(report("lint"), started_at=NOW, completed_at=NOW + MINUTE)
    slow = replace(report("test"), started_at=NOW + MINUTE, completed_at=NOW + 5 * MINUTE)
    assert duration_of([slow, fast]) == timedelta(minutes=5)
    assert duration_of([replace(fast, completed_at=None)]) is None
    assert duration_of([]) is None
