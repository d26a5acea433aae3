"""Which new head may replace the head with consent: each row of the table of sources."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from queue_engine.config.model import Policy, PushRules, QueuePermissions
from queue_engine.domain.consent import ConsentKind, HeadConsent
from queue_engine.domain.facts import Comparison, HeadPush, Permission
from queue_engine.domain.model import Entry, EntryStatus, UnmetRequirement
from queue_engine.domain.policy import NotReadyPushPolicy, PushPolicy
from queue_engine.domain.port import NO_BRANCH
from queue_engine.domain.reasons import Reason
from queue_engine.rules.consent import (
    SOURCES,
    HeadFact,
    NewHead,
    UnknownFact,
    dropped_tip,
    keeps_position,
    made_by,
    may_bind,
    may_push,
    updated_for,
    with_pushed_head,
    with_shared_update,
)
from queue_engine.rules.eligibility import Reject
from tests.store.examples import changed
from tests.unit.queue_engine.examples import CHECKING, NOW, PENDING, POLICY, UPDATING, comparison, entry

BOTS = Policy(on_push=PushRules(requeue_for=frozenset({"dependabot[bot]"})))
REQUEUE = Policy(on_push=PushRules(queued=PushPolicy.REQUEUE))
DEQUEUE = Policy(on_push=PushRules(waiting=NotReadyPushPolicy.DEQUEUE))
BUMP = entry(author="dependabot[bot]")
OWN = entry(head_sha="head-1")
BOUND = entry(head_sha="head-2", updated_from="head-1", head_proved=False)
OUTSIDE = entry(unmet=(UnmetRequirement(Reason.APPROVAL_MISSING),))
UPDATED = changed(entry(number=2), status=UPDATING, head_sha="head-1", new_head="head-2", new_head_is_ours=True)
"""Another entry of the branch, for which IMQ made the head."""


def moves(*pushes: tuple[str, str, str | None]) -> tuple[HeadPush, ...]:
    """Moves of the branch, newest first, each with the head before and after, and the pusher."""
    return tuple(HeadPush(before, after, NOW, by) for before, after, by in pushes)


def compared(*parents: str) -> Comparison:
    return comparison("head-2", parents=parents)


def by(login: str, **permissions: Permission) -> NewHead:
    """A head that a webhook reported, and the permissions that were read."""
    return NewHead("head-2", login, "head-1", permissions=permissions)


WRITE, READ = Permission.WRITE, Permission.READ
ANOTHERS = Reject(Reason.UPDATED_FOR_ANOTHER, f"#2, queued for {UPDATED.base_branch}")
TIP = UnknownFact(HeadFact.TIP, "tip")

LEDGER = (HeadConsent("head-1", "main", "mona", NOW, ConsentKind.LABEL),)

ROWS: Mapping[ConsentKind, list[tuple[NewHead, Entry, Policy, object]]] = {
    ConsentKind.OWN_UPDATE: [
        (NewHead("head-2"), OWN, POLICY, UnknownFact(HeadFact.COMPARISON)),
        (NewHead("head-2", compared=compared("head-1", "base-1")), OWN, POLICY, True),
        (NewHead("head-2", compared=compared("base-1", "head-1")), OWN, POLICY, False),
        (NewHead("head-2", compared=compared("head-1", "other")), OWN, POLICY, False),
        (NewHead("head-2", compared=compared("head-1")), OWN, POLICY, False),
        (NewHead("head-2", compared=compared("head-1", "base-1")), BOUND, POLICY, True),
        (NewHead("head-2", compared=compared("head-2", "base-1")), BOUND, POLICY, False),
    ],
    ConsentKind.SHARED_UPDATE: [
        (NewHead("head-2"), OWN, POLICY, False),
        (NewHead("head-2", others=(UPDATED,)), OWN, POLICY, UnknownFact(HeadFact.COMPARISON)),
        (NewHead("head-3", others=(UPDATED,)), OWN, POLICY, False),
        (NewHead("head-3", others=(UPDATED,), by_imq=True), OWN, POLICY, UnknownFact(HeadFact.COMPARISON)),
        (NewHead("head-2", others=(UPDATED,), compared=compared("head-1", "tip")), OWN, POLICY, TIP),
        (NewHead("head-2", others=(UPDATED,), compared=compared("tip", "head-1")), OWN, POLICY, ANOTHERS),
        (NewHead("head-2", others=(UPDATED,), compared=compared("head-1")), OWN, POLICY, ANOTHERS),
        (
            NewHead("head-2", others=(UPDATED,), compared=compared("head-1", "tip"), tip_landed=False),
            OWN,
            POLICY,
            ANOTHERS,
        ),
        (NewHead("head-2", others=(UPDATED,), compared=compared("head-1", "tip"), tip_landed=True), OWN, POLICY, True),
        (
            NewHead("head-2", others=(UPDATED,), compared=compared("head-1", "tip"), tip_landed=True),
            OWN,
            Policy(who_may_queue=QueuePermissions(permission=Permission.MAINTAIN)),
            ANOTHERS,
        ),
    ],
    ConsentKind.BOT_PUSH: [
        (by("dependabot[bot]"), BUMP, BOTS, True),
        (by("dependabot[bot]"), BUMP, POLICY, False),
        (by("dependabot[bot]"), entry(author="mona"), BOTS, False),
        (by("mona"), BUMP, BOTS, False),
        (NewHead("head-2", "dependabot[bot]", "other"), BUMP, BOTS, UnknownFact(HeadFact.PUSHES)),
        (NewHead("new", BUMP.author, pushes=moves(("head-1", "new", BUMP.author))), BUMP, BOTS, True),
        (NewHead("new", BUMP.author, pushes=moves(("head-1", "new", "mona"))), BUMP, BOTS, False),
        (
            NewHead("new", BUMP.author, pushes=moves(("mid", "new", BUMP.author), ("head-1", "mid", "mona"))),
            BUMP,
            BOTS,
            False,
        ),
        (NewHead("new", BUMP.author, pushes=()), BUMP, BOTS, False),
    ],
    ConsentKind.WAITING_PUSH: [
        (by("ada"), OUTSIDE, POLICY, UnknownFact(HeadFact.PERMISSION, "ada")),
        (by("ada", ada=WRITE), OUTSIDE, POLICY, True),
        (by("ada", ada=WRITE), OUTSIDE, DEQUEUE, False),
        (by("ada", ada=WRITE), entry(), POLICY, False),
        (
            by("ada", ada=READ),
            OUTSIDE,
            POLICY,
            Reject(Reason.HEAD_CHANGED, "pushed by ada, who may not queue"),
        ),
        (NewHead("head-2", "ada", "other"), OUTSIDE, POLICY, UnknownFact(HeadFact.PUSHES)),
        (NewHead("head-2", "ada", "other", pushes=()), OUTSIDE, POLICY, False),
        (by(BUMP.author), changed(OUTSIDE, author=BUMP.author), BOTS, True),
    ],
    ConsentKind.REQUEUED_PUSH: [
        (by("ada"), OWN, REQUEUE, UnknownFact(HeadFact.PERMISSION, "ada")),
        (by("ada", ada=WRITE), OWN, REQUEUE, True),
        (by("ada", ada=READ), OWN, REQUEUE, False),
        (by("ada", ada=WRITE), OWN, POLICY, False),
        (NewHead("head-2", "ada", permissions={"ada": WRITE}), OWN, REQUEUE, False),
    ],
}


@pytest.mark.parametrize("source", SOURCES)
def test_source_consents_to_what_its_row_says(source: ConsentKind) -> None:
    """P4: nothing else makes a head one that may land; a fact that was not read is asked for, and not assumed."""
    for head, queued, policy, answer in ROWS[source]:
        found = may_bind(replace(head, ledger=LEDGER), queued, policy, source)
        assert found == {True: source, False: None}.get(answer, answer) if isinstance(answer, bool) else found == answer


def test_first_source_that_consents_counts_and_the_last_word_is_no() -> None:
    """P4: in the order in which a path asks them."""
    bot = replace(by("dependabot[bot]", **{"dependabot[bot]": WRITE}), ledger=LEDGER)
    both = Policy(on_push=PushRules(PushPolicy.REQUEUE, requeue_for=frozenset({"dependabot[bot]"})))
    assert may_bind(bot, BUMP, both, ConsentKind.BOT_PUSH, ConsentKind.REQUEUED_PUSH) is ConsentKind.BOT_PUSH
    assert (
        may_bind(by("ada", ada=WRITE), BUMP, both, ConsentKind.BOT_PUSH, ConsentKind.REQUEUED_PUSH)
        is ConsentKind.REQUEUED_PUSH
    )
    assert may_bind(by("ada", ada=WRITE), BUMP, BOTS, ConsentKind.BOT_PUSH, ConsentKind.REQUEUED_PUSH) is None


def test_push_on_a_head_that_the_ledger_lacks_is_followed_to_one_that_it_has() -> None:
    """P4: the heads with consent are those of the ledger; without it IMQ assumes nothing."""
    head = NewHead("head-3", BUMP.author, "head-2")
    bot = ConsentKind.BOT_PUSH
    assert may_bind(head, BUMP, BOTS, bot) == UnknownFact(HeadFact.LEDGER)
    assert may_bind(replace(head, ledger=LEDGER), BUMP, BOTS, bot) == UnknownFact(HeadFact.PUSHES)
    updated = replace(LEDGER[0], head_sha="head-2", by=None, source=ConsentKind.OWN_UPDATE)
    assert may_bind(replace(head, ledger=(*LEDGER, updated)), BUMP, BOTS, bot) is bot


@pytest.mark.parametrize(
    ("author", "login", "may"),
    [
        ("dependabot[bot]", "dependabot[bot]", True),
        ("dependabot[bot]", "Dependabot[bot]", True),
        ("dependabot[bot]", "mona", False),
        ("mona", "dependabot[bot]", False),
        ("renovate[bot]", "renovate[bot]", False),
        ("dependabot[bot]", None, False),
    ],
)
def test_only_a_named_bot_may_push_and_only_to_what_it_opened(author: str, login: str | None, may: bool) -> None:
    """P4: a name in the list gives no right to other people's pull requests."""
    assert may_push(entry(author=author), login, BOTS) is may


