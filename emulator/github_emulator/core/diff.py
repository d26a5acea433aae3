"""What changed between two trees, file by file, as GitHub's `files` lists show it."""

from dataclasses import dataclass

import pygit2

_STATUS = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "C": "copied", "T": "changed"}


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file; `sha` is its blob, the old one for a removed file. `patch` is None for binary files."""

    filename: str
    status: str
    additions: int
    deletions: int
    sha: str
    patch: str | None
    previous_filename: str | None = None


def changes(store: pygit2.Repository, old_tree: str, new_tree: str) -> tuple[FileChange, ...]:
    """List the changes from `old_tree` to `new_tree`; renames are recognised."""
    old, new = store[old_tree].peel(pygit2.Tree), store[new_tree].peel(pygit2.Tree)
    diff = old.diff_to_tree(new)
    diff.find_similar()
    return tuple(_change(patch) for patch in diff if patch is not None)


def _change(patch: pygit2.Patch) -> FileChange:
    delta = patch.delta
    _, additions, deletions = patch.line_stats
    status = _STATUS.get(delta.status_char(), "changed")
    renamed = status in {"renamed", "copied"}
    return FileChange(
        filename=delta.old_file.path if status == "removed" else delta.new_file.path,
        status=status,
        additions=additions,
        deletions=deletions,
        sha=str(delta.old_file.id if status == "removed" else delta.new_file.id),
        patch=None if delta.is_binary else _hunks(patch),
        previous_filename=delta.old_file.path if renamed else None,
    )


def _hunks(patch: pygit2.Patch) -> str:
    """The unified diff without git's header lines, which GitHub leaves out."""
    text = patch.text or ""
    start = text.find("@@")
    return text[start:].removesuffix("\n") if start >= 0 else ""
