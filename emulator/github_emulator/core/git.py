"""Real git underneath: one bare object store per fork network, and a view of it per repository.

Forks share objects with their parent, as on GitHub, so a fork's commit can be read through the parent. Only references
are a repository's own: a fork's are in its owner's namespace. All SHAs are hexadecimal text.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

import pygit2
from pygit2.enums import FileMode, ObjectType, SortMode

from github_emulator.core.diff import FileChange, changes
from github_emulator.core.git_types import (
    Commit,
    Signature,
    Tag,
    TreeChange,
    TreeEntry,
    read_commit,
    read_entry,
    read_tag,
    to_git,
    walk,
)

__all__ = ["Commit", "Git", "Signature", "Tag", "TreeChange", "TreeEntry"]


class Git:
    """One repository's references over the network's objects."""

    def __init__(self, store: pygit2.Repository, prefix: str = "refs/") -> None:
        self._store = store
        self._prefix = prefix
        self.as_of: datetime | None = None
        """The instant that a lagging read shows: younger commits are not there yet. None for the present."""
        # Nobody else writes to the store, so references need not be read from the disk again.
        self._refs: dict[str, str] = {}
        self._commits: dict[str, Commit] = {}
        self._files: dict[str, dict[str, str]] = {}
        self._diffs: dict[tuple[str, str], tuple[FileChange, ...]] = {}
        self._related: dict[tuple[str, str], str | None] = {}

    @classmethod
    def create(cls, path: Path, default_branch: str = "main") -> "Git":
        """An empty object store in a new directory."""
        return cls(pygit2.init_repository(str(path), bare=True, initial_head=default_branch))

    def fork(self, owner: str) -> "Git":
        """Another repository over the same objects, without references yet."""
        return Git(self._store, f"refs/namespaces/{owner}/refs/")

    @property
    def path(self) -> str:
        """The bare repository's directory, readable with any git."""
        return self._store.path

    @property
    def namespace(self) -> str | None:
        """The namespace of a fork's references (`gitnamespaces(7)`); None for the repository that was forked."""
        return self._prefix.split("/")[2] if self._prefix.startswith("refs/namespaces/") else None

    def point_head(self, branch: str) -> None:
        """Let `HEAD` name this branch, which a clone then checks out."""
        if self.namespace is None:
            self._store.set_head(f"refs/heads/{branch}")
        else:
            head = f"refs/namespaces/{self.namespace}/HEAD"
            self._store.references.create(head, f"{self._prefix}heads/{branch}", force=True)

    def close(self) -> None:
        """Let go of open files."""
        self._store.free()

    # References

    def branches(self) -> dict[str, str]:
        """Every branch and its tip, by name."""
        return {name.removeprefix("heads/"): sha for name, sha in self._refs.items() if name.startswith("heads/")}

    def tags(self) -> list[str]:
        """The names of all tags."""
        return [name.removeprefix("tags/") for name in self._refs if name.startswith("tags/")]

    def refs(self) -> list[str]:
        """The names of all references, without `refs/`."""
        return sorted(self._refs)

    def branch(self, name: str) -> str | None:
        """A branch's tip; None when it does not exist."""
        return self.ref(f"heads/{name}")

    def ref(self, name: str) -> str | None:
        """What a reference such as `heads/main` or `pull/1/head` points at."""
        return self._refs.get(name)

    def set_ref(self, name: str, sha: str) -> None:
        """Create or move a reference. Raises ValueError for a name that git does not allow."""
        self._store.references.create(self._prefix + name, sha, force=True)
        self._refs[name] = sha

    def delete_ref(self, name: str) -> None:
        """Remove a reference, if it is there."""
        if self._refs.pop(name, None) is not None:
            self._store.references.delete(self._prefix + name)

    def resolve(self, name: str) -> str | None:
        """The commit of a branch, a tag, `heads/...`, `refs/...` or a full or short SHA; None if there is none."""
        for candidate in (f"heads/{name}", f"tags/{name}", name.removeprefix("refs/")):
            if sha := self.ref(candidate):
                return self.peel(sha)
        if not 7 <= len(name) <= 40 or set(name.lower()) - set("0123456789abcdef"):
            return None
        try:
            found: object = self._store.get(name)
        except ValueError:
            return None
        return str(found.id) if isinstance(found, pygit2.Commit) and self.commit(str(found.id)) else None

    # Objects

    def commit(self, sha: str) -> Commit | None:
        """A commit by its full SHA; None if it is not one, or not yet at the instant that is shown."""
        found = self._commit(sha)
        hidden = found is not None and self.as_of is not None and found.committer.date > self.as_of
        return None if hidden else found

    def _commit(self, sha: str) -> Commit | None:
        if sha not in self._commits:
            try:
                found: object = self._store.get(sha)
            except ValueError:
                return None
            if not isinstance(found, pygit2.Commit):
                return None
            self._commits[sha] = read_commit(found)
        return self._commits[sha]

    def must(self, sha: str) -> Commit:
        """A commit that is known to exist."""
        commit = self._commit(sha)
        if commit is None:
            raise KeyError(sha)
        return commit

    def tree(self, sha: str) -> str:
        """The tree of a commit."""
        return self.must(sha).tree

    def files(self, sha: str) -> dict[str, str]:
        """Path -> text of every file of a commit or tree."""
        tree = self._tree(sha)
        if str(tree.id) not in self._files:
            blobs = ((path, self._store[blob.id]) for path, blob in walk(tree) if isinstance(blob, pygit2.Blob))
            self._files[str(tree.id)] = {
                path: blob.data.decode(errors="replace") for path, blob in blobs if isinstance(blob, pygit2.Blob)
            }
        return dict(self._files[str(tree.id)])

    def entries(self, sha: str, *, recursive: bool = False) -> list[TreeEntry]:
        """What a commit's or tree's directory holds, in git's order."""
        return [read_entry(path, item) for path, item in walk(self._tree(sha), recursive, directories=True)]

    def entry(self, sha: str, path: str) -> TreeEntry | None:
        """What a commit's or tree's directory has at this path; None when there is nothing."""
        try:
            return read_entry(path, self._tree(sha) / path)
        except KeyError:
            return None

    def read(self, sha: str, path: str) -> bytes | None:
        """One file of a commit or tree; None when it is not there."""
        try:
            found = self._tree(sha) / path
        except KeyError:
            return None
        return found.data if isinstance(found, pygit2.Blob) else None

    def blob(self, sha: str) -> bytes | None:
        """The content of a blob; None when there is none of that name."""
        try:
            found = self._store[sha]
        except (KeyError, ValueError):
            return None
        return found.data if isinstance(found, pygit2.Blob) else None

    def write_blob(self, data: bytes) -> str:
        """Write a file's content."""
        return str(self._store.create_blob(data))

    def tag(self, sha: str) -> Tag | None:
        """An annotated tag by the SHA of its object; None when there is none of that name."""
        try:
            found = self._store[sha]
        except (KeyError, ValueError):
            return None
        return read_tag(found) if isinstance(found, pygit2.Tag) else None

    def write_tag(self, name: str, target: str, message: str, tagger: Signature) -> str:
        """Write the object of an annotated tag; no reference leads to it yet. Raises KeyError without such a target."""
        lines = [f"object {target}", f"type {self._store[target].type_str}", f"tag {name}"]
        lines.append(f"tagger {tagger.name} <{tagger.email}> {int(tagger.date.timestamp())} +0000")
        return str(self._store.write(ObjectType.TAG, "\n".join([*lines, "", message]).encode()))

    def object_type(self, sha: str) -> str | None:
        """Whether a SHA names a commit, tree, blob or tag; None when it names nothing."""
        try:
            return self._store[sha].type_str
        except (KeyError, ValueError):
            return None

    def peel(self, sha: str) -> str:
        """The commit that an annotated tag leads to; anything else is itself."""
        tag = None if sha in self._commits else self.tag(sha)
        return sha if tag is None else self.peel(tag.target)

    def write_tree(self, base: str | None, files: Mapping[str, str | bytes | None]) -> str:
        """A tree: that of commit or tree `base` (None: empty) with these files set; None as text deletes one."""
        index = self._index(base)
        for path, text in files.items():
            if text is None:
                index.remove(path)
            else:
                data = text.encode() if isinstance(text, str) else text
                index.add(pygit2.IndexEntry(path, self._store.create_blob(data), FileMode.BLOB))
        return str(index.write_tree(self._store))

    def change_tree(self, base: str | None, changes: Iterable[TreeChange]) -> str:
        """A tree: that of commit or tree `base` (None: empty) with these objects in it."""
        index = self._index(base)
        for change in changes:
            if change.sha is None:
                index.remove(change.path)
            elif int(change.mode, 8) == FileMode.TREE:
                index.remove_all([f"{change.path}/*"])
                for path, item in walk(self._tree(change.sha)):
                    index.add(pygit2.IndexEntry(f"{change.path}/{path}", item.id, item.filemode or FileMode.BLOB))
            else:
                index.add(pygit2.IndexEntry(change.path, pygit2.Oid(hex=change.sha), FileMode(int(change.mode, 8))))
        return str(index.write_tree(self._store))

    def _index(self, base: str | None) -> pygit2.Index:
        index = pygit2.Index()
        if base is not None:
            index.read_tree(self._tree(base))
        return index

    def write_commit(
        self, tree: str, parents: tuple[str, ...], message: str, author: Signature, committer: Signature | None = None
    ) -> str:
        """Write a commit; the committer is the author unless given."""
        oids = [pygit2.Oid(hex=parent) for parent in parents]
        return str(
            self._store.create_commit(
                None, to_git(author), to_git(committer or author), message, pygit2.Oid(hex=tree), oids
            )
        )

    # History

    def merge_base(self, one: str, other: str) -> str | None:
        """The best common ancestor; None for unrelated histories."""
        if (one, other) not in self._related:
            found: object = self._store.merge_base(one, other)
            self._related[one, other] = None if found is None else str(found)
        return self._related[one, other]

    def is_ancestor(self, ancestor: str, sha: str) -> bool:
        """Whether `sha` contains `ancestor`, itself included."""
        return self.merge_base(ancestor, sha) == ancestor

    def ahead_behind(self, sha: str, other: str) -> tuple[int, int]:
        """How many commits `sha` has that `other` lacks, and the reverse."""
        ahead, behind = self._store.ahead_behind(sha, other)
        return ahead, behind

    def log(self, tip: str, exclude: str | None = None) -> list[Commit]:
        """Commits reachable from `tip` and not from `exclude`, children before parents."""
        walker = self._store.walk(tip, SortMode.TOPOLOGICAL | SortMode.TIME)
        if exclude is not None:
            walker.hide(exclude)
        return [self.must(str(commit.id)) for commit in walker]

    def diff(self, old: str, new: str) -> tuple[FileChange, ...]:
        """List the changed files from commit or tree `old` to `new`."""
        key = (str(self._tree(old).id), str(self._tree(new).id))
        if key not in self._diffs:
            self._diffs[key] = changes(self._store, *key)
        return self._diffs[key]

    # Merging, by line

    def merge_trees(self, ours: str, theirs: str) -> str | None:
        """The tree of merging commit `theirs` into commit `ours`; None on a conflict or unrelated histories."""
        if self.merge_base(ours, theirs) is None:
            return None
        return self._clean(self._store.merge_commits(ours, theirs))

    def replay_tree(self, sha: str, onto: str) -> str | None:
        """The tree of commit `onto` with the change that commit `sha` made to its first parent; None on a conflict."""
        parents = self.must(sha).parents
        ancestor = self.tree(parents[0]) if parents else self.write_tree(None, {})
        return self._clean(self._store.merge_trees(ancestor, self.tree(onto), self.tree(sha)))

    def revert_tree(self, sha: str, before: str, onto: str) -> str | None:
        """The tree of commit `onto` without the changes from `before` to `sha`; None on a conflict."""
        return self._clean(self._store.merge_trees(self.tree(sha), self.tree(onto), self.tree(before)))

    def _clean(self, index: pygit2.Index) -> str | None:
        return None if index.conflicts is not None else str(index.write_tree(self._store))

    def _tree(self, sha: str) -> pygit2.Tree:
        return self._store[sha].peel(pygit2.Tree)
