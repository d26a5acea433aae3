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
from queue_engine.rules.proof import mark_of
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


def ref_of(tree: str, branch: str = "main", checks: Any = CHECKS, *, by_branch: bool) -> str:
    return f"{PLACES[by_branch]}{mark_of(branch, checks)}/{tree}"


@pytest.mark.parametrize("by_branch", [False, True])
def test_lines_skip_what_the_mark_names_and_nothing_else(tmp_path: Path, by_branch: bool) -> None:
    """Another tree, branch or check, a ref with a longer name, and a server that does not answer: the tests run."""
    origin, clone = HistoryMaker(tmp_path / "origin"), tmp_path / "clone"
    origin.git("clone", "-q", "--depth=1", f"file://{origin.path}", str(clone))
    tree, head = origin.sha("HEAD^{tree}"), origin.sha("HEAD")
    assert not skips(clone, by_branch=by_branch)
    ref = ref_of(tree, by_branch=by_branch)
    others = [
        ref_of(tree, checks=CHECKS[:1], by_branch=by_branch),
        ref_of(tree, checks=[*CHECKS, RequiredCheck("lint", None)], by_branch=by_branch),
        ref_of(tree, "release", by_branch=by_branch),
        ref_of(head, by_branch=by_branch),
        ref_of(tree, by_branch=not by_branch),
        # `git ls-remote` also lists refs that end so.
        f"refs/heads/{ref}",
    ]
    for other in others:
        origin.git("update-ref", other, head)
    assert not skips(clone, by_branch=by_branch)
    for other in others:
        origin.git("update-ref", "-d", other)
    origin.git("update-ref", ref, head)
    assert skips(clone, by_branch=by_branch)
    assert not skips(clone, by_branch=by_branch, branch="release")
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
    assert (jobs["tested"]["if"], jobs["test"]["needs"]) == (
        "github.event_name == 'push' && github.ref == 'refs/heads/main'",
        "tested",
    )
    on_main = "needs.tested.outputs.skip != 'true'"
    assert jobs["test"]["if"] == f"${{{{ !cancelled() && (github.ref != 'refs/heads/main' || {on_main}) }}}}"
    assert text.count("\n") <= 18


def test_lines_leave_no_doubt_that_candidates_are_tested() -> None:
    """P1: with them in its workflow a repository keeps its trains, and needs no first train for the proof."""
    test = frozenset({RequiredCheck("test", None)})
    text = "on: {push: {branches: [main, 'imq/**']}}\n" + workflow_lines("main", test)
    text += "    runs-on: ubuntu-latest\n    steps: [{run: make test}]\n"
    choice = choose_trigger({".github/workflows/ci.yml": text}, test, CANDIDATE, Candidates.AUTO)
    assert (choice.trigger, choice.proven) == (CandidateTrigger.PUSH, True), choice.answers
