"""`imq shadow report`: what IMQ would have done, on a terminal and for programs."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from queue_engine.domain.facts import CheckState
from queue_engine.domain.policy import Mode
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import BaseState, ShadowAction, ShadowOutcome, ShadowPull
from queue_engine.store import Transaction
from tests.store.test_shadow_pulls import LANDING
from tests.support.gates import NOW
from tests.unit.bot.cli.imq import Imq
from tests.unit.queue_engine.examples import REPOSITORY

AT = NOW - timedelta(days=2)
SHOWN = f"{AT:%Y-%m-%d %H:%M:%S}Z"
UPDATING = ShadowAction(ShadowOutcome.UPDATING, AT, predicted_at=AT)
ABOVE = ShadowAction(ShadowOutcome.WAITING, AT, Reason.STACKED_ABOVE, "#2, of the branch bottom")
MERGED = ShadowAction(ShadowOutcome.MERGED, AT)
EJECTED = ShadowAction(ShadowOutcome.DEQUEUED, AT, Reason.CHECKS_FAILED, checks=("ci",))
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
    assert "Labels judged: 3; IMQ would have updated its branch (1), would not have queued it (1), would" in text
    assert "Merges by others: 1. IMQ would have made 0 of them, too." in text
    assert "  1: IMQ would have updated it first: no check tested what landed." in text
    assert "Merges after which the base became red: 1." in text
    assert "last approval to merge 1h" in text
    assert f"would have updated its branch at {SHOWN}, merge at ~{SHOWN}" in text
    assert f"would not have queued it at {SHOWN} (label_without_right)" in text
    assert "without passed checks (ci); would have updated it first: no check tested what landed " in text
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
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: IMQ does not know acme/sled. Install the App there, and start IMQ.\n",
    )


def test_page_says_what_imq_would_have_landed_ejected_and_saved(imq: Imq, tmp_path: Path) -> None:
    """One file that loads nothing: the figures, each red base with its cause and end, no markup of strangers."""
    fine = replace(
        LANDING, at=AT + timedelta(hours=3), tree_tested=True, base=BaseState.GREEN, base_checks=(), red_before=None
    )
    store(
        imq,
        pull(1, enqueued_at=AT, decision=UPDATING),
        pull(2, enqueued_at=AT, decision=REJECTED, title="<script>alert(1)</script>"),
        pull(3, landing=HASTY),
        pull(4, enqueued_at=AT, decision=MERGED, landing=fine),
        pull(5, landing=replace(HASTY, at=AT + timedelta(hours=5), red_before=True)),
        pull(6, landing=replace(fine, at=AT + timedelta(hours=6), base=BaseState.RED, base_checks=("lint",))),
        pull(7, base_branch="release", landing=replace(fine, at=AT + timedelta(hours=1))),
        pull(8, decision=replace(MERGED, at=AT + timedelta(hours=5)), landing=fine),
        pull(9, decision=UPDATING, landing=fine),
        pull(10, enqueued_at=AT, decision=EJECTED),
    )
    file = tmp_path / "shadow.html"
    printed = imq("shadow", "report", "--html", str(file)).stdout
    assert "Merges by others: 7." in printed
    page = file.read_text(encoding="utf-8")
    assert "<script" not in page
    assert not re.search(r"""(?:src|@import|url\()\s*=?\s*["']?(?:https?:)?//""", page)
    assert re.findall(r"<link|<img", page) == []
    text = " ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", unescape(page), flags=re.DOTALL).split())
    assert "it is not known" not in text
    assert "2 merges made the base red. 1 of them landed a combination that no check had tested." in text
    assert "IMQ would have avoided 1." in text
    assert "Merged by others 7 " in text
    assert "Landed by IMQ, too 5 " in text
    assert "Not landed as they were 2 " in text
    assert "Rejected or ejected 2 " in text
    assert "Earlier by IMQ 1 3 h of waiting saved" in text
    assert "Red bases avoided 1 of 2 " in text
    at = f"{AT:%Y-%m-%d %H:%M} UTC"
    green = f"{AT + timedelta(hours=3):%Y-%m-%d %H:%M} UTC , after 3 h"
    assert f"acme/rocket#3 Add \x1b[2J main {at} by mona ci would not have merged it without passed checks (ci)" in text
    assert green in text
    assert "lint would have merged it, too not yet" in text
    assert "<script>alert(1)</script>" not in page
    assert 'href="https://github.com/acme/rocket/pull/2"' in page
    assert f"at {AT + timedelta(hours=5):%Y-%m-%d %H:%M} UTC green" in text
    # The newest come first.
    assert text.index("acme/rocket#5 Add \x1b[2J main") < text.rindex("acme/rocket#3 ")


@pytest.mark.parametrize(
    ("base", "sentence"),
    [
        (BaseState.GREEN, "No merge made the base red."),
        (BaseState.PENDING, "No merge made the base red, as far as IMQ knows. Of 1 merge it is not known: checks"),
        (BaseState.UNKNOWN, "No merge made the base red, as far as IMQ knows. Of 1 merge it is not known: checks"),
    ],
)
def test_page_counts_the_merges_after_which_checks_of_the_base_did_not_report(
    imq: Imq, tmp_path: Path, base: BaseState, sentence: str
) -> None:
    """A page that is passed on an hour after a merge calls no base green that no check has judged (P6)."""
    rejected = replace(LANDING, at=AT, reason=Reason.LABEL_WITHOUT_RIGHT, detail="tria", checks=CheckState.PASSED)
    store(imq, pull(1, landing=replace(rejected, tree_tested=True, base=base, base_checks=())))
    file = tmp_path / "shadow.html"
    printed = imq("shadow", "report", "--html", str(file)).stdout
    text = " ".join(re.sub(r"<[^>]+>", " ", unescape(file.read_text(encoding="utf-8"))).split())
    assert f" {sentence} " in text + " "
    # The command and the page have the same words.
    for each in (printed, text):
        assert "would not have queued it (label without right, tria) " in each
        assert base.value in each


def test_page_of_an_enterprise_server_links_there(imq: Imq, tmp_path: Path) -> None:
    """The links of a page that is passed on lead to the team's own GitHub."""
    store(imq, pull(1, enqueued_at=AT, decision=UPDATING))
    file = tmp_path / "shadow.html"
    theirs = Imq({**imq.environ, "IMQ_GITHUB_API_URL": "https://github.acme.example/api/v3"})
    assert theirs("shadow", "report", "--html", str(file)).exit_code == 0
    assert 'href="https://github.acme.example/acme/rocket/pull/1"' in file.read_text(encoding="utf-8")


def test_page_without_anything_says_so(imq: Imq, tmp_path: Path) -> None:
    """A team that looks too early reads that, and not that all was well."""
    file = tmp_path / "shadow.html"
    assert imq("shadow", "report", "--html", str(file)).exit_code == 0
    page = file.read_text(encoding="utf-8")
    assert "Nobody set the trigger label or merged a pull request in this time." in page
    result = imq("shadow", "report", "--html", str(tmp_path / "no" / "folder.html"))
    assert (result.exit_code, "No such file or directory" in result.stderr) == (2, True)
