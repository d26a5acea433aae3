"""Judge landings: is the content of each first-parent commit what git makes of its base and its pull request?

It accuses no landing by chance. One differs only if its content is known to be another one: what git merges without
a conflict, or what GitHub or a queue made. Everything else that is not equal stays `unknown`, with the reason.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from typing import Any

from bot.cli.clone.history import Change, Commit, History, HistoryError, Merge


class Kind(StrEnum):
    """How a commit came to the branch."""

    MERGE = "merge"
    SQUASH = "squash"
    REBASE = "rebase"
    PUSH = "push"


class Verdict(StrEnum):
    """What is known of a landing."""

    EQUAL = "equal"
    DIFFERS = "differs"
    REVERTS = "reverts"
    PUSHED = "pushed"
    UNKNOWN = "unknown"


WRONG = frozenset({Verdict.DIFFERS, Verdict.REVERTS})


@dataclass(frozen=True, slots=True)
class Landing:
    """A first-parent commit, judged. `reason` is a sentence; `files` are those that it is about."""

    commit: Commit
    kind: Kind
    verdict: Verdict
    pull_request: int | None = None
    reason: str = ""
    files: tuple[str, ...] = ()
    reverted: tuple[str, ...] = ()
    """The landings whose content it undoes."""

    def as_json(self) -> dict[str, Any]:
        """Return what programs read."""
        return {
            "sha": self.commit.sha,
            "kind": self.kind.value,
            "verdict": self.verdict.value,
            "pull_request": self.pull_request,
            "files": list(self.files),
        }


_MERGE_SUBJECT = re.compile(
    r"(?:Auto merge of|Merge pull request|Merge(?: PR)?|Rollup merge of) #(?P<number>[1-9]\d{0,9})\b"
)
"""GitHub's subject; those of bors, of homu and of bors-ng, which may list several pull requests."""
_SQUASH_SUBJECT = re.compile(r"\(#(?P<number>[1-9]\d{0,9})\)\s*$")

_MACHINES = re.compile(r"noreply@github\.com|.*\[bot\]@users\.noreply\.github\.com|bors@.*", re.IGNORECASE)
"""Committers that merge what they are asked to, and edit nothing."""

_FIRST_BATCH, _BATCH = 16, 256
_OLDER_BASES, _OLDER_VERSIONS, _EXAMINED_FILES = 100, 50, 50

_COPIES = 4
"""How many commits with the author and the instant of another one are compared: those of stacked pull requests."""

_OTHER_MERGES = (("merge.directoryRenames=false",), ("merge.renames=false", "merge.directoryRenames=false"))
"""How other versions of git, and GitHub's former libgit2, merge the same commits: they follow fewer renames."""


def pull_request_of(commit: Commit) -> int | None:
    """Return the number that a landing's subject names."""
    found = _MERGE_SUBJECT.match(commit.subject) or _SQUASH_SUBJECT.search(commit.subject)
    return int(found["number"]) if found else None


def is_of_a_machine(commit: Commit) -> bool:
    """Whether GitHub or a bot made a commit: the author of a merge is who asked for it, a person or a bot."""
    return _MACHINES.fullmatch(commit.author if len(commit.parents) > 1 else commit.committer) is not None


def judge(history: History, range_: str) -> Iterator[Landing]:
    """Yield the landings of a range, newest first."""
    commits = history.first_parents(range_)
    judge_ = _Judge(history)
    size = _FIRST_BATCH  # The first answers come soon.
    while batch := list(islice(commits, size)):
        yield from judge_.batch(batch)
        size = _BATCH


