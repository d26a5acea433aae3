"""Read a clone's history and recompute its merges by git's plumbing, and leave no trace in the clone."""

import os
import re
import subprocess
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from hashlib import new
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, Self

_OLDEST, _WITH_STDIN = (2, 38), (2, 39)
"""The versions of git that brought `merge-tree --write-tree`, and its `--stdin` (their release notes)."""

_BATCH = 64
"""How many merges one process recomputes: it answers at its end, so a larger number would delay the first answers."""

_PULL_REQUEST = re.compile(r"refs/(?:remotes/[^/]+/)?(?:pull|pr|pull-requests)/(?P<number>[1-9]\d{0,9})(?:/head)?")
"""GitHub's refs of a mirror clone, and what people fetch them to ("Checking out pull requests locally")."""

_GIT: Final = ("git", "--no-replace-objects", "--literal-pathspecs", "--no-optional-locks")
_NEUTRAL: Final = {
    "core.attributesFile": os.devnull,
    "merge.renormalize": "false",
    "merge.renames": "true",
    "merge.directoryRenames": "true",
    "diff.renames": "true",
    "gc.auto": "0",
    # Nothing is fetched that a partial clone lacks.
    "protocol.allow": "never",
}


_MERGE_ATTRIBUTES = frozenset({"merge", "binary"})


class HistoryError(Exception):
    """The clone's history cannot be read. The message says why, with the way out."""


class Commit(NamedTuple):
    """A commit, with the fields that name its landing. `authored` and `committed` are in seconds since 1970."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: str
    authored: str
    committer: str
    committed: str
    subject: str

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read a line in `_FORMAT`."""
        sha, tree, parents, author, authored, committer, committed, subject = line.rstrip("\n").split("\0", 7)
        return cls(sha, tree, tuple(parents.split()), author, authored, committer, committed, subject)


_FORMAT: Final = "%H%x00%T%x00%P%x00%ae%x00%at%x00%ce%x00%ct%x00%s"


