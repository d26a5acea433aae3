"""Stacked pull requests, and two for one head branch, in shadow mode: IMQ judges them as it would queue them."""

from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import ShadowOutcome
from tests.acceptance.shadow_mode import configure, decision, landing, shadowed
from tests.acceptance.world import CI_TIME, LABEL, World


async def stack(world: World) -> tuple[Any, Any]:
    """A pull request for `main`, and one for its branch, with the label on the upper one."""
    world.repository.record.delete_branch_on_merge = True
    bottom = world.open("bottom")
    top = world.repository.open_pull_request("Top", head="top", base="bottom", by="mona", files={"top.txt": "1\n"})
    await world.pass_time(CI_TIME * 2)
    top.label(LABEL, by="mona")
    await world.settle()
    return bottom, top


@pytest.mark.lagging
async def test_upper_pull_request_of_a_stack_would_wait_for_the_lower_one(shadow: World) -> None:
    """It would join the queue of the stack's base once somebody has landed the lower one, and be merged there."""
    bottom, top = await stack(shadow)
    found, stored = await decision(shadow, top), await shadowed(shadow, top)
    assert (found.outcome, found.reason, found.detail) == (
        ShadowOutcome.WAITING,
        Reason.STACKED_ABOVE,
        f"#{bottom.number}, of the branch bottom",
    )
    assert stored.base_branch == "main"
    await shadow.pass_time(timedelta(minutes=1))
    top.push({"more.py": "more\n"}, by="mona")
    await shadow.pass_time(CI_TIME * 2)
    assert (await decision(shadow, top)).outcome is ShadowOutcome.WAITING
    bottom.merge(by="rhea")
    await shadow.pass_time(timedelta(minutes=1))
    found = await decision(shadow, top)
    assert (found.outcome, found.reason) == (ShadowOutcome.UPDATING, None)
    top.update_branch(by="mona")
    await shadow.pass_time(CI_TIME * 2)
    assert (await decision(shadow, top)).outcome is ShadowOutcome.MERGED
    top.unlabel(LABEL, by="mona")
    await shadow.settle()
    assert (await decision(shadow, top)).outcome is ShadowOutcome.MERGED


async def test_merge_into_the_branch_of_another_pull_request_is_one_that_imq_would_not_have_made(shadow: World) -> None:
    """A person merges the upper one into the branch below, where IMQ would have waited."""
    bottom, top = await stack(shadow)
    top.merge(by="rhea")
    await shadow.settle()
    found = await landing(shadow, top)
    assert (found.reason, found.detail) == (Reason.STACKED_ABOVE, f"#{bottom.number}, of the branch bottom")


async def test_stack_whose_lower_pull_request_is_closed_would_not_be_queued(shadow: World) -> None:
    """As in a queue, the wait ends with the reason."""
    bottom, top = await stack(shadow)
    bottom.close(by="mona")
    await shadow.settle()
    found = await decision(shadow, top)
    assert (found.outcome, found.reason) == (ShadowOutcome.REJECTED, Reason.STACK_ENDED)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_second_pull_request_of_a_branch_would_wait_for_the_first(shadow: World) -> None:
    """IMQ would update the branch for the first; the second would join when the first has left its queue."""
    shadow.repository.create_branch("develop", "main")
    await configure(shadow, "mode: shadow\nbranches: [{match: develop}]\n")
    first = await shadow.behind("shared")
    second = shadow.repository.open_pull_request("Shared too", head="shared", base="develop", by="mona")
    await shadow.pass_time(CI_TIME * 2)
    for pull in (first, second):
        pull.label(LABEL, by="mona")
        await shadow.settle()
    assert (await decision(shadow, first)).outcome is ShadowOutcome.UPDATING
    found = await decision(shadow, second)
    assert (found.outcome, found.reason) == (ShadowOutcome.WAITING, Reason.HEAD_SHARED)
    assert found.detail == f"#{first.number}, queued for main"
    first.unlabel(LABEL, by="mona")
    await shadow.settle()
    assert (await decision(shadow, second)).reason is None