class _Judge:
    """What is known of a clone while its landings are judged."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._numbers = {sha: number for number, sha in history.heads.items()}
        self._forwarded: tuple[int, str] | None = None
        """The pull request whose own commits the branch took over last, and their committer."""

    def batch(self, commits: Sequence[Commit]) -> Iterator[Landing]:
        """Yield the landings of some consecutive commits."""
        landings = list(self._judged(commits))
        changed = self._history.changed_files([each.commit for each in landings if each.verdict is Verdict.PUSHED])
        for each in landings:
            yield replace(each, files=tuple(changed[each.commit.sha])) if each.verdict is Verdict.PUSHED else each

    def _merged(self, commits: Sequence[Commit], pairs: Sequence[tuple[str, str] | None]) -> Mapping[str, Merge]:
        """Return what git makes of the pairs, by the landing: the landed tree if it can be that, or the first."""
        found: dict[str, Merge] = {}
        left = [(commit, pair) for commit, pair in zip(commits, pairs, strict=True) if pair is not None]
        for settings in ((), *_OTHER_MERGES):
            merges = self._history.merges([pair for _, pair in left], *settings)
            for (commit, _), merge in zip(left, merges, strict=True):
                if merge is not None and (commit.sha not in found or _is(merge, commit)):
                    found[commit.sha] = merge
            left = [(commit, pair) for commit, pair in left if not _is(found.get(commit.sha), commit)]
        return found

    def _judged(self, commits: Sequence[Commit]) -> Iterator[Landing]:
        history = self._history
        merges = self._merged(commits, [self._pair(each) for each in commits])
        copies = {
            commit.sha: history.pull_request_commits.get((commit.author, commit.authored), ())[:_COPIES]
            for commit in commits
            if history.heads
            and len(commit.parents) == 1
            and not _is(merges.get(commit.sha), commit)
            and commit.sha not in self._numbers
        }
        originals = [(commit, original) for commit in commits for _, original in copies.get(commit.sha, ())]
        bases = history.trees(commit.parents[0] for commit, _ in originals)
        picks = [history.pick(original, bases[commit.parents[0]]) for commit, original in originals]
        picked = self._merged([commit for commit, _ in originals], picks)
        for commit in commits:
            merge = merges.get(commit.sha)
            if len(commit.parents) > 1:
                landing = self._merge(commit, merge)
            elif _is(merge, commit):
                landing = Landing(commit, Kind.SQUASH, Verdict.EQUAL, pull_request_of(commit))
            elif _is(picked.get(commit.sha), commit):
                landing = Landing(commit, Kind.REBASE, Verdict.EQUAL, copies[commit.sha][0][0])
            else:
                landing = self._single(commit, merge, copies.get(commit.sha, ()))
            if landing.commit.sha in self._numbers and landing.kind is Kind.REBASE:
                self._forwarded = self._numbers[commit.sha], commit.committer
            elif landing.verdict is Verdict.EQUAL:
                self._forwarded = None
            yield landing

    def _pair(self, commit: Commit) -> tuple[str, str] | None:
        if len(commit.parents) == 2:
            return commit.parents[0], commit.parents[1]
        head = self._history.heads.get(pull_request_of(commit) or 0)
        return (commit.parents[0], head) if head is not None and len(commit.parents) == 1 else None

    # Merges.

    def _merge(self, commit: Commit, merge: Merge | None) -> Landing:
        number = pull_request_of(commit)

        def landing(verdict: Verdict, reason: str = "", files: Iterable[str] = ()) -> Landing:
            return Landing(commit, Kind.MERGE, verdict, number, reason, tuple(sorted(files)))

        if len(commit.parents) > 2:
            if self._history.octopus(commit) == commit.tree:
                return landing(Verdict.EQUAL)
            return landing(Verdict.UNKNOWN, "a merge of several branches at once whose conflicts git cannot repeat")
        if _is(merge, commit):
            return self._foreign_commits(commit, number) or landing(Verdict.EQUAL)
        if merge is None:
            return landing(Verdict.UNKNOWN, "git cannot merge its parents: foreign histories, or absent objects")
        case = _Case(self._history, commit, commit.parents[1], merge)
        of_pull_request = _MERGE_SUBJECT.match(commit.subject) is not None
        if not merge.clean:
            if of_pull_request and (lost := case.lost_files()):
                what = "the merge had conflicts, and lost files that no side deleted"
                return landing(Verdict.DIFFERS, what, lost)
            return landing(Verdict.UNKNOWN, "conflicts resolved by hand", merge.conflicts)
        if case.is_merged_otherwise():
            return landing(Verdict.EQUAL)
        if of_pull_request or _MACHINES.fullmatch(commit.committer):
            return case.accused(Kind.MERGE, number) if case.is_certain() else landing(Verdict.UNKNOWN, case.doubt)
        if reverted := case.older_base():
            return case.on_older_base(Kind.MERGE, number, reverted)
        files = [each.path for each in case.files]
        return landing(Verdict.UNKNOWN, "a merge by hand with changes that neither side has", files)

    def _foreign_commits(self, commit: Commit, number: int | None) -> Landing | None:
        """Find commits that GitHub merged with a pull request, but that are not the pull request's."""
        head, merged = self._history.heads.get(number or 0), commit.parents[1]
        if head is None or head == merged or not _MACHINES.fullmatch(commit.committer):
            return None
        try:
            if not self._history.is_ancestor(head, merged):
                return None
            arguments = ("--no-merges", merged, f"^{head}", f"^{commit.parents[0]}")
            foreign = list(self._history.commits(*arguments))
            files = {each.path for one in foreign for each in self._history.differences(one.parents[0], one.sha)}
        except (HistoryError, IndexError):
            return None
        if not foreign:
            return None
        named = _named("commit", [each.sha for each in foreign])
        reason = f"it has {named}, which the pull request does not have"
        return Landing(commit, Kind.MERGE, Verdict.DIFFERS, number, reason, tuple(sorted(files)))

    # Commits with one parent.

    def _single(self, commit: Commit, merge: Merge | None, copies: Sequence[tuple[int, Commit]]) -> Landing:
        number = pull_request_of(commit)
        if not commit.parents:
            return Landing(commit, Kind.PUSH, Verdict.UNKNOWN, None, "the first commit of the history")
        if commit.sha in self._numbers:
            return Landing(commit, Kind.REBASE, Verdict.EQUAL, self._numbers[commit.sha])
        if number is not None and number in self._history.heads:
            return self._squash(commit, number, merge)
        if copies:
            return self._rebase(commit, copies)
        if number is not None:
            reason = "the clone has no ref of its pull request"
            return Landing(commit, Kind.SQUASH, Verdict.UNKNOWN, number, reason)
        doubt = None
        if not self._history.heads:
            doubt = "a push or the landing of a pull request: the clone has no refs of pull requests"
        elif self._forwarded is not None and self._forwarded[1] == commit.committer:
            doubt = f"a push or a part of #{self._forwarded[0]}, which landed unchanged"
        elif _MACHINES.fullmatch(commit.committer):
            doubt = "made by GitHub or a bot: an edit on the branch, or a squash without its number"
        if doubt is not None:
            return Landing(commit, Kind.PUSH, Verdict.UNKNOWN, None, doubt)
        return Landing(commit, Kind.PUSH, Verdict.PUSHED, None, "no pull request has it")

    def _squash(self, commit: Commit, number: int, merge: Merge | None) -> Landing:
        def unknown(reason: str) -> Landing:
            return Landing(commit, Kind.SQUASH, Verdict.UNKNOWN, number, reason)

        head = self._history.heads[number]
        if merge is None:
            return unknown("git cannot merge the pull request's head: a foreign history, or absent objects")
        case = _Case(self._history, commit, head, merge)
        if merge.clean and case.is_merged_otherwise():
            return Landing(commit, Kind.SQUASH, Verdict.EQUAL, number)
        if _MACHINES.fullmatch(commit.committer) and (reverted := case.older_base()):
            left = case.without_own(reverted)
            if not left:
                return Landing(commit, Kind.SQUASH, Verdict.EQUAL, number)
            return case.on_older_base(Kind.SQUASH, number, left)
        if not case.commits or case.has_other_landings(number):
            return unknown("the pull request is for another branch, or the number names something else")
        if not _MACHINES.fullmatch(commit.committer):
            return unknown("landed by hand, and not as the pull request is now")
        if not merge.clean:
            return unknown("the pull request conflicts with its base as both are known here")
        return case.accused(Kind.SQUASH, number) if case.is_certain() else unknown(case.doubt)

    def _rebase(self, commit: Commit, copies: Sequence[tuple[int, Commit]]) -> Landing:
        number, original = copies[0]
        merge = self._history.merge(*self._history.pick(original, self._history.commit(commit.parents[0])))
        if merge is not None:
            case = _Case(self._history, commit, original.sha, merge, picked=original)
            if reverted := case.older_base():
                return case.on_older_base(Kind.REBASE, number, reverted)
        reason = "changed by hand since the pull request, or its conflicts were resolved"
        return Landing(commit, Kind.REBASE, Verdict.UNKNOWN, number, reason)