class Merge(NamedTuple):
    """What git makes of two commits. `conflicts` has the stages of each path in conflict."""

    tree: str
    clean: bool
    conflicts: Mapping[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Change:
    """A path that differs between two trees. Each side is mode and object, or None where the path is absent."""

    path: str
    before: tuple[str, str] | None
    after: tuple[str, str] | None


class History:
    """A clone. Objects of recomputed merges live in a folder that is removed at the end."""

    def __init__(self) -> None:
        """Open the clone of the current folder. Raises HistoryError."""
        try:
            version = subprocess.run(["git", "version"], capture_output=True, text=True, check=True)  # noqa: S607
        except (OSError, subprocess.CalledProcessError):
            raise HistoryError("git is not installed, or does not start.") from None
        self.git_version = ".".join(re.findall(r"\d+", version.stdout)[:3])
        self._version = tuple(int(each) for each in self.git_version.split(".")[:2])
        if self._version < _OLDEST:
            raise HistoryError(
                f"This is git {self.git_version}. Install git 2.38 or later, which has `git merge-tree --write-tree`."
            )
        try:
            asked = ("--absolute-git-dir", "--show-object-format", "--is-shallow-repository", "--git-path", "objects")
            directory, format_, shallow, objects = self._output(("git", "rev-parse", *asked)).splitlines()
        except HistoryError as error:
            why = "" if "not a git repository" in str(error) else f" git says: {error}"
            raise HistoryError(f"This folder is not in a git repository. Change to a clone.{why}") from None
        if shallow == "true":
            raise HistoryError("This clone is shallow. Get its history first: `git fetch --unshallow`.")
        self._scratch = TemporaryDirectory(prefix="imq-", ignore_cleanup_errors=True)
        neutral = _options(*(f"{key}={value}" for key, value in _NEUTRAL.items()))
        self._git = (*_GIT, f"--git-dir={directory}", *neutral)
        self._merging = (*_GIT, f"--git-dir={self._bare(format_)}", *neutral)
        others = os.environ.get("GIT_ALTERNATE_OBJECT_DIRECTORIES")
        self._environ = os.environ | {
            "LC_ALL": "C",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_OBJECT_DIRECTORY": self._scratch.name,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.pathsep.join(
                [_quoted(str(Path(objects).absolute())), *([others] if others else [])]
            ),
        }

    def __enter__(self) -> Self:
        """Return the clone."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the recomputed objects."""
        self._scratch.cleanup()

    @property
    def scratch(self) -> Path:
        """Return the folder that is removed at the end."""
        return Path(self._scratch.name)

    def _bare(self, format_: str) -> Path:
        """Make a bare repository in which git merges: GitHub's merges, too, know no attributes, drivers or submodules.

        In the clone they would depend on what is checked out there, and on its configuration.
        """
        made = self.scratch / "merges.git"
        (made / "refs").mkdir(parents=True)
        (made / "HEAD").write_text("ref: refs/heads/none\n")
        extension = f"[extensions]\nobjectFormat = {format_}\n" if format_ != "sha1" else ""
        (made / "config").write_text(
            f"[core]\nbare = true\nrepositoryFormatVersion = {int(bool(extension))}\n{extension}"
        )
        return made

    def _merge_tree(self, *arguments: str, settings: Sequence[str], codes: Sequence[int], given: bytes = b"") -> str:
        command = ("merge-tree", "--write-tree", "-z", "--no-messages", *arguments)
        return self._output((*self._merging, *_options(*settings), *command), given, codes)

    def git(self, *arguments: str, given: bytes | None = None, codes: Sequence[int] = (0,)) -> str:
        """Return the output of a command of git. Raises HistoryError for another exit code."""
        return self._output((*self._git, *arguments), given, codes)

    def _output(self, command: Sequence[str], given: bytes | None = None, codes: Sequence[int] = (0,)) -> str:
        environ = getattr(self, "_environ", os.environ | {"LC_ALL": "C"})
        done = subprocess.run(command, input=given or b"", capture_output=True, env=environ)  # noqa: S603
        if done.returncode not in codes:
            raise HistoryError(os.fsdecode(done.stderr).strip()[:500] or f"git ended with code {done.returncode}")
        return done.stdout.decode("utf-8", "surrogateescape")

    # Commits.

    def count(self, range_: str) -> int:
        """Return how many first-parent commits a range has. Raises HistoryError for an unknown or empty one."""
        try:
            number = int(self.git("rev-list", "--first-parent", "--count", "--end-of-options", range_, "--"))
        except HistoryError as error:
            if not self.git("rev-list", "--all", "--max-count=1"):
                raise HistoryError("This clone has no commit yet.") from None
            raise HistoryError(f"git does not know the range {range_}: {str(error).splitlines()[0]}") from None
        if not number:
            raise HistoryError(f"The range {range_} has no commits.")
        return number

    def commits(self, *arguments: str) -> Iterator[Commit]:
        """Yield commits that `git rev-list` lists, newest first, as it finds them."""
        command = (*self._git, "rev-list", "--encoding=UTF-8", f"--format={_FORMAT}", "--no-commit-header", *arguments)
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=self._environ) as process:  # noqa: S603
            assert process.stdout is not None
            for line in process.stdout:
                yield Commit.parse(line.decode("utf-8", "surrogateescape"))
        if process.returncode:
            raise HistoryError("git could not read the history to its end: the clone is damaged or incomplete.")

    def first_parents(self, range_: str) -> Iterator[Commit]:
        """Yield the first-parent commits of a range, newest first."""
        return self.commits("--first-parent", "--end-of-options", range_, "--")

    @cached_property
    def heads(self) -> Mapping[int, str]:
        """Return the head of each pull request whose ref the clone has."""
        listed = self.git("for-each-ref", "--format=%(objectname) %(refname)", "refs/pull", "refs/remotes")
        found: dict[int, str] = {}
        for line in listed.splitlines():
            sha, _, ref = line.partition(" ")
            if named := _PULL_REQUEST.fullmatch(ref):
                found.setdefault(int(named["number"]), sha)
        return found

    @cached_property
    def pull_request_commits(self) -> Mapping[tuple[str, str], Sequence[tuple[int, Commit]]]:
        """Return the commits of pull requests that landed otherwise, by author and instant, which a rebase keeps."""
        found: dict[tuple[str, str], list[tuple[int, Commit]]] = {}
        numbers = {sha: number for number, sha in self.heads.items()}
        present = self._present(numbers)
        # A child comes before its parents, so a commit has the number of the newest pull request above it.
        given = "\n".join([*present, "^HEAD"]).encode()
        shown = self.git(
            "rev-list", "--topo-order", "--encoding=UTF-8", f"--format={_FORMAT}", "--no-commit-header", "--stdin",
            given=given,
        )  # fmt: skip
        for line in shown.split("\n")[:-1]:
            commit = Commit.parse(line)
            number = numbers[commit.sha]
            for parent in commit.parents:
                numbers.setdefault(parent, number)
            if len(commit.parents) == 1:
                found.setdefault((commit.author, commit.authored), []).append((number, commit))
        return found

    def _present(self, shas: Iterable[str]) -> list[str]:
        """Return those of these objects that the clone has."""
        shown = self.git("cat-file", "--batch-check=%(objectname) %(objecttype)", given="\n".join(shas).encode())
        return [line.split()[0] for line in shown.splitlines() if line.endswith(" commit")]

    # Merges.

    def merges(self, pairs: Iterable[tuple[str, str] | None], *settings: str) -> Iterator[Merge | None]:
        """Yield what git, with `settings` (`key=value`), makes of each pair of commits; None where it refuses it."""
        rest = iter(pairs)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            batches = iter(lambda: list(islice(rest, _BATCH)), [])
            running = [pool.submit(self._merge_batch, batch, settings) for batch in islice(batches, 4)]
            while running:
                answered = running.pop(0).result()
                running += [pool.submit(self._merge_batch, batch, settings) for batch in islice(batches, 1)]
                yield from answered

    def merge(self, first: str, second: str, *settings: str) -> Merge | None:
        """Return what git makes of two commits; None if it refuses them."""
        # Its exit code is 1 for a conflict, and for a commit that is absent; then it names no tree.
        try:
            tree, *infos = self._merge_tree(first, second, settings=settings, codes=(0, 1)).split("\0")
        except HistoryError:
            return None
        return _merge(tree, not any(infos), [each for each in infos if each]) if tree else None

    def _merge_batch(self, batch: Sequence[tuple[str, str] | None], settings: Sequence[str]) -> Sequence[Merge | None]:
        pairs = [each for each in batch if each is not None]
        if self._version < _WITH_STDIN:
            return [None if pair is None else self.merge(*pair, *settings) for pair in batch]
        answers: list[Merge | None] = []
        while len(answers) < len(pairs):
            lines = "".join(f"{first} {second}\n" for first, second in pairs[len(answers) :])
            # The process ends at the first pair that it refuses, with any code.
            codes = range(-64, 256)
            shown = self._merge_tree("--stdin", settings=settings, codes=codes, given=lines.encode())
            answers += _merges(shown)
            if len(answers) < len(pairs):
                answers.append(None)
        each = iter(answers)
        return [None if pair is None else next(each) for pair in batch]

    def pick(self, commit: Commit, onto: Commit) -> tuple[str, str]:
        """Return two commits whose merge is what a cherry-pick of the one onto the other makes."""
        return self._store(f"tree {onto.tree}\nparent {commit.parents[0]}\n"), commit.sha

    def octopus(self, commit: Commit) -> str | None:
        """Return the tree that git makes of all parents, one after the other; None if they conflict."""
        onto = commit.parents[0]
        tree = None
        for each in commit.parents[1:]:
            merge = self.merge(onto, each)
            if merge is None or not merge.clean:
                return None
            tree = merge.tree
            onto = self._store(f"tree {tree}\nparent {onto}\nparent {each}\n")
        return tree

    def merges_to(self, base: str, first: str, second: str, file: Change) -> bool:
        """Whether `git merge-file`, with its older algorithm, makes the content `file.after` of a file's versions."""
        entries = [self.entry(each, file.path) for each in (first, base, second)]
        if file.after is None or any(each is None for each in entries):
            return False
        if file.before is not None and file.before[0] != file.after[0]:
            return False  # Its mode differs, too.
        try:
            names = []
            for position, each in enumerate(entries):
                names.append(str(self.scratch / f"side-{position}"))
                Path(names[-1]).write_bytes(self.blob(each[1] if each else ""))
            merged = self.git("merge-file", "-p", *names)
            return merged == self.git("cat-file", "blob", file.after[1])
        except HistoryError:
            return False

    def _store(self, header: str) -> str:
        """Write a commit object into the scratch folder, as git does, but without a process."""
        body = f"{header}author imq <imq> 0 +0000\ncommitter imq <imq> 0 +0000\n\n".encode()
        content = b"commit %d\0" % len(body) + body
        algorithm = "sha1" if len(header.split()[1]) == 40 else "sha256"
        sha = new(algorithm, content, usedforsecurity=False).hexdigest()
        file = self.scratch / sha[:2] / sha[2:]
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(zlib.compress(content))
        return sha

    # Trees.

    def differences(self, before: str, after: str) -> list[Change]:
        """Return the paths that differ between two trees, or commits. Raises HistoryError for absent objects."""
        shown = self.git("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", before, after)
        return [difference for _, difference in _differences(shown)]

    def changed_files(self, commits: Sequence[Commit]) -> Mapping[str, Sequence[str]]:
        """Return the files that each commit changed in its first parent, by its name."""
        found: dict[str, list[str]] = {each.sha: [] for each in commits}
        # A commit with parents on its line is compared with these ("git diff-tree", `--stdin`).
        if lines := [f"{each.sha} {each.parents[0]}\n" for each in commits if each.parents]:
            arguments = ("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-abbrev", "--no-renames")
            for sha, difference in _differences(self.git(*arguments, given="".join(lines).encode())):
                found[sha].append(difference.path)
        return found

    def entry(self, tree: str, path: str) -> tuple[str, str] | None:
        """Return mode and object of a path in a tree or commit; None if it is absent."""
        shown = self.git("ls-tree", "-z", "--full-tree", tree, "--", path).rstrip("\0")
        mode, _, sha = (shown.partition("\t")[0] + "  ").split(" ")[:3]
        return (mode, sha) if shown else None

    def versions(self, commit: str, path: str, limit: int) -> Iterator[tuple[str, tuple[str, str] | None]]:
        """Yield the first-parent commits that changed a path, newest first, each with the entry before it."""
        shown = self.git(
            "log", "--first-parent", "-m", f"-n{limit}", "--format=%H", "--raw", "--no-abbrev", "--no-renames",
            "--no-show-signature", "--no-notes", "--no-color", commit, "--", path,
        )  # fmt: skip
        sha = ""
        for line in shown.split("\n"):
            if line.startswith(":"):
                mode, _, old, *_ = line[1:].split(" ")
                yield sha, (mode, old) if int(mode) else None
            elif line:
                sha = line

    def merge_patterns(self, commit: str) -> list[str]:
        """Return the patterns of a commit's `.gitattributes` that choose how files are merged."""
        listed = self.git("ls-tree", "-r", "-z", "--full-tree", "--name-only", commit).split("\0")
        found, choosing = list[str](), set(_MERGE_ATTRIBUTES)
        # The file at the top, which may define macros, comes first.
        for path in sorted(listed, key=lambda each: each.count("/")):
            if path.rpartition("/")[2] == ".gitattributes":
                for line in self.git("cat-file", "blob", f"{commit}:{path}").splitlines():
                    pattern, *attributes = line.split() or [""]
                    names = {each.lstrip("-!").partition("=")[0] for each in attributes}
                    if pattern.startswith("#") or names.isdisjoint(choosing):
                        continue
                    if pattern.startswith("[attr]"):
                        choosing.add(pattern.removeprefix("[attr]"))
                    else:
                        found.append(pattern)
        return found

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether one commit is in the history of another."""
        return self.git("merge-base", older, newer, codes=(0, 1)).strip() == older

    def commit(self, sha: str) -> Commit:
        """Return a commit. Raises HistoryError for an absent one."""
        return next(self.commits("--no-walk", sha))

    def trees(self, shas: Iterable[str]) -> Mapping[str, Commit]:
        """Return commits by their names."""
        wanted = list(dict.fromkeys(shas))
        return {each.sha: each for each in self.commits("--no-walk", "--end-of-options", *wanted)} if wanted else {}

    def blob(self, sha: str) -> bytes:
        """Return a blob's content. Raises HistoryError if the clone lacks it."""
        return self.git("cat-file", "blob", sha).encode("utf-8", "surrogateescape")


