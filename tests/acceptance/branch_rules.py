"""Rules of branches beside checks: each with a violation, its remedy, and the words of the refusal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from github_emulator import ReviewRule
from tests.acceptance.world import World

Act = Callable[[World, Any], object]


def guard(world: World, **rules: Any) -> None:
    """Protect `main` by these rules and its check."""
    world.repository.protect("main", required_checks=[("ci/test", world.app_id("ci"))], by="rhea", **rules)


def rule(world: World, **rules: Any) -> None:
    """Give `main` a ruleset."""
    world.repository.add_ruleset("rules", by="rhea", **rules)


@dataclass(frozen=True)
class Case:
    """A rule, a violation by the pull request, its remedy, and the reason and words of the refusal."""

    rules: Act
    wrong: Act
    remedy: Act
    reason: str
    words: str
    merges_asked: int = 0
    unread: str = ""
    """The reason after a refused merge, where the App may not read the branch's protection."""


def owned_by_rhea(world: World) -> None:
    """Every Python file of `main` has an owner, who has to agree."""
    world.repository.push("main", {".github/CODEOWNERS": "*.py @rhea\n"}, "Own", by="rhea")
    rule(world, reviews=ReviewRule(1, code_owners=True))


def approved(*, by: str) -> Act:
    """Somebody approves."""
    return lambda _, pull: pull.review("APPROVED", by=by)


def disputed(_world: World, pull: Any) -> None:
    """One reviewer approves, another requests changes."""
    pull.review("APPROVED", by="rhea")
    pull.review("CHANGES_REQUESTED", by="hubot")


def opened(_world: World, pull: Any) -> None:
    """A reviewer opens a conversation."""
    pull.open_thread("Really?", by="hubot")


def resolved(_world: World, pull: Any) -> None:
    """All conversations are resolved."""
    for thread in pull.record.threads:
        pull.resolve_thread(thread)


def signed(_world: World, pull: Any) -> None:
    """All commits are signed."""
    pull.sign()


def nothing(_world: World, _pull: Any) -> None:
    """Nothing is to be done."""


def linear(world: World, *, classic: bool) -> None:
    """`main` takes no merge commits, and the repository nothing else."""
    if classic:
        guard(world, required_linear_history=True)
    else:
        rule(world, linear_history=True)
    allow_squash(world, False)


def allow_squash(world: World, allowed: bool) -> None:
    """The repository allows merge commits, no rebase merges, and squash merges or not."""
    world.repository.record.allow_rebase_merge = False
    world.repository.record.allow_squash_merge = allowed


CASES = {
    "approval, classic": Case(
        lambda world, _: guard(world, reviews=ReviewRule(2)),
        approved(by="hubot"),
        approved(by="rhea"),
        "approval_missing",
        "1 of 2",
        unread="At least 2 approving reviews are required",
    ),
    "approval, ruleset": Case(
        lambda world, _: rule(world, reviews=ReviewRule(1)),
        nothing,
        approved(by="hubot"),
        "approval_missing",
        "0 of 1",
    ),
    "approval, organisation": Case(
        lambda world, _: rule(world, reviews=ReviewRule(1), organisation=True),
        nothing,
        approved(by="hubot"),
        "approval_missing",
        "0 of 1",
    ),
    "last push": Case(
        lambda world, _: guard(world, reviews=ReviewRule(1, last_push=True)),
        lambda _, pull: (pull.push({"more.py": "more\n"}, by="hubot"), pull.review("APPROVED", by="hubot")),
        approved(by="rhea"),
        "approval_missing",
        "for example of the newest push",
    ),
    "changes requested, classic": Case(
        lambda world, _: guard(world, reviews=ReviewRule(1)),
        disputed,
        approved(by="hubot"),
        "changes_requested",
        "hubot",
        unread="1 review requesting changes",
    ),
    "changes requested, ruleset": Case(
        lambda world, _: rule(world, reviews=ReviewRule(1)),
        disputed,
        approved(by="hubot"),
        "changes_requested",
        "hubot",
    ),
    "code owner": Case(
        lambda world, _: owned_by_rhea(world),
        approved(by="hubot"),
        approved(by="rhea"),
        "code_owner_missing",
        "an approval from a code owner",
    ),
    "conversation, classic": Case(
        lambda world, _: guard(world, required_conversation_resolution=True),
        opened,
        resolved,
        "conversations_unresolved",
        "requires resolved conversations",
    ),
    "conversation, ruleset": Case(
        lambda world, _: rule(world, reviews=ReviewRule(0, resolve_threads=True)),
        opened,
        resolved,
        "conversations_unresolved",
        "requires resolved conversations",
    ),
    "signatures, classic": Case(
        lambda world, _: guard(world, signatures=True),
        nothing,
        signed,
        "signatures_missing",
        "some commits lack a signature",
        unread="must have verified signatures",
    ),
    "signatures, ruleset": Case(
        lambda world, _: rule(world, signatures=True),
        nothing,
        signed,
        "signatures_missing",
        "some commits lack a signature",
    ),
    "deployment": Case(
        lambda world, _: rule(world, deployments=["staging"]),
        nothing,
        lambda _, pull: pull.deploy("staging"),
        "deployment_missing",
        "Missing successful active staging deployment",
        merges_asked=1,
    ),
    "linear history, ruleset": Case(
        lambda world, _: linear(world, classic=False),
        nothing,
        lambda world, _: allow_squash(world, True),
        "linear_history_required",
        "requires a linear history",
    ),
    "linear history, classic": Case(
        lambda world, _: linear(world, classic=True),
        nothing,
        lambda world, _: allow_squash(world, True),
        "linear_history_required",
        "requires a linear history",
        unread="requires a linear history",
    ),
    "lock": Case(
        lambda world, _: guard(world, lock=True),
        nothing,
        lambda world, _: guard(world),
        "branch_locked",
        "is locked",
        unread="Cannot change this locked branch",
    ),
    "push restriction": Case(
        lambda world, _: guard(world, restrict_pushes=["rhea"]),
        nothing,
        lambda world, _: guard(world, restrict_pushes=["imq"]),
        "push_restricted",
        "restricts who can push",
        unread="not authorized to push to this branch",
    ),
}
