"""`imq shadow report`: what IMQ would have done, on a terminal and for programs."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.facts import CheckState
from queue_engine.domain.policy import Mode
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import ShadowAction, ShadowOutcome, ShadowPull
from queue_engine.store import Transaction
from tests.store.test_shadow_pulls import LANDING
from tests.support.gates import NOW
from tests.unit.bot.cli.imq import Imq
from tests.unit.queue_engine.examples import REPOSITORY

AT = NOW - timedelta(days=2)
SHOWN = f"{AT:%Y-%m-%d %H:%M:%S}Z"
UPDATING = ShadowAction(ShadowOutcome.UPDATING, AT, predicted_at=AT)
ABOVE = ShadowAction(ShadowOutcome.WAITING, AT, Reason.STACKED_ABOVE, "#2, of the branch bottom")
REJECTED = ShadowAction(ShadowOutcome.REJECTED, AT, Reason.LABEL_WITHOUT_RIGHT)
HASTY = replace(LANDING, at=AT, approved_at=AT - timedelta(hours=1), checks=CheckState.FAILED, not_passed=("ci",))


def pull(number: int, **changes: Any) -> ShadowPull:
    return replace(ShadowPull(REPOSITORY, number, "Add \x1b[2J", "main", "head"), **changes)


def store(imq: Imq, *pulls: ShadowPull) -> None:
    async def work(tx: Transaction) -> None:
        await tx.shadow.set_mode(REPOSITORY, Mode.SHADOW)
        for each in pulls:
            await tx.shadow.put(each, NOW)

    imq.within(work)


def test_report_says_what_imq_would_have_done_instead(imq: Imq) -> None:
    """A line for each pull request; predictions are marked."""
    store(
        imq,
        pull(1, enqueued_at=AT, queued_by="mona", decision=UPDATING),
        pull(2, enqueued_at=AT, queued_by="tria", decision=REJECTED),
        pull(3, landing=HASTY),
        pull(4, enqueued_at=AT, queued_by="mona", decision=ABOVE),
    )
    text = imq("shadow", "report").stdout
    assert "Repositories in shadow mode: acme/rocket." in text
    assert "Labels judged: 3; IMQ would update the branch (1), not queue it (1), wait (1)." in text
    assert "Merges by others: 1. IMQ would have made 0 of them, too." in text
    assert "  1: IMQ would have updated it first: no check tested what landed." in text
    assert "Merges after which the base became red: 1." in text
    assert "last approval to merge 1h" in text
    assert f"update the branch at {SHOWN}, merge at ~{SHOWN}" in text
    assert f"not queue it at {SHOWN} (label_without_right)" in text
    assert "not have merged without passed checks, have updated it first: no check tested what landed (ci)" in text
    assert "(stacked_above, #2, of the branch bottom)" in text
    assert "red (ci)" in text
    assert "~ is a prediction" in text


def test_report_without_anything_is_short(imq: Imq) -> None:
    """No table, and no prediction to explain."""
    text = imq("shadow", "report").stdout
    assert "Repositories in shadow mode: none." in text
    assert "Labels judged: 0.\nMerges by others: 0." in text
    assert "PULL REQUEST" not in text
    assert "~" not in text


@pytest.mark.parametrize(("since", "numbers"), [("3d", [1]), ("1d", []), (f"{AT - timedelta(days=1):%Y-%m-%d}", [1])])
def test_report_covers_the_time_since(imq: Imq, since: str, numbers: list[int]) -> None:
    """A duration, or a date in UTC; programs get everything as JSON."""
    store(imq, pull(1, enqueued_at=AT, decision=UPDATING))
    found = json.loads(imq("shadow", "report", "--since", since, "--json").stdout)
    assert [each["number"] for each in found["pulls"]] == numbers
    assert found["repositories"] == ["acme/rocket"]


@pytest.mark.parametrize("since", ["soon", "99999d99999d", "2026-13-01"])
def test_impossible_time_is_refused(imq: Imq, since: str) -> None:
    """One sentence says what to write."""
    result = imq("shadow", "report", "--since", since)
    assert result.exit_code == 2
    assert "Give a duration such as 7d, or a date such as 2026-11-01." in result.stderr


def test_unknown_repository_is_named(imq: Imq) -> None:
    """A misspelt name is not an empty report."""
    store(imq, pull(1, enqueued_at=AT, decision=UPDATING))
    assert "acme/rocket#1" in imq("shadow", "report", "--repository", "acme/rocket").stdout
    result = imq("shadow", "report", "--repository", "acme/sled")
    assert (result.exit_code, result.stderr) == (1, "Error: IMQ has no repository acme/sled.\n")
