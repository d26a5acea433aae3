"""Git's objects as plain records, and how pygit2's are read into them. All SHAs are hexadecimal text."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pygit2


@dataclass(frozen=True, slots=True)
class Signature:
    """Who wrote or committed, and when (UTC)."""

    name: str
    email: str
    date: datetime


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its tree and its parents in order."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    message: str
    author: Signature
    committer: Signature

    @property
    def title(self) -> str:
        """The message's first line."""
        return self.message.split("\n", 1)[0]

    @property
    def body(self) -> str:
        """The message without its first line."""
        return self.message.partition("\n")[2].strip("\n")


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One entry of a tree; `size` in bytes for blobs."""

    path: str
    mode: str
    type: str
    sha: str
    size: int | None


@dataclass(frozen=True, slots=True)
class TreeChange:
    """What to put into a tree: an object that exists, with its mode ("100755"); without a SHA, to remove what is there.

    The object of mode 040000 is a tree, whose entries replace all below the path.
    """

    path: str
    mode: str
    sha: str | None


@dataclass(frozen=True, slots=True)
class Tag:
    """An annotated tag: an object of its own, which names another one. No reference leads to it by itself."""

    sha: str
    name: str
    message: str
    target: str
    target_type: str
    tagger: Signature


def walk(
    tree: pygit2.Tree, recursive: bool = True, prefix: str = "", *, directories: bool = False
) -> Iterator[tuple[str, pygit2.Object]]:
    for item in tree:
        path = f"{prefix}{item.name}"
        if isinstance(item, pygit2.Tree):
            if directories:
                yield path, item
            if recursive:
                yield from walk(item, recursive, f"{path}/", directories=directories)
        else:
            yield path, item


def read_entry(path: str, item: pygit2.Object) -> TreeEntry:
    size = item.size if isinstance(item, pygit2.Blob) else None
    return TreeEntry(path, f"{int(item.filemode or 0):06o}", item.type_str, str(item.id), size)


def read_commit(found: pygit2.Commit) -> Commit:
    parents = tuple(str(parent) for parent in found.parent_ids)
    author, committer = _signature(found.author), _signature(found.committer)
    return Commit(str(found.id), str(found.tree_id), parents, found.message, author, committer)


def read_tag(found: pygit2.Tag) -> Tag:
    target = found.get_object()
    tagger = found.tagger
    if tagger is None:
        raise ValueError(f"{found.id} names no tagger: the emulator wrote another")
    return Tag(
        str(found.id), found.name or "", found.message or "", str(target.id), target.type_str, _signature(tagger)
    )


def _signature(found: pygit2.Signature) -> Signature:
    return Signature(found.name, found.email, datetime.fromtimestamp(found.time, UTC))


def to_git(who: Signature) -> pygit2.Signature:
    return pygit2.Signature(who.name, who.email, int(who.date.timestamp()), 0)
