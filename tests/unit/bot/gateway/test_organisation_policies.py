"""An organisation's file: how far a repository follows it, and when it is read again."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from bot.gateway.people import KnownTeams
from bot.gateway.policies import Policies
from queue_engine.domain.errors import GitHubError, Invalid
from queue_engine.domain.policy import SharedConfig
from queue_engine.store import Store
from tests.store.examples import OTHER, REPOSITORY
from tests.support.policies import unasked
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.gateway.policy_files import DEFAULTS, Files, Renewed

SHARED = replace(REPOSITORY, id=99, name=".github")


async def test_of_without_a_file_takes_the_organisations(policies: Policies, files: Files) -> None:
    """The file in the owner's repository `.github` holds for all repositories without one, and is read once."""
    files.shared = "depth: 3\nbranches: [{match: next, depth: 4}]"
    files.own = {(OTHER.id, "main"): "# on purpose nothing\n"}
    assert (await policies.of(REPOSITORY, "main")).depth == 3
    assert (await policies.of(REPOSITORY, "next")).depth == 4
    assert (await policies.of(OTHER, "main")).depth == 7
    assert files.asked.count(".github") == 1


async def test_of_follows_the_organisations_as_far_as_it_tightens(policies: Policies, files: Files) -> None:
    """Its loosening keys are named in the policy and in the log, once for all that read it."""
    files.shared = "depth: 3\ntrigger_labels: bug\nbranches: [{match: next, who_may_queue: {people: mallory}}]"
    with capture_logs() as logs:
        main = await policies.of(REPOSITORY, "main")
        branch = await policies.of(REPOSITORY, "next")
    assert (main.depth, main.trigger_labels, branch.who_may_queue.people) == (3, ("go",), frozenset())
    assert [sentence.partition(" ")[0] for sentence in main.not_followed] == ["trigger_labels"]
    assert [sentence.partition(" ")[0] for sentence in branch.not_followed] == [
        "trigger_labels",
        "who_may_queue.people",
    ]
    assert await policies.labels(REPOSITORY) == ("go",)
    assert [log["ignored"] for log in logs] == [branch.not_followed]


@pytest.mark.parametrize("shared", ["depth: 3", "depth: [", Invalid(".github/imq.yml is a directory, not a file")])
async def test_of_ignores_an_unreviewed_file_of_an_organisation(
    policies: Policies, files: Files, store: Store, clock: ManualClock, shared: str | GitHubError
) -> None:
    """P5: an unreviewed file in a new repository `.github` decides nothing, and stops no queue."""
    files.shared, files.reviewed = shared, False
    with capture_logs() as logs:
        policy = await policies.of(REPOSITORY, "main")
    assert replace(policy, not_followed=()) == DEFAULTS
    assert "no rule requires an approving review" in policy.not_followed[0]
    assert [log["why"] for log in logs] == list(policy.not_followed)
    await policies.of(REPOSITORY, "next")
    process = Policies(
        files, store, DEFAULTS, clock, forget_rules=lambda _: None, teams=KnownTeams(unasked, store, clock)
    )
    assert await process.of(REPOSITORY, "main") == policy, "nor in a process that takes it from the database"
    assert files.asked.count("rules of .github") == 1


async def test_of_asks_for_no_review_where_the_organisation_has_no_file(policies: Policies, files: Files) -> None:
    """P7: most owners have none."""
    assert await policies.of(REPOSITORY, "main") == DEFAULTS
    assert "rules of .github" not in files.asked


@pytest.mark.parametrize("allowed", [SharedConfig.OFF, SharedConfig.TRUST])
async def test_of_follows_the_operator_on_what_an_organisations_file_may_do(
    files: Files, store: Store, clock: ManualClock, allowed: SharedConfig
) -> None:
    """Off, it is not even asked for; trusted, it counts whole."""
    policies = Policies(
        files,
        store,
        DEFAULTS,
        clock,
        forget_rules=lambda _: None,
        teams=KnownTeams(unasked, store, clock),
        shared=allowed,
    )
    files.shared = "trigger_labels: ship"
    trusted = allowed is SharedConfig.TRUST
    assert (await policies.of(REPOSITORY, "main")).trigger_labels == (("ship",) if trusted else ("go",))
    assert await policies.labels(REPOSITORY) == (("ship",) if trusted else ("go",))
    assert (".github" in files.asked) == trusted


async def test_of_asks_for_the_rules_of_an_organisations_file_again_when_they_change(
    files: Files, store: Store, clock: ManualClock, renewed: Renewed
) -> None:
    """Every process reads the rules again, whichever one receives the webhook."""
    forgotten: list[int] = []
    policies = Policies(
        files, store, DEFAULTS, clock, forget_rules=forgotten.append, teams=KnownTeams(unasked, store, clock)
    )
    files.shared = "depth: 3"
    assert (await policies.of(REPOSITORY, "main")).depth == 3
    files.reviewed = False
    await renewed(SHARED)
    assert (await policies.of(REPOSITORY, "main")).depth == 7
    assert SHARED.id in forgotten


async def test_of_changed_for_the_organisation_is_read_again(
    policies: Policies, files: Files, renewed: Renewed
) -> None:
    """A push to the owner's repository `.github` changes the rules of the others at once."""
    await policies.of(REPOSITORY, "main")
    files.shared = "depth: 4"
    await renewed(SHARED)
    assert (await policies.of(REPOSITORY, "main")).depth == 4
    assert files.asked == ["rocket:main", ".github", ".github", "rules of .github"]


async def test_of_a_broken_organisation_file_names_it(policies: Policies, files: Files) -> None:
    """The error names the repository in which to fix it."""
    files.shared = "depth: x"
    fault = (await policies.of(REPOSITORY, "main")).fault
    assert fault == '.github/imq.yml of acme/.github, line 1: depth must be a whole number, not "x"'
