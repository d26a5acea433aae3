from typing import Any

import pytest

from queue_engine.door import Admit, Answer, Hold, Ignore, Refuse, knock
from queue_engine.facts import Permission
from queue_engine.policy import Policy
from queue_engine.reasons import Reason
from tests.queue_engine.examples import POLICY, pull, rules


def asked(
    changes: dict[str, Any] | None = None,
    *,
    labelled_head: str = "head-1",
    permission: Permission = Permission.WRITE,
    native_queue: bool = False,
    depth: int = 0,
    policy: Policy = POLICY,
) -> Answer:
    """The door's answer to pull request 1 with these changes."""
    return knock(
        pull(**(changes or {})),
        labelled_head=labelled_head,
        permission=permission,
        rules=rules("ci", native_queue=native_queue),
        depth=depth,
        policy=policy,
    )


@pytest.mark.parametrize("mergeable", [True, None])
def test_door_admits_what_is_fit(mergeable: bool | None) -> None:
    """A mergeability that GitHub has not computed yet is no reason to turn anybody away."""
    assert asked({"mergeable": mergeable}) == Admit()


@pytest.mark.parametrize("permission", Permission)
def test_door_lets_in_only_with_the_right_to_merge(permission: Permission) -> None:
    """GitHub lets triagers label but not merge: IMQ does not lend them its hand."""
    fit = {Permission.WRITE, Permission.MAINTAIN, Permission.ADMIN}
    expected = Admit() if permission in fit else Refuse(Reason.LABEL_WITHOUT_RIGHT)
    assert asked(permission=permission) == expected


@pytest.mark.parametrize("changes", [{"open": False}, {"open": False, "merged": True}, {"labels": frozenset({"docs"})}])
@pytest.mark.parametrize("permission", [Permission.NONE, Permission.ADMIN])
def test_door_ignores_what_nobody_asks_for_any_more(changes: dict[str, Any], permission: Permission) -> None:
    """Closed, or the label already gone: no words for anybody."""
    assert asked(changes, permission=permission) == Ignore()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"draft": True}, Reason.DRAFT),
        ({"head_repository": None}, Reason.FORK_DELETED),
        ({"mergeable": False}, Reason.CONFLICT),
    ],
)
def test_door_refuses_what_cannot_land(changes: dict[str, Any], reason: Reason) -> None:
    """Each with its own reason."""
    assert asked(changes) == Refuse(reason)


def test_door_refuses_a_head_pushed_after_the_label() -> None:
    """Consent is for the head that the person saw when setting the label, and no other (P4)."""
    assert asked({"head_sha": "evil"}, labelled_head="head-1") == Refuse(Reason.HEAD_CHANGED)


def test_door_refuses_where_github_requires_its_own_queue() -> None:
    """Nobody else can merge there: say so at once, not after the checks."""
    assert asked(native_queue=True) == Refuse(Reason.NATIVE_QUEUE_REQUIRED)


@pytest.mark.parametrize(("depth", "answer"), [(0, Admit()), (19, Admit()), (20, Hold()), (21, Hold())])
def test_door_holds_when_the_queue_is_full(depth: int, answer: Answer) -> None:
    """The twenty-first waits outside until a place frees."""
    assert asked(depth=depth) == answer


def test_door_without_a_limit_never_holds() -> None:
    """0 means no limit."""
    assert asked(depth=10_000, policy=Policy(max_depth=0)) == Admit()


def test_door_refuses_rather_than_holds_what_could_not_join() -> None:
    """Nobody waits outside for a refusal."""
    assert asked({"mergeable": False}, depth=20) == Refuse(Reason.CONFLICT)


def test_door_tells_no_secrets_to_those_without_the_right() -> None:
    """Whoever may not ask gets that answer, whatever else is wrong."""
    everything = {"draft": True, "mergeable": False, "head_repository": None, "head_sha": "evil"}
    assert asked(everything, permission=Permission.TRIAGE) == Refuse(Reason.LABEL_WITHOUT_RIGHT)
