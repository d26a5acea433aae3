"""Moves of branches by `updateRefs`, against the emulated GitHub over HTTP: a compare-and-swap, all of them or none."""

from dataclasses import replace
from typing import Any

import pytest

from bot.gateway.http.client import ErrorAnswer, QueryAnswer
from github_emulator import Fault
from queue_engine.domain.errors import Forbidden, HeadConflict, MergeError, Unavailable
from queue_engine.domain.port import NO_BRANCH, BranchUpdate
from tests.unit.bot.gateway.candidate_builds import BUILD, CANDIDATE, WORKFLOW, build, grant
from tests.unit.bot.gateway.emulator_place import Place


async def test_base_moves_and_both_branches_go_in_one_call(place: Place) -> None:
    """A landing by compare-and-swap; what it brought is merged."""
    gateway, repository, base = place.gateway, place.repository, place.handle.sha("main")
    built = await build(place)
    published = BranchUpdate(CANDIDATE, before=NO_BRANCH, after=built.sha)
    await gateway.update_refs(repository, (published, BranchUpdate(BUILD, before=built.sha, after=None)))
    assert (place.handle.sha(CANDIDATE), place.handle.record.git.branch(BUILD)) == (built.sha, None)
    landed = BranchUpdate("main", before=base, after=built.sha)
    await gateway.update_refs(repository, (landed, BranchUpdate(CANDIDATE, before=built.sha, after=None)))
    assert (place.handle.sha("main"), place.handle.record.git.branch(CANDIDATE)) == (built.sha, None)
    await place.github.settle()
    assert place.pull.merged
    queries = [str(each.body) for each in place.server.requests if each.template == "POST /graphql"]
    assert sum("query NodeId" in each for each in queries) == 1, "the repository's id is read once"


@pytest.mark.parametrize("named", [True, False])
async def test_update_from_another_tip_changes_nothing(place: Place, named: bool) -> None:
    """All moves or none, however GitHub words it; a branch that must not exist but does is such a tip too."""
    place.github.behaviour.names_moved_refs = named
    base = place.handle.sha("main")
    built = await build(place)
    moved = place.handle.push("main", {"moved.py": "moved\n"}, "Move", by="mona")
    both = (BranchUpdate("main", before=base, after=built.sha), BranchUpdate(BUILD, before=built.sha, after=None))
    with pytest.raises(HeadConflict):
        await place.gateway.update_refs(place.repository, both)
    with pytest.raises(HeadConflict):
        await place.gateway.update_refs(place.repository, (BranchUpdate(BUILD, before=NO_BRANCH, after=base),))
    assert (place.handle.sha("main"), place.handle.sha(BUILD)) == (moved, built.sha)


async def test_branch_moves_only_from_the_expected_tip_and_never_back_without_force(place: Place) -> None:
    """P1: a tip that a push could be put onto is another one all the same, as after a reset of the base."""
    gateway, base = place.gateway, place.handle.sha("main")
    built = await build(place)
    child = await gateway.create_commit(place.repository, built.tree, (built.sha,), "On top")
    with pytest.raises(HeadConflict):
        await gateway.update_refs(place.repository, (BranchUpdate(BUILD, before=base, after=child.sha),))
    back = BranchUpdate(BUILD, before=built.sha, after=base)
    with pytest.raises(HeadConflict):
        await gateway.update_refs(place.repository, (back,))
    assert place.handle.sha(BUILD) == built.sha
    await gateway.update_refs(place.repository, (replace(back, force=True),))
    assert place.handle.sha(BUILD) == base