@pytest.mark.parametrize(
    ("pushes", "pushers"),
    [
        ([("head-1", "head-3", "ada")], ("ada",)),
        ([("head-2", "head-3", "ada"), ("head-1", "head-2", "tria"), ("head-0", "head-1", "max")], ("ada", "tria")),
        ([("head-2", "head-3", "ada")], None),
        ([("head-2", "head-3", "ada"), ("head-1", "head-2", None)], None),
        ([("head-2", "head-3", "ada"), ("head-1", "other", "tria")], None),
        ([("head-1", "head-2", "ada")], None),
        ([], None),
    ],
)
def test_everybody_who_pushed_since_the_known_head_is_named(
    pushes: list[tuple[str, str, str | None]], pushers: tuple[str, ...] | None
) -> None:
    """P4: with one unknown push IMQ knows no pushers."""
    assert NewHead("head-3", pushes=moves(*pushes)).pushers({"head-1"}) == pushers


@pytest.mark.parametrize(
    ("pushes", "made"),
    [
        (moves((NO_BRANCH, "tip", "imq[bot]")), True),
        (moves(("one", "tip", "imq[bot]"), (NO_BRANCH, "one", "IMQ[bot]"), (NO_BRANCH, "one", "mona")), True),
        (moves(("one", "tip", "mona"), (NO_BRANCH, "one", "imq[bot]")), False),
        (moves(("one", "tip", "imq[bot]"), (NO_BRANCH, "one", "mona")), False),
        (moves((NO_BRANCH, "former", "imq[bot]")), False),
        (moves(("one", "tip", "imq[bot]")), False),
        ((), False),
    ],
)
def test_branch_is_imqs_own_if_it_made_every_move_from_its_creation_to_its_tip(
    pushes: tuple[HeadPush, ...], made: bool
) -> None:
    """P4: only such a branch is deleted without a record."""
    assert made_by("imq[bot]", pushes, "tip") is made


