"""What builds candidates, against the emulated GitHub over HTTP."""

import pytest

from github_emulator import Job, Trigger
from queue_engine.domain.errors import Forbidden, HeadConflict, Invalid, NotFound
from tests.unit.bot.gateway.candidate_builds import BUILD, WORKFLOW, build, grant
from tests.unit.bot.gateway.emulator_place import Place


async def test_merge_into_a_build_branch_returns_the_commit_and_its_tree(place: Place) -> None:
    """The merge commit's parents are the branch's former tip and the member's head."""
    base = place.handle.sha("main")
    built = await build(place)
    assert built.parents == (base, place.pull.head_sha)
    assert (built.sha, built.tree) == (place.handle.sha(BUILD), place.handle.tree(BUILD))


async def test_merge_of_what_the_branch_contains_returns_none(place: Place) -> None:
    """So a merge whose answer was lost is no conflict the second time."""
    await build(place)
    assert await place.gateway.merge_into(place.repository, BUILD, place.pull.head_sha, "again") is None


async def test_merge_that_conflicts_or_misses_a_commit_is_refused_as_such(place: Place) -> None:
    """409 with GitHub's words for a conflict, 404 for a head that is gone."""
    await build(place)
    other = place.handle.open_pull_request("Other", head="topic/2", by="mona", files={"new.py": "other\n"})
    with pytest.raises(HeadConflict):
        await place.gateway.merge_into(place.repository, BUILD, other.head_sha, "Merge")
    with pytest.raises(NotFound):
        await place.gateway.merge_into(place.repository, BUILD, "1" * 40, "Merge")
    with pytest.raises(NotFound):
        await place.gateway.merge_into(place.repository, "imq-build/main/8", other.head_sha, "Merge")


@pytest.mark.parametrize("as_conflict", [False, True])
async def test_merge_of_a_workflow_without_the_permission_is_forbidden(place: Place, as_conflict: bool) -> None:
    """GitHub answers 403, or 409 as for a conflict: neither is one."""
    place.github.behaviour.merges_refuse_workflows_with_409 = as_conflict
    await build(place)
    other = place.handle.open_pull_request("CI", head="topic/2", by="mona", files={WORKFLOW: "on: push\n"})
    with pytest.raises(Forbidden, match="`workflows` permission"):
        await place.gateway.merge_into(place.repository, BUILD, other.head_sha, "Merge")


async def test_merge_that_a_rule_of_the_build_branch_forbids_is_no_conflict(place: Place) -> None:
    """A ruleset for all branches, with the bypass forgotten."""
    place.github.behaviour.pull_request_rule_on_create = False
    place.handle.add_ruleset("all", branches=["~ALL"], required_approvals=1)
    await place.gateway.create_branch(place.repository, BUILD, place.handle.sha("main"))
    with pytest.raises(Invalid, match="through a pull request"):
        await place.gateway.merge_into(place.repository, BUILD, place.pull.head_sha, "Merge")


@pytest.mark.parametrize("named", [True, False])
async def test_branch_that_a_rule_forbids_to_create_is_invalid(place: Place, named: bool) -> None:
    """With the rule in the message, or with "Reference update failed"; an existing branch is invalid too."""
    place.github.behaviour.ruled_refs_named = named
    with pytest.raises(Invalid, match="already exists"):
        await place.gateway.create_branch(place.repository, "main", place.pull.head_sha)
    place.handle.add_ruleset("all", branches=["~ALL"], creation=True)
    with pytest.raises(Invalid, match="creations being restricted" if named else "Reference update failed"):
        await place.gateway.create_branch(place.repository, BUILD, place.handle.sha("main"))


async def test_commit_has_the_named_tree_and_is_signed_by_github(place: Place) -> None:
    """Without author and committer GitHub signs what an App commits."""
    base, tree = place.handle.sha("main"), place.handle.tree(place.pull.head_sha)
    made = await place.gateway.create_commit(place.repository, tree, (base,), "Add (`#1`)")
    assert (made.tree, made.parents) == (tree, (base,))
    assert place.handle.record.git.must(made.sha).committer.name == "GitHub"


async def test_draft_of_a_candidate_is_opened_once_and_closed(place: Place) -> None:
    """The second call finds the first one's pull request; closing a closed one is no error."""
    await build(place)
    gateway, repository = place.gateway, place.repository
    number = await gateway.open_draft(repository, BUILD, "main", "Test 1", "Tests `#1`")
    assert await gateway.open_draft(repository, BUILD, "main", "Test 1", "Tests `#1`") == number
    pull = place.handle.record.pulls[number]
    assert (pull.draft, pull.body, pull.base_branch) == (True, "Tests `#1`", "main")
    for _ in range(2):
        await gateway.close_pull_request(repository, number)
        assert pull.state == "closed"


async def test_draft_that_is_open_already_is_found_by_its_branch(place: Place) -> None:
    """IMQ closes it later: GitHub may list a person's pull request, too, whose branch is on the same commit."""
    await build(place)
    number = await place.gateway.open_draft(place.repository, BUILD, "main", "Test 1", "nothing")
    place.handle.create_branch("theirs", BUILD, by="mona")
    theirs = place.handle.open_pull_request("Theirs", head="theirs", by="mona")
    assert await place.gateway.open_draft(place.repository, BUILD, "main", "Test 1", "nothing") == number
    place.github.behaviour.lists_heads_by_commit = True
    assert (
        await place.gateway.open_draft(place.repository, BUILD, "main", "Test 1", "nothing") == number != theirs.number
    )