async def test_trouble_of_github_in_an_update_is_no_moved_tip(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """IMQ asks again: after a refusal it would land by merges from then on."""
    base = place.handle.sha("main")
    await place.gateway.workflow_files(place.repository, base)

    async def ask(*_: object) -> QueryAnswer:
        trouble = ErrorAnswer(message="Something went wrong while executing your query", path=["updateRefs"])
        return QueryAnswer(data={"updateRefs": None}, errors=[trouble])

    monkeypatch.setattr(place.gateway, "_ask", ask)
    with pytest.raises(Unavailable):
        await place.gateway.update_refs(place.repository, (BranchUpdate("main", before=base, after="1" * 40),))


async def test_update_that_rules_forbid_names_them_and_leaves_the_candidate(place: Place) -> None:
    """By a ruleset and by classic protection."""
    base = place.handle.sha("main")
    built = await build(place)
    both = (BranchUpdate("main", before=base, after=built.sha), BranchUpdate(BUILD, before=built.sha, after=None))
    ruleset = place.handle.add_ruleset("main", required_approvals=1)
    with pytest.raises(MergeError, match="through a pull request"):
        await place.gateway.update_refs(place.repository, both)
    place.handle.remove_ruleset(ruleset)
    place.handle.protect("main", required_checks=["never/reports"])
    with pytest.raises(MergeError, match="never/reports"):
        await place.gateway.update_refs(place.repository, both)
    assert (place.handle.sha("main"), place.handle.sha(BUILD)) == (base, built.sha)


@pytest.mark.parametrize(
    ("mode", "covers_apps", "lands"),
    [
        ("always", True, True),
        ("always", False, False),
        ("pull_request", True, False),
        ("exempt", False, True),
    ],
)
async def test_bypass_modes_that_cover_a_direct_update(place: Place, mode: Any, covers_apps: bool, lands: bool) -> None:
    """Sources disagree whether `always` covers what an App does to a branch; `exempt` does."""
    place.github.behaviour.apps_bypass_updates = covers_apps
    place.handle.add_ruleset("main", required_approvals=1, bypass={place.app.slug: mode})
    base = place.handle.sha("main")
    built = await build(place)
    update = (BranchUpdate("main", before=base, after=built.sha),)
    if not lands:
        with pytest.raises(MergeError):
            await place.gateway.update_refs(place.repository, update)
    else:
        await place.gateway.update_refs(place.repository, update)
    assert place.handle.sha("main") == (built.sha if lands else base)


async def test_update_that_changes_workflows_without_the_permission_is_forbidden(place: Place) -> None:
    """The message names the permission; with it the same call succeeds."""
    base = place.handle.sha("main")
    other = place.handle.open_pull_request("CI", head="topic/2", by="mona", files={WORKFLOW: "on: push\n"})
    update = (BranchUpdate("main", before=base, after=other.head_sha),)
    with pytest.raises(Forbidden, match="`workflows` permission"):
        await place.gateway.update_refs(place.repository, update)
    assert place.handle.sha("main") == base
    grant(place, workflows="write")
    place.gateway.forget_token(place.repository.installation_id)
    await place.gateway.update_refs(place.repository, update)
    assert place.handle.sha("main") == other.head_sha


async def test_update_whose_answer_is_lost_may_have_happened(place: Place) -> None:
    """As for every write: the caller reads the tips."""
    base = place.handle.sha("main")
    built = await build(place)
    await place.gateway.workflow_files(place.repository, base)
    place.server.faults.add(Fault(method="POST", route="/graphql", kind="apply_then_reset"))
    with pytest.raises(Unavailable):
        await place.gateway.update_refs(place.repository, (BranchUpdate("main", before=base, after=built.sha),))
    assert place.handle.sha("main") == built.sha


async def test_github_without_graphql_offers_no_update_of_several_branches(place: Place) -> None:
    """Forbidden, which no retry helps."""
    place.github.behaviour.graphql = False
    with pytest.raises(Forbidden, match="offers no trains"):
        await place.gateway.update_refs(place.repository, (BranchUpdate("main", before=None, after="1" * 40),))
    with pytest.raises(Forbidden, match="offers no trains"):
        await place.gateway.workflow_files(place.repository, place.handle.sha("main"))
