"""`imq audit` on histories that real git made."""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bot.cli import main
from bot.cli.clone import history
from tests.process.history_maker import HistoryMaker


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HistoryMaker:
    made = HistoryMaker(tmp_path / "clone")
    monkeypatch.chdir(made.path)
    return made


def imq(*arguments: str, code: int = 0) -> Result:
    """Run the command."""
    result = CliRunner().invoke(main.main, ["audit", *arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def audited(*arguments: str, code: int = 0) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """What programs read: the landings by commit, and the reasons."""
    answer = json.loads(imq("--json", *arguments, code=code).stdout)
    return {each["sha"]: each for each in answer["landings"]}, answer["summary"]["reasons"]


def shown(landing: Mapping[str, Any]) -> tuple[Any, ...]:
    return landing["kind"], landing["verdict"], landing["pull_request"], landing["files"]


def sound_landings(clone: HistoryMaker) -> None:
    """Merge, squash and rebase landings that git explains, on bases that moved meanwhile."""
    for number in (1, 2, 3, 4):
        clone.pull_request(number, {f"new{number}.py": "1\n"}, clone.changed(8 * number))
    clone.merge(1)
    clone.squash(2)
    clone.rebase(3)
    clone.merge(4)


def test_audit_of_a_stack_that_was_squashed_from_the_bottom_has_no_alarm(clone: HistoryMaker) -> None:
    """Each head has the heads below it: only what landed between, and is missing, was undone."""
    base = clone.sha("main")
    lower = clone.pull_request(1, clone.changed(8))
    clone.git("checkout", "-q", "--detach", lower)
    again = (clone.path / "app.py").read_text().replace("changed 8", "changed again")
    clone.pull_request(2, {"app.py": again, "new.py": "1\n"}, base=lower)
    tree = clone.tree_of_merge(base, "refs/pull/2/head")
    clone.git("checkout", "-q", "main")
    clone.squash(1)
    upper = clone.land(tree, "Squash (#2)")
    found, _ = audited(f"{base}..")
    assert [shown(each)[:3] for each in found.values()] == [("squash", "equal", 2), ("squash", "equal", 1)]

    clone.git("reset", "-q", "--hard", f"{upper}~")
    clone.pull_request(3, {"other.py": "1\n"})
    between = clone.squash(3)
    wrong = clone.land(tree, "Squash (#2)")
    found, reasons = audited(f"{base}..", code=1)
    assert shown(found[wrong])[:3] == ("squash", "reverts", 2)
    assert reasons[wrong] == f"built on an older base: it undoes landing {between[:12]}"


def test_audit_of_sound_landings_has_no_alarm_and_leaves_no_trace(clone: HistoryMaker) -> None:
    """Merge, squash and rebase are explained; conflicts resolved by hand stay open; the clone is only read."""
    sound_landings(clone)
    clone.pull_request(5, clone.changed(20) | {"kept.py": "5\n"})
    clone.git("checkout", "-q", "main")
    clone.commit({"app.py": "another\n"}, "Push another")
    with pytest.raises(subprocess.CalledProcessError):
        clone.merge(5)
    resolved = clone.commit({"app.py": "both\n"}, "Merge pull request #5 from mona/branch")
    for number in (6, 7):
        clone.pull_request(number, {f"octopus{number}": ""})
    clone.git("merge", "-q", "--no-ff", "-m", "Merge #6 #7", "refs/pull/6/head", "refs/pull/7/head")
    objects = sorted((clone.path / ".git" / "objects").rglob("*"))

    landings, reasons = audited()

    found = [(each["kind"], each["verdict"], each["pull_request"]) for each in landings.values()]
    assert found == [
        ("merge", "equal", 6),
        ("merge", "unknown", 5),
        ("push", "pushed", None),
        ("merge", "equal", 4),
        ("rebase", "equal", 3),
        ("rebase", "equal", 3),
        ("squash", "equal", 2),
        ("merge", "equal", 1),
        ("push", "unknown", None),
    ]
    assert (reasons[resolved], landings[resolved]["files"]) == ("conflicts resolved by hand", ["app.py"])
    assert sorted((clone.path / ".git" / "objects").rglob("*")) == objects


Fault = tuple[str, tuple[Any, ...], str]
"""A commit, what the audit says of it, and a part of its reason."""


def old_bases(clone: HistoryMaker) -> dict[str, Fault]:
    """Land candidates that were built on an old base, for both methods."""
    head = clone.pull_request(10, clone.changed(1))
    between = clone.commit({"between.py": "1\n", **clone.changed(5)}, "Push between")
    squash = clone.land(clone.tree_of_merge(f"{between}~", head), "Squash (#10)")
    head = clone.pull_request(11, clone.changed(2))
    clone.pull_request(12, {"other.py": "1\n"})
    reverted = clone.squash(12)
    subject = "Merge pull request #11 from mona/branch"
    merge = clone.land(clone.tree_of_merge(f"{reverted}~", head), subject, ("main", head))
    return {
        "old base of a squash": (squash, ("squash", "reverts", 10, ["app.py", "between.py"]), between[:12]),
        "old base of a merge": (merge, ("merge", "reverts", 11, ["other.py"]), reverted[:12]),
    }


def losses(clone: HistoryMaker) -> dict[str, Fault]:
    """Land half a squash, and lose a file in a conflict."""
    head = clone.pull_request(13, {"half.py": "1\n"}, {"other-half.py": "1\n"})
    half = clone.land(clone.tree_of_merge("main", f"{head}~"), "Squash (#13)")
    clone.pull_request(14, clone.changed(30) | {"lost.py": "1\n"})
    clone.commit({"app.py": "another\n"}, "Push another")
    with pytest.raises(subprocess.CalledProcessError):
        clone.merge(14)
    lost = clone.commit({"app.py": "both\n", "lost.py": None}, "Merge pull request #14 from mona/branch")
    return {
        "half a squash": (half, ("squash", "differs", 13, ["other-half.py"]), f"it lacks commit {head[:12]}"),
        "lost in a conflict": (lost, ("merge", "differs", 14, ["lost.py"]), "lost"),
    }


def silent_reverts(clone: HistoryMaker) -> dict[str, Fault]:
    """Revert a file, and the mode of one, which no comparison of contents shows."""
    older = clone.sha("main:README.md")
    newer = clone.commit({"README.md": "read me now\n"}, "Push newer words")
    head = clone.pull_request(15, {"feature.py": "1\n"})
    tree = clone.tree_with(clone.tree_of_merge("main", head), "README.md", older)
    words = clone.land(tree, "Squash (#15)")
    head = clone.pull_request(19, {"nineteen.py": "1\n"})
    blob = clone.sha("main:app.py")
    clone.git("update-index", "--chmod=+x", "app.py")
    clone.git("commit", "-q", "-m", "Push a mode")
    executable = clone.sha("HEAD")
    clone.git("reset", "-q", "--hard")
    tree = clone.tree_with(clone.tree_of_merge("main", head), "app.py", blob)
    mode = clone.land(tree, "Squash (#19)")
    return {
        "silent revert": (words, ("squash", "reverts", 15, ["README.md"]), newer[:12]),
        "silent revert of a mode": (mode, ("squash", "reverts", 19, ["app.py"]), executable[:12]),
    }


def foreign_commits(clone: HistoryMaker) -> dict[str, Fault]:
    """Push directly, and put what no pull request has into a merge, a squash, and a rebase."""
    direct = clone.commit({"pushed.py": "1\n"}, "Push this")
    head = clone.pull_request(16, {"sixteen.py": "1\n"})
    clone.git("checkout", "-q", head)
    foreign = clone.commit({"foreign.py": "1\n"}, "Foreign")
    clone.git("checkout", "-q", "main")
    subject = "Merge pull request #16 from mona/branch"
    merge = clone.land(clone.tree_of_merge("main", foreign), subject, ("main", foreign))
    clone.pull_request(17, {"seventeen.py": "1\n"})
    clone.git("merge", "-q", "--squash", "refs/pull/17/head")
    (clone.path / "stowaway.py").write_text("1\n")
    clone.git("add", "-A")
    squash = clone.land(clone.git("write-tree"), "Squash (#17)")
    head = clone.pull_request(18, {"first.py": "1\n"}, {"second.py": "1\n"})
    clone.git("cherry-pick", f"{head}~")
    rebase = clone.commit({"stranger.py": "1\n"}, "Stranger")
    clone.git("cherry-pick", head)
    return {
        "direct push": (direct, ("push", "pushed", None, ["pushed.py"]), "no pull request"),
        "foreign commit in a merge": (merge, ("merge", "differs", 16, ["foreign.py"]), foreign[:12]),
        "foreign file in a squash": (squash, ("squash", "differs", 17, ["stowaway.py"]), "does not"),
        "foreign commit in a rebase": (rebase, ("push", "pushed", None, ["stranger.py"]), "no pull request"),
    }


def test_audit_of_planted_faults_names_each(clone: HistoryMaker) -> None:
    """A base too old, half a squash, a lost file, a silent revert, a direct push and a foreign commit are found."""
    sound_landings(clone)
    wrong = old_bases(clone) | losses(clone) | silent_reverts(clone) | foreign_commits(clone)
    landings, reasons = audited(code=1)

    found = {fault: shown(landings[sha]) for fault, (sha, _, _) in wrong.items()}
    assert found == {fault: expected for fault, (_, expected, _) in wrong.items()}
    assert {fault: part for fault, (sha, _, part) in wrong.items() if part not in reasons[sha]} == {}
    named = {sha for sha, _, _ in wrong.values()}
    others = [shown(each)[:3] for sha, each in landings.items() if sha not in named and each["verdict"] != "equal"]
    assert others == [("push", "pushed", None)] * 4 + [("push", "unknown", None)]


@pytest.mark.parametrize("place", [".gitattributes", ".git/info/attributes"])
def test_audit_merges_as_github_whatever_the_clone_has_configured(clone: HistoryMaker, place: str) -> None:
    """Attributes of what is checked out choose no driver of the user: none runs, and none changes a verdict."""
    sound_landings(clone)
    (clone.path / place).write_text("*.py merge=mine\n")
    clone.git("config", "merge.mine.driver", "touch driver-ran; true")
    landings, _ = audited("HEAD~4..")
    assert {each["verdict"] for each in landings.values()} == {"equal"}
    assert not list(clone.path.rglob("driver-ran"))


def test_audit_accuses_no_merge_by_a_driver_that_a_macro_chooses(clone: HistoryMaker) -> None:
    """A bot merges in its clone, where attributes count; git reads macros in the file at the top alone."""
    clone.git("config", "merge.ours.driver", "true")
    lines = {"a.lock": "".join(f"{n}\n" for n in range(20))}
    clone.commit(lines | {".gitattributes": "[attr]lock merge=ours\n", ".a/.gitattributes": "*.lock lock\n"}, "Begin")
    clone.git("mv", "a.lock", ".a/b.lock")
    clone.git("commit", "-q", "-m", "Move")
    clone.pull_request(1, {".a/b.lock": "first\n" + lines["a.lock"], "new.py": "1\n"})
    clone.commit({".a/b.lock": lines["a.lock"] + "last\n"}, "Push")
    bors = ("bors", "bors@users.noreply.github.example")
    clone.git("merge", "-q", "--no-ff", "-m", "Merge #1", "refs/pull/1/head", committer=bors)
    merged = clone.sha("HEAD")
    assert clone.git("show", "HEAD:.a/b.lock").startswith("0")
    landings, reasons = audited("HEAD~1..")
    assert (landings[merged]["verdict"], reasons[merged]) == (
        "unknown",
        "`.gitattributes` has these files merged in a way of its own",
    )


def test_audit_without_refs_of_pull_requests_accuses_no_squash(clone: HistoryMaker) -> None:
    """An ordinary clone shows whether merges are right; of the others it says what it lacks, and how to get it."""
    sound_landings(clone)
    for ref in clone.git("for-each-ref", "--format=%(refname)", "refs/pull").split():
        clone.git("update-ref", "-d", ref)
    landings, _ = audited("HEAD~4..")
    assert [(each["kind"], each["verdict"]) for each in landings.values()] == [
        ("merge", "equal"),
        ("push", "unknown"),
        ("push", "unknown"),
        ("squash", "unknown"),
    ]
    assert "git fetch origin '+refs/pull/*/head:refs/remotes/origin/pr/*'" in imq().output


def test_audit_with_git_of_2_38_finds_the_same(clone: HistoryMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """That git recomputes one merge a process."""
    sound_landings(clone)
    expected = audited()
    monkeypatch.setattr(history, "_WITH_STDIN", (99, 0))
    assert audited() == expected


def test_audit_of_hostile_names_shows_them_escaped(clone: HistoryMaker) -> None:
    """Names of files and titles of commits reach neither the terminal nor a browser as they are."""
    head = clone.pull_request(1, {"half.py": "1\n"}, {"<img src=x onerror=alert(1)>\x1b[2J\n.py": "1\n"})
    clone.land(clone.tree_of_merge("main", f"{head}~"), "\x1b]0;title\x07<script>alert(1)</script>\x9b (#1)")
    printed = imq("--html", "audit.html", code=1).stdout
    page = Path("audit.html").read_text(encoding="utf-8")
    assert "it lacks commit" in printed
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", printed + page)
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"(?:src|href)=\"|url\(|@import|https?://", page)
    (landing, *_) = json.loads(imq("--json", code=1).stdout)["landings"]
    assert landing["files"] == ["<img src=x onerror=alert(1)>\x1b[2J\n.py"]


def test_audit_that_cannot_run_says_why(clone: HistoryMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refusal is one sentence with the way out, and the exit code is 2."""
    clone.commit({"a": "a"}, "Push a")
    assert "git does not know the range v1..main" in imq("v1..main", code=2).stderr
    assert "git does not know the range --all" in imq("--", "--all", code=2).stderr
    assert "The range HEAD..main has no commits." in imq("HEAD..main", code=2).stderr
    assert "no/such/folder" in imq("--html", "no/such/folder/page.html", code=2).stderr
    clone.git("clone", "-q", "--depth", "1", f"file://{clone.path}", str(tmp_path / "shallow"))
    monkeypatch.chdir(tmp_path / "shallow")
    assert "git fetch --unshallow" in imq(code=2).stderr
    monkeypatch.chdir(tmp_path)
    assert imq(code=2).stderr == "Error: This folder is not in a git repository. Change to a clone.\n"
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho git version 2.37.9\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(old.parent), prepend=os.pathsep)
    assert "This is git 2.37.9. Install git 2.38 or later" in imq(code=2).stderr