@pytest.mark.parametrize("listed", [False, True])
async def test_repository_without_drafts_gets_a_pull_request(place: Place, listed: bool) -> None:
    """The refusal is GitHub's message, or one of its list of errors."""
    place.github.behaviour.drafts, place.github.behaviour.draft_refusal_listed = False, listed
    await build(place)
    number = await place.gateway.open_draft(place.repository, BUILD, "main", "Test 1", "Tests `#1`")
    assert await place.gateway.open_draft(place.repository, BUILD, "main", "Test 1", "Tests `#1`") == number
    assert not place.handle.record.pulls[number].draft


async def test_draft_with_nothing_to_merge_is_invalid(place: Place) -> None:
    """No pull request is opened, and none found."""
    await place.gateway.create_branch(place.repository, BUILD, place.handle.sha("main"))
    with pytest.raises(Invalid, match="No commits between"):
        await place.gateway.open_draft(place.repository, BUILD, "main", "Test 1", "nothing")


async def test_dispatched_workflow_runs_on_the_branch(place: Place) -> None:
    """Its run has the event `workflow_dispatch` and the tip of the candidate."""
    grant(place, actions="write")
    triggers = [Trigger("workflow_dispatch", inputs=("candidate",))]
    place.handle.add_workflow("CI", on=triggers, jobs=[Job("test")], path=WORKFLOW)
    built = await build(place)
    await place.gateway.dispatch_workflow(place.repository, WORKFLOW, BUILD, {"candidate": "7"})
    await place.run_ci()
    (run,) = await place.gateway.workflow_runs(place.repository, built.sha)
    assert run.event == "workflow_dispatch"
    reports = await place.gateway.check_reports(place.repository, built.sha, ())
    assert "test" in {report.name for report in reports}


async def test_workflow_that_cannot_be_dispatched_is_invalid_missing_or_forbidden(place: Place) -> None:
    """Without the trigger, the branch, the file or the permission."""
    with pytest.raises(Forbidden):
        await place.gateway.dispatch_workflow(place.repository, WORKFLOW, "main", {})
    grant(place, actions="write")
    place.gateway.forget_token(place.repository.installation_id)
    workflow = place.handle.add_workflow("CI", path=WORKFLOW)
    with pytest.raises(Invalid, match="workflow_dispatch"):
        await place.gateway.dispatch_workflow(place.repository, WORKFLOW, "main", {})
    with pytest.raises(Invalid, match="No ref found"):
        await place.gateway.dispatch_workflow(place.repository, WORKFLOW, "imq/main/9", {})
    with pytest.raises(NotFound):
        await place.gateway.dispatch_workflow(place.repository, ".github/workflows/no.yml", "main", {})
    workflow.workflow.disabled = True
    with pytest.raises(Invalid, match="disabled"):
        await place.gateway.dispatch_workflow(place.repository, WORKFLOW, "main", {})


async def test_workflow_files_are_read_at_a_commit_by_one_query(place: Place) -> None:
    """Only YAML files of the directory itself; what is binary or too long has no text."""
    none = await place.gateway.workflow_files(place.repository, place.handle.sha("main"))
    files = {WORKFLOW: "on: push\n", ".github/workflows/x.md": "", ".github/workflows/sub/y.yml": "on: push\n"}
    odd = {".github/workflows/a.yaml": "#" * 600_000, ".github/workflows/b.yml": "on:\0push"}
    commit = place.handle.push("main", files | odd, "CI", by="mona")
    place.server.requests.clear()
    found = await place.gateway.workflow_files(place.repository, commit)
    assert none == {}
    assert found == {WORKFLOW: "on: push\n", ".github/workflows/a.yaml": "", ".github/workflows/b.yml": ""}
    assert [each.template for each in place.server.requests] == ["POST /graphql"]
    with pytest.raises(NotFound):
        await place.gateway.workflow_files(place.repository, "1" * 40)


async def test_texts_of_files_are_read_at_a_commit_by_one_query(place: Place) -> None:
    """Folders and missing files are left out; what is binary or too long has no text."""
    files = {"ci/a/action.yml": "runs: {}\n", "b.yml": "on:\0push", "long.yml": "#" * 600_000}
    commit = place.handle.push("main", files, "CI", by="mona")
    assert await place.gateway.texts(place.repository, commit, ("no.yml",)) == {}
    place.server.requests.clear()
    found = await place.gateway.texts(
        place.repository, commit, ("ci/a", "ci/a/action.yml", "no.yml", "b.yml", "long.yml")
    )
    assert found == {"ci/a/action.yml": "runs: {}\n", "b.yml": "", "long.yml": ""}
    assert [each.template for each in place.server.requests] == ["POST /graphql"]


async def test_paths_are_those_of_all_files_of_a_commit(place: Place) -> None:
    """Of every folder, by one request, without folders and empty files; none where GitHub cuts the list off."""
    commit = place.handle.push("main", {"ci/a/go.sh": "make\n", "b.yml": "on: push", "none.py": ""}, "CI", by="mona")
    found = await place.gateway.paths(place.repository, commit)
    assert found is not None
    assert {"ci/a/go.sh", "b.yml"} <= {*found}
    assert not {"ci", "ci/a", "none.py"} & {*found}
    assert place.server.requests[-1].template == "GET /repos/{owner}/{repo}/git/trees/{tree_sha}"
    place.github.behaviour.most_tree_entries = 2
    other = place.handle.push("main", {"c": "c\n"}, "More", by="mona")
    assert await place.gateway.paths(place.repository, other) is None
