"""The figures of a report on shadow mode."""

from dataclasses import replace
from datetime import timedelta

from queue_engine.domain.facts import CheckState
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Mode
from queue_engine.domain.reasons import Reason
from queue_engine.domain.shadow_pull import BaseState, ShadowAction, ShadowOutcome, ShadowPull, ShadowRejection
from queue_engine.queries.shadow_report import figures_of, load_shadow_report
from queue_engine.store import Store
from tests.store.test_shadow_pulls import LANDING
from tests.unit.queue_engine.examples import HOUR, MINUTE, NOW, REPOSITORY

MERGED = ShadowAction(ShadowOutcome.MERGED, NOW + 4 * MINUTE, method="merge")
SAME = replace(LANDING, at=NOW + HOUR, tree_tested=True, base=BaseState.GREEN, base_checks=(), red_before=None)
LABELED = ShadowPull(REPOSITORY, 1, "One", "main", "head", enqueued_at=NOW, queued_by="mona", decision=MERGED)


def test_differences_name_each_way_in_which_imq_would_have_acted() -> None:
    """A tree of which nothing is known is no difference."""
    assert SAME.differences == ()
    assert replace(SAME, tree_tested=None).differences == ()
    bad = replace(SAME, reason=Reason.DRAFT, checks=CheckState.PENDING, tree_tested=False)
    assert bad.differences == tuple(ShadowRejection)


def test_figures_count_labels_and_merges_apart() -> None:
    """One pull request may have both, and a merge may differ in several ways."""
    rejected = ShadowAction(ShadowOutcome.REJECTED, NOW, Reason.DRAFT)
    pulls = [
        replace(LABELED, landing=SAME),
        replace(LABELED, number=2, decision=rejected),
        ShadowPull(REPOSITORY, 3, "Three", "main", "h", landing=replace(LANDING, checks=CheckState.FAILED)),
        ShadowPull(REPOSITORY, 4, "Four", "main", "h", landing=replace(LANDING, red_before=True)),
    ]
    found = figures_of(pulls)
    assert (found.labeled, found.outcomes) == (2, {"merged": 1, "rejected": 1})
    assert (found.merges, found.agreed, found.red_bases) == (3, 1, 1)
    assert found.differences == {"checks_not_passed": 1, "untested_tree": 2}
    assert (found.label_to_merge, found.label_to_decision) == (HOUR, 4 * MINUTE)
    assert found.approval_to_merge == timedelta(0)


def test_figures_of_nothing_know_no_times() -> None:
    """The first day of a trial."""
    found = figures_of([])
    assert (found.label_to_merge, found.approval_to_merge, found.label_to_decision, found.merges) == (None,) * 3 + (0,)


async def test_report_has_what_happened_since_of_the_asked_repository(store: Store) -> None:
    """In the order in which it happened; a merge counts by its instant, also if its checks ended later."""
    other = Repository(REPOSITORY.id + 5, "grace", "compiler", 1)
    async with store.transaction() as tx:
        await tx.shadow.set_mode(REPOSITORY, Mode.SHADOW)
        await tx.shadow.set_mode(other, Mode.QUEUE)
        await tx.shadow.put(replace(LABELED, landing=SAME), NOW + HOUR)
        await tx.shadow.put(replace(LABELED, number=2), NOW + HOUR)
        await tx.shadow.put(replace(LABELED, number=3, landing=replace(SAME, at=NOW - HOUR)), NOW + HOUR)
        await tx.shadow.put(replace(LABELED, repository=other, landing=SAME), NOW + HOUR)
    async with store.reading() as tx:
        found = await load_shadow_report(tx, NOW, repository=REPOSITORY)
        everything = await load_shadow_report(tx, NOW)
    assert [each.number for each in found.pulls] == [2, 1]
    assert found.repositories == everything.repositories == (REPOSITORY,)
    assert len(everything.pulls) == 3