def _merges(shown: str) -> Iterator[Merge]:
    """Parse answers of `merge-tree --stdin`: a status, a tree, the stages of paths in conflict, an empty field."""
    fields = iter(shown.split("\0"))
    for status in fields:
        tree = next(fields, "")
        infos: list[str] = []
        for info in fields:
            if not info:
                yield _merge(tree, status == "1", infos)
                break
            infos.append(info)


def _merge(tree: str, clean: bool, infos: Sequence[str]) -> Merge:
    conflicts: dict[str, frozenset[int]] = {}
    for info in infos:
        described, _, path = info.partition("\t")
        conflicts[path] = conflicts.get(path, frozenset()) | {int(described.rpartition(" ")[2])}
    return Merge(tree, clean, conflicts)


def _differences(shown: str) -> Iterator[tuple[str, Change]]:
    """Parse raw lines of `diff-tree -z`, each with the commit above it."""
    sha = ""
    fields = iter(shown.split("\0"))
    for described in fields:
        if described.startswith(":"):
            old_mode, new_mode, old, new_, _ = described[1:].split(" ")
            before, after = (old_mode, old), (new_mode, new_)
            yield sha, Change(next(fields), before if int(old_mode) else None, after if int(new_mode) else None)
        else:
            sha = described.strip()


def _options(*settings: str) -> list[str]:
    return [part for each in settings for part in ("-c", each)]


def _quoted(path: str) -> str:
    """Quote a path of GIT_ALTERNATE_OBJECT_DIRECTORIES where git would take a part of it for a separator or quote."""
    if os.pathsep not in path and not path.startswith('"'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
