"""Real git: merges by line, ancestry, comparison, forks over shared objects, the same SHAs every time."""

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from github_emulator import GitHub, ManualClock, Signature
from github_emulator.core.git import Git
from in_process.conftest import LINES, edited

ANN = Signature("ann", "ann@example.org", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def git(tmp_path: Path) -> Iterator[Git]:
    store = Git.create(tmp_path / "store.git")
    yield store
    store.close()


def commit(git: Git, parent: str | None, message: str = "Change", **files: str | None) -> str:
    named = {name.replace("_", "."): text for name, text in files.items()}
    return git.write_commit(git.write_tree(parent, named), (parent,) if parent else (), message, ANN)


def test_git_merge_changes_on_different_lines_are_combined(git: Git) -> None:
    """Two changes to one file merge when their lines are apart."""
    base = commit(git, None, lines_txt=LINES)
    one, two = commit(git, base, lines_txt=edited(1)), commit(git, base, lines_txt=edited(9))
    tree = git.merge_trees(one, two)
    assert tree is not None
    assert git.files(tree)["lines.txt"] == edited(1).replace("9\n", "changed\n")


def test_git_merge_changes_of_one_line_conflict(git: Git) -> None:
    """Two different changes to one line are a conflict."""
    base = commit(git, None, lines_txt=LINES)
    one, two = commit(git, base, lines_txt=edited(5, "one")), commit(git, base, lines_txt=edited(5, "two"))
    assert git.merge_trees(one, two) is None


def test_git_merge_change_against_deletion_conflicts(git: Git) -> None:
    """A file changed here and deleted there is a conflict."""
    base = commit(git, None, lines_txt=LINES, other="x")
    assert git.merge_trees(commit(git, base, lines_txt=None), commit(git, base, lines_txt=edited(5))) is None


def test_git_merge_unrelated_histories_is_refused(git: Git) -> None:
    """Without a common ancestor there is no merge."""
    assert git.merge_trees(commit(git, None, a="1"), commit(git, None, b="2")) is None


def test_git_ancestry_of_forked_history(git: Git) -> None:
    """Ancestry, merge base and ahead/behind follow the graph."""
    base = commit(git, None, a="1")
    one, two = commit(git, base, b="2"), commit(git, commit(git, base, c="3"), d="4")
    assert git.is_ancestor(base, two)
    assert git.is_ancestor(one, one)
    assert not git.is_ancestor(one, two)
    assert git.merge_base(one, two) == base
    assert git.ahead_behind(two, one) == (2, 1)
    assert [found.sha for found in git.log(two, one)] == [two, git.must(two).parents[0]]


def test_git_diff_names_status_and_lines(git: Git) -> None:
    """A comparison shows what was added, changed and removed, with counted lines and a patch without header."""
    old = commit(git, None, lines_txt=LINES, gone="bye\nbye\n")
    new = commit(git, old, lines_txt=edited(5), gone=None, fresh="one\ntwo\nthree\n")
    changes = {change.filename: change for change in git.diff(old, new)}
    assert {name: change.status for name, change in changes.items()} == {
        "fresh": "added",
        "gone": "removed",
        "lines.txt": "modified",
    }
    assert (changes["lines.txt"].additions, changes["lines.txt"].deletions) == (1, 1)
    assert (changes["lines.txt"].patch or "").startswith("@@ -2,7 +2,7 @@")


def test_git_fork_shares_objects_not_branches(git: Git) -> None:
    """A fork's commits are readable through the parent; its branches are its own."""
    base = commit(git, None, a="1")
    git.set_ref("heads/main", base)
    fork = git.fork("zoe")
    fork.set_ref("heads/topic", commit(fork, base, b="2"))
    assert fork.branches().keys() == {"topic"}
    assert git.branches().keys() == {"main"}
    assert git.commit(fork.branches()["topic"]) is not None


@pytest.mark.parametrize("name", ["main", "heads/main", "refs/heads/main", "sha", "short"])
def test_git_resolve_understands_every_spelling(git: Git, name: str) -> None:
    """Branches, references, full and short SHAs all name a commit."""
    sha = commit(git, None, a="1")
    git.set_ref("heads/main", sha)
    assert git.resolve({"sha": sha, "short": sha[:8]}.get(name, name)) == sha


def test_git_resolve_unknown_is_none(git: Git) -> None:
    """What does not exist, or cannot be a name, resolves to nothing."""
    assert [git.resolve(name) for name in ("nope", "a..b", "0" * 40, "abcdef1")] == [None] * 4


@pytest.mark.process
def test_git_store_is_readable_by_plain_git(git: Git) -> None:
    """The object store is sound for git's own check."""
    git.set_ref("heads/main", commit(git, commit(git, None, a="1"), a="2"))
    subprocess.run(["git", "--git-dir", git.path, "fsck", "--strict"], check=True, capture_output=True)


async def test_github_same_actions_give_same_shas() -> None:
    """Seed, clock and actions decide every SHA and id."""
    results = []
    for _ in range(2):
        world = GitHub(ManualClock(), seed=3)
        repository = world.create_repository("octo/app", files={"a": "1"})
        pull = repository.open_pull_request("One", head="one", files={"b": "2"})
        results.append((pull.merge("squash"), pull.record.id, repository.sha()))
        await world.close()
    assert results[0] == results[1]