def test_position_is_kept_only_while_no_run_has_begun() -> None:
    """A push that costs a run goes to the end; so does one that replaced an unknown head."""
    assert keeps_position(BUMP, "head-1", LEDGER)
    assert not keeps_position(BUMP, "other", LEDGER)
    assert not keeps_position(BUMP, None, LEDGER)
    assert not keeps_position(entry(status=EntryStatus.CHECKING), "head-1", LEDGER)


def test_pushed_head_needs_no_proof_by_parents() -> None:
    """It is the head with consent, and no update of IMQ's."""
    bound = with_pushed_head(
        entry(head_sha="updated", updated_from="head-1", head_proved=False, newer_tip="base-2"), "new"
    )
    assert (bound.queued_head, bound.head_sha, bound.head_proved) == ("new", "new", True)
    assert (bound.updated_from, bound.newer_tip) == (None, None)


@pytest.mark.parametrize(
    ("changes", "is_update"),
    [
        ({"head_sha": "head-2", "updated_from": "head-1"}, True),
        ({"status": UPDATING, "head_sha": "head-1", "new_head": "head-2", "new_head_is_ours": True}, True),
        ({"status": UPDATING, "head_sha": "head-1", "new_head": "head-2", "new_head_is_ours": False}, False),
        ({"head_sha": "head-2", "updated_from": "head-0"}, False),
        ({"head_sha": "head-3", "updated_from": "head-1"}, False),
        ({"status": UPDATING, "head_sha": "head-0", "new_head": "head-2", "new_head_is_ours": True}, False),
    ],
)
def test_head_is_an_update_for_another_entry_if_that_entry_has_it_from_the_same_head(
    changes: dict[str, object], is_update: bool
) -> None:
    """P4: heads that a person pushed have no such entry."""
    other = entry(number=2, **changes)
    assert updated_for(OWN, "head-2", [other]) == (other if is_update else None)


def test_shared_update_is_bound_and_ends_a_run_on_the_former_head() -> None:
    """The entry waits again, at its position."""
    updated = changed(OWN, status=CHECKING, candidate="head-1", updated_from="head-0")
    bound = with_shared_update(updated, "head-2", NOW)
    assert (bound.status, bound.head_sha, bound.queued_head, bound.head_proved) == (PENDING, "head-2", "head-2", True)
    assert bound.updated_from is None
    assert not bound.run.has_begun


def test_head_that_is_the_tip_of_its_base_has_lost_nothing() -> None:
    """P6: the base contains what IMQ merged, although another commit is its tip."""
    updated = entry(head_sha="head-2", updated_from="head-1", base_tip="base-1")
    landed = replace(comparison("head-2", parents=("head-1", "base-1")), base_tip="head-2", merge_base="head-2")
    assert dropped_tip(updated, landed) is None
    assert dropped_tip(updated, replace(landed, base_tip="base-0", merge_base="base-0")) == "base-1"
    pushed = replace(landed, head=replace(landed.head, sha="head-3"), base_tip="base-0", merge_base="base-0")
    assert dropped_tip(updated, pushed) is None
