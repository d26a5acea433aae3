"""The lines for workflows, run by bash as a runner does: they skip only what a mark names exactly (P1)."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.doctor.tested_again import workflow_lines
from queue_engine.domain.facts import RequiredCheck
from queue_engine.rules.proof import mark_text
from tests.process.history_maker import HistoryMaker

CHECKS = [RequiredCheck("ci/test", None), RequiredCheck("it's $HOME", 15368)]
PLACES = {False: "refs/imq/tested/", True: "refs/heads/imq-tested/"}


def skips(clone: Path, *, by_branch: bool = False, branch: str = "main") -> bool:
    """Run the step in a clone; whether it says that the tests may be left out."""
    lines: dict[str, Any] = yaml.safe_load(workflow_lines(CHECKS, by_branch=by_branch))
    script = lines["jobs"]["tested"]["steps"][1]["run"]
    output = clone / "output"
    output.write_text("")
    environ = {"PATH": os.environ["PATH"], "HOME": str(clone), "GITHUB_REF_NAME": branch, "GITHUB_OUTPUT": str(output)}
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
    assert not skips(clone, by_branch=by_branch, branch="imq/main/7")
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
    """A job that failed, or that other events skip, has no output: the condition holds unless somebody cancels."""
    jobs = yaml.safe_load(workflow_lines(CHECKS))["jobs"]
    assert (jobs["tested"]["if"], jobs["test"]["needs"]) == ("github.event_name == 'push'", "tested")
    assert jobs["test"]["if"] == "${{ !cancelled() && needs.tested.outputs.skip != 'true' }}"
    assert workflow_lines(CHECKS).count("\n") <= 17