def _is(merge: Merge | None, commit: Commit) -> bool:
    return merge is not None and merge.clean and merge.tree == commit.tree


def _named(noun: str, shas: Sequence[str]) -> str:
    shown = ", ".join(each[:12] for each in shas[:3])
    more = f" and {len(shas) - 3} more" if len(shas) > 3 else ""
    return f"{noun}{'' if len(shas) == 1 else 's'} {shown}{more}"


class _Case:
    """A landing that is not what git makes of its base and `side`: the head that it merged, or the commit it copies."""

    doubt = ""

    def __init__(self, history: History, commit: Commit, side: str, merge: Merge, picked: Commit | None = None) -> None:
        self._history, self._commit, self._base = history, commit, commit.parents[0]
        self._side, self._merge, self._picked = side, merge, picked

    @cached_property
    def files(self) -> list[Change]:
        """What differs between the expected tree and the landed one."""
        return self._history.differences(self._merge.tree, self._commit.tree)

    @cached_property
    def bases(self) -> list[str]:
        if self._picked is not None:
            return [self._picked.parents[0]]
        return self._history.git("merge-base", "--all", self._base, self._side, codes=(0, 1)).split()

    @cached_property
    def commits(self) -> list[Commit]:
        """The commits of the side alone, newest first."""
        return list(self._history.commits("--topo-order", self._side, f"^{self._base}"))

    def _pair(self, base: str) -> tuple[str, str]:
        if self._picked is None:
            return base, self._side
        return self._history.pick(self._picked, self._history.commit(base))

    def is_merged_otherwise(self) -> bool:
        """Whether git's older algorithm for the contents of files makes the landed tree of a merge."""
        if len(self.bases) != 1 or len(self.files) > _EXAMINED_FILES:
            return False
        return all(self._history.merges_to(self.bases[0], self._base, self._side, each) for each in self.files)

    def is_certain(self) -> bool:
        """Whether only another content explains the differences; else `doubt` says what may."""
        if len(self.bases) != 1:
            self.doubt = "its sides have several merge bases, which programs merge in different ways"
            return False
        drivers = self._history.merge_patterns(self._base)
        self.files = [each for each in self.files if not any(_matches(each.path, pattern) for pattern in drivers)]
        if not self.files:
            self.doubt = "`.gitattributes` has these files merged in a way of its own"
            return False
        return True

    def lost_files(self) -> list[str]:
        """Return files that a merge with conflicts lost: both sides have them, or one of them added them."""
        gone = [each for each in self.files if each.after is None]
        parents = self._history.trees([self._base, self._side])
        if not gone or len(self.bases) != 1 or self._commit.tree in {each.tree for each in parents.values()}:
            return []
        moved = {each.path.rpartition("/")[2] for each in self.files if each.before is None}
        landed = {each.after for each in self.files}
        lost = []
        for each in gone:
            ours, theirs = (self._history.entry(side, each.path) for side in (self._base, self._side))
            kept = ours and theirs if self._history.entry(self.bases[0], each.path) else ours or theirs
            if kept and each.path.rpartition("/")[2] not in moved and each.before not in landed:
                lost.append(each.path)
        return lost

    def older_base(self) -> list[str]:
        """Return the landings that are reverted if the landed tree is that of a merge with an older base."""
        candidates = [
            each.sha
            for each in self._history.commits(
                "--first-parent", f"-n{_OLDER_BASES}", self._base, *(f"^{each}" for each in self.bases)
            )
        ]
        older = [*candidates[1:], *self.bases]
        merges = self._history.merges(self._pair(each) for each in older)
        for position, merge in enumerate(merges, start=1):
            if _is(merge, self._commit):
                return candidates[:position]
        return []

    def without_own(self, landings: Sequence[str]) -> list[str]:
        """Return those of these landings that the pull request does not have itself.

        GitHub squashes a stack from the bottom: each head has the heads below it, and not the commits that landed them.
        """
        left = []
        for sha in landings:
            head = self._history.heads.get(pull_request_of(self._history.commit(sha)) or 0)
            if head is None or not self._history.is_ancestor(head, self._side):
                left.append(sha)
        return left

    def on_older_base(self, kind: Kind, number: int | None, reverted: Sequence[str]) -> Landing:
        """Return the landing whose candidate was built on an older base."""
        reason = f"built on an older base: it undoes {_named('landing', reverted)}"
        return self._landing(kind, Verdict.REVERTS, number, reason, reverted)

    def accused(self, kind: Kind, number: int | None) -> Landing:
        """Return the landing with the best name of its fault."""
        if reverted := self.older_base():
            return self.on_older_base(kind, number, reverted)
        entries = {each.path: self._history.entry(self._base, each.path) for each in self.files[:_EXAMINED_FILES]}
        by_file = [self._reverted_by(each, entries.get(each.path)) for each in self.files[:_EXAMINED_FILES]]
        if all(by_file) and len(self.files) <= _EXAMINED_FILES:
            reverted = list(dict.fromkeys(sha for each in by_file for sha in each))
            reason = f"it takes back what landed before, by {_named('commit', reverted)}"
            return self._landing(kind, Verdict.REVERTS, number, reason, reverted)
        if kind is Kind.SQUASH and (missing := self._missing_commits()):
            reason = f"half of the pull request: it lacks {_named('commit', missing)}"
        elif all(each.after == entries.get(each.path, ()) for each in self.files):
            reason = "it lacks changes that git merges without a conflict"
        else:
            known = {each.path for base in self.bases for each in self._history.differences(base, self._side)}
            foreign = all(each.path not in known for each in self.files)
            reason = (
                "it changes files that the pull request does not change"
                if foreign
                else "neither side explains its content"
            )
        return self._landing(kind, Verdict.DIFFERS, number, reason)

    def _reverted_by(self, file: Change, now: tuple[str, str] | None) -> list[str]:
        """Return the landings that this file's content takes back; none if it never had that content before."""
        if file.after == now:
            return []
        reverted = []
        for sha, before in self._history.versions(self._base, file.path, _OLDER_VERSIONS):
            reverted.append(sha)
            if before == file.after:
                return reverted
        return []

    def _missing_commits(self) -> list[str]:
        """Return the last commits of the pull request if the landed tree is that of those before them."""
        first_parents = [each.sha for each in self._history.commits("--first-parent", self._side, f"^{self._base}")][
            : _OLDER_BASES + 1
        ]
        merges = self._history.merges((self._base, each) for each in first_parents[1:])
        for position, merge in enumerate(merges, start=1):
            if _is(merge, self._commit):
                return first_parents[:position]
        return []

    def has_other_landings(self, number: int) -> bool:
        """Whether the side has landings of other pull requests that the base lacks: it is for another branch."""
        return any(
            pull_request_of(each) not in (None, number) and _MACHINES.fullmatch(each.committer) for each in self.commits
        )

    def _landing(
        self, kind: Kind, verdict: Verdict, number: int | None, reason: str, reverted: Sequence[str] = ()
    ) -> Landing:
        files = tuple(sorted(each.path for each in self.files))
        return Landing(self._commit, kind, verdict, number, reason, files, tuple(reverted))


def _matches(path: str, pattern: str) -> bool:
    """Whether a pattern of `.gitattributes` may mean a path; it says yes too often rather than too seldom."""
    return fnmatchcase(path, f"*{pattern.strip('/')}") or fnmatchcase(path.rpartition("/")[2], pattern)
