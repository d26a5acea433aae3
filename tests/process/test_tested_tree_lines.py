"""The lines for workflows, run by bash as a runner does: they skip only what a mark names exactly (P1)."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from docs.tested_lines import workflow_lines
from queue_engine.config.document import parse
from queue_engine.domain.facts import RequiredCheck
from queue_engine.domain.policy import Candidates
from queue_engine.domain.run import CandidateTrigger
from queue_engine.rules.proof import mark_text
from queue_engine.workflows.trigger_choice import choose_trigger
from tests.process.history_maker import HistoryMaker
from tests.unit.queue_engine.workflows.labeled import CANDIDATE

CHECKS = [RequiredCheck("ci/test", None), RequiredCheck("it's $HOME", 15368)]
PLACES = {False: "refs/imq/tested/", True: "refs/heads/imq-tested/"}


def skips(clone: Path, *, by_branch: bool, branch: str = "main") -> bool:
    """Run the step in a clone; whether it says that the tests may be left out."""
    lines: Any = parse(workflow_lines(branch, CHECKS, by_branch=by_branch)).value
    script = lines["jobs"]["tested"]["steps"][1]["run"]
    output = clone / "output"
    output.write_text("")
    environ = {"PATH": os.environ["PATH"], "HOME": str(clone), "GITHUB_OUTPUT": str(output)}
    subprocess.run(["bash", "-e", "-c", script], cwd=clone, env=environ, check=True, capture_output=True)
    assert output.read_text() in ("", "skip=true\n")
    return output.read_text() != ""


def point(origin: HistoryMaker, tree: str, text: str, *, by_branch: bool) -> None:
    """Mark a tree as IMQ does it."""
    blob = origin.git("hash-object", "-w", "--stdin", given=text)
    if by_branch:
        of_mark = origin.git("mktree", given=f"100644 blob {blob}\timq-tested\n")
        blob = origin.git("commit-tree", "-m", "[skip ci]", of_mark)
    origin.git("update-ref", f"{PLACES[by_branch]}{tree}", blob)


@pytest.mark.parametrize("by_branch", [False, True])
def test_lines_skip_what_the_mark_names_and_nothing_else(tmp_path: Path, by_branch: bool) -> None:
    """Another tree, branch or check, a ref that is elsewhere, and a server that does not answer: the tests run."""
    origin, clone = HistoryMaker(tmp_path / "origin"), tmp_path / "clone"
    origin.git("clone", "-q", "--depth=1", f"file://{origin.path}", str(clone))
    tree, text = origin.sha("HEAD^{tree}"), mark_text("main", CHECKS)
    assert not skips(clone, by_branch=by_branch)
    point(origin, tree, text, by_branch=by_branch)
    assert skips(clone, by_branch=by_branch)
    assert not skips(clone, by_branch=by_branch, branch="release")
    for other in (mark_text("main", CHECKS[:1]), mark_text("main", [*CHECKS, RequiredCheck("lint", None)])):
        point(origin, tree, other, by_branch=by_branch)
        assert not skips(clone, by_branch=by_branch)
    point(origin, tree, text, by_branch=by_branch)
    (clone / "README.md").write_text("one file differs\n")
    subprocess.run(
        ["git", "-c", "user.name=m", "-c", "user.email=m@x", "commit", "-qam", "Push"], cwd=clone, check=True
    )
    assert not skips(clone, by_branch=by_branch)
    subprocess.run(["git", "reset", "-q", "--hard", "HEAD~"], cwd=clone, check=True)
    assert skips(clone, by_branch=by_branch)
    origin.path.rename(tmp_path / "gone")
    assert not skips(clone, by_branch=by_branch)


def test_lines_run_the_tests_whatever_becomes_of_the_first_job() -> None:
    """A job that failed has no output: the condition holds unless somebody cancels."""
    text = workflow_lines("main", CHECKS)
    lines: Any = parse(text).value
    jobs = lines["jobs"]
    assert (jobs["tested"]["if"], jobs["test"]["needs"]) == ("github.ref == 'refs/heads/main'", "tested")
    on_main = "needs.tested.outputs.skip != 'true'"
    assert jobs["test"]["if"] == f"${{{{ !cancelled() && (github.ref != 'refs/heads/main' || {on_main}) }}}}"
    assert text.count("\n") <= 17


def test_lines_leave_no_doubt_that_candidates_are_tested() -> None:
    """P1: with them in its workflow a repository keeps its trains, and needs no first train for the proof."""
    test = frozenset({RequiredCheck("test", None)})
    text = "on: {push: {branches: [main, 'imq/**']}}\n" + workflow_lines("main", test)
    text += "    runs-on: ubuntu-latest\n    steps: [{run: make test}]\n"
    choice = choose_trigger({".github/workflows/ci.yml": text}, test, CANDIDATE, Candidates.AUTO)
    assert (choice.trigger, choice.proven) == (CandidateTrigger.PUSH, True), choice.answers
