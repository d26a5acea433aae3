"""`imq verify`: compare each landing of a clone with the record that IMQ signed of it."""

import binascii
import json
import re
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import IO, Any
from urllib.parse import urlencode

import click

from bot.cli.author.api_client import ApiClient, ConnectionFailed
from bot.cli.author.clone import Clone, CloneError
from bot.cli.author.session import (
    AuthorCommand,
    Session,
    chosen_url,
    clone_or_stop,
    open_session,
    repository_of_clone,
    repository_option,
    repository_path,
    server_option,
)
from bot.cli.clone.audit import counted
from bot.cli.clone.history import Commit, History, HistoryError
from bot.cli.clone.landings import is_of_a_machine, pull_request_of
from bot.cli.console import ExitCode, echo, echo_json, json_option, stop
from bot.logs.printable import on_one_line
from bot.passport.statement import Keys, PassportError, landing_in

NOTES = "refs/notes/imq"
_KEYS_PATH = "/.well-known/imq-keys.json"
_PAGE = 100
_LONGEST_LINE, _SUBJECT = 1_000_000, 72
_TOLERANCE = timedelta(days=1)
"""How far the clocks of a committer and of IMQ may differ."""


class Proof(StrEnum):
    """What is known of a landing, the best first."""

    PROVED = "proved"
    UNPROVED = "unproved"
    """IMQ signed that it had no tested tree to compare the landed one with, or CI tested it with others alone."""
    NO_RECORD = "no record"
    AROUND = "landed around the queue"
    DIFFERS = "differs"
    FORGED = "forged"


_CODES = {Proof.PROVED: 0, Proof.UNPROVED: 4, Proof.NO_RECORD: 4, Proof.AROUND: 3, Proof.DIFFERS: 1, Proof.FORGED: 1}
"""The exit code for the worst landing; other ones are `ExitCode`'s."""

_ORDER = list(Proof)


@dataclass(slots=True)
class _Landing:
    """A first-parent commit, and what the records say of it."""

    commit: Commit
    proof: Proof | None = None
    reason: str = ""
    pull_request: int | None = None
    before: str | None = None
    """Where a proved rebase began: the commits down to it belong to it."""
    is_open: bool = False
    """Whether it is a rebase, and its record does not say where it began."""
    is_within: bool = False
    """Whether one move of the base landed it with members after it: CI tested their tree, and not its own."""

    def as_json(self) -> dict[str, Any]:
        """Return what programs read."""
        return {
            "sha": self.commit.sha,
            "verdict": self.proof,
            "pull_request": self.pull_request,
            "reason": self.reason,
        }

    def improve(self, proof: Proof, reason: str = "") -> bool:
        """Take a better proof; whether it was one. A second, damaged line takes nothing away."""
        better = self.proof is None or _ORDER.index(proof) < _ORDER.index(self.proof)
        if better:
            self.proof, self.reason = proof, reason
        return better


class Verification:
    """The landings of a range, to which lines of an export are compared one at a time: memory grows with the range."""

    def __init__(
        self,
        commits: Iterable[Commit],
        keys: Keys,
        refs: Mapping[str, str] | None = None,
        repositories: Iterable[str] = (),
        branch: str | None = None,
    ) -> None:
        """Take the first-parent commits of the range, newest first; `refs` are those of tested trees.

        The same commit may have landed elsewhere, by other checks: only landings of one of these repositories count, of
        any if none is given, and on this branch.
        """
        self._keys, self._refs, self._branch = keys, refs or {}, branch
        self._names = {each.casefold() for each in repositories}
        self._repositories = dict[int, str]()
        """Those whose records count: by the id, since the name may have changed."""
        self._others = dict[int, list[Mapping[str, Any]]]()
        """Records of repositories with other names, by the id."""
        self._elsewhere = dict[str, str]()
        self._landings = {each.sha: _Landing(each) for each in commits}
        self._children = {each.commit.parents[0]: each for each in self._landings.values() if each.commit.parents}
        self._named: set[tuple[str, str]] = set()
        """Head and tree of the earlier members of trains that ended in the range."""
        self._replaced: dict[str, str] = {}
        self._first = dict[int, float]()
        """When the first record of each repository was made, as the records say."""
        self._called_so = set[int]()
        """The repositories that have one of the names, as the records say."""
        oldest = min(float(each.commit.committed) for each in self._landings.values())
        self._before_range = oldest - _TOLERANCE.total_seconds()

    def take(self, line: str, of: str | None = None) -> None:
        """Compare one line; `of` is the commit whose note it is."""
        stated = _Stated(line)
        if stated.at is not None:
            self._first[stated.repository] = min(stated.at, self._first.get(stated.repository, stated.at))
            if not self._names or stated.name in self._names:
                self._called_so.add(stated.repository)
        claimed = {each for each in (of, stated.beside, stated.commit) if each in self._landings}
        if not claimed and stated.before not in self._children:
            return
        try:
            record = landing_in(json.loads(line), self._keys)
            if of is not None and record["landed"]["commit"] != of:
                self._landings[of].improve(Proof.FORGED, "its note has the record of another commit")
                return
            number, name = record["repository"]["id"], record["repository"]["name"]
            if self._names and name.casefold() not in self._names and number not in self._repositories:
                self._others.setdefault(number, []).append(record)
                return
            self._repositories[number] = name
            self._compare(record)
        except (PassportError, ValueError, RecursionError, TypeError, KeyError, AttributeError, IndexError) as fault:
            for sha in claimed:
                sentence = str(fault) if isinstance(fault, PassportError) else "it is damaged"
                self._landings[str(sha)].improve(Proof.FORGED, f"the record: {sentence}")

    def _compare(self, record: Mapping[str, Any]) -> None:
        """Compare what a genuine record says with the clone."""
        landed, before, verdict = record["landed"], record["base"]["before"], record["verdict"]
        if self._branch not in (None, record["base"]["branch"]):
            self._elsewhere[landed["commit"]] = record["base"]["branch"]
            return
        self._named.update((each["head"], each["tree"]) for each in record["members"][:-1])
        landing = self._landings.get(landed["commit"])
        if landing is None:
            if before in self._children:
                self._replaced[before] = landed["commit"]
            return
        one_commit = record["method"] in ("merge", "squash") and before is not None
        if landing.commit.tree != landed["tree"]:
            landing.improve(Proof.DIFFERS, f"the record has the tree {landed['tree'][:12]}")
        elif one_commit and landing.commit.parents[:1] != (before,):
            landing.improve(Proof.DIFFERS, f"the record has it on {before[:12]}")
        elif verdict["result"] in ("equal", "exempt"):
            landing.improve(Proof.PROVED)
            landing.before = before if record["method"] == "rebase" else None
        elif verdict["result"] == "unproved":
            landing.improve(Proof.UNPROVED, verdict.get("why") or "no tree to compare with is known")
        else:
            landing.improve(Proof.DIFFERS, "the record says that other content landed than was tested")
        landing.is_within = record["how"] == "base_move" and landed["tree"] != record["candidate"]["tree"]
        landing.is_open = record["method"] == "rebase" and before is None
        landing.pull_request = record["members"][-1]["number"]
        ref = record.get("ref")
        if ref is not None:
            name, target = f"{ref['name']}/{landed['tree']}", ref.get("object", record["candidate"]["commit"])
            if self._refs.get(name, target) != target:
                landing.proof, landing.reason = Proof.FORGED, f"somebody pointed {name} elsewhere"

    def is_done(self) -> bool:
        """Whether older records can add nothing."""
        if self._first and min(self._first.values()) < self._before_range:
            return True
        return all(each.proof is Proof.PROVED for each in self._landings.values())

    @property
    def repository(self) -> str | None:
        """Return whose records count; None while there are none."""
        return next(iter(self._repositories.values()), None)

    def landings(self) -> list[_Landing]:
        """Return the landings, newest first, each with its proof. Raises HistoryError for an unclear repository."""
        if len(self._repositories) != 1 and (shown := {*self._repositories.values(), *self._names_of_others()}):
            names = ", ".join(sorted(shown))
            if len(shown) == 1 and len(self._repositories) > 1:
                raise HistoryError(f"Several repositories had the name {names}. Give the records of one of them.")
            raise HistoryError(f"The records are of {names}. Give --repository OWNER/REPO.")
        for number, records in self._others.items():
            for each in records:
                if number in self._repositories:
                    self._compare(each)
                else:
                    self._elsewhere[each["landed"]["commit"]] = each["repository"]["name"]
        found = list(self._landings.values())
        places = {each.commit.sha: place for place, each in enumerate(found)}
        if found[-1].commit.parents:
            places[found[-1].commit.parents[0]] = len(found)
        for place, landing in enumerate(found):
            for part in found[place + 1 : places.get(landing.before or "", 0)]:
                if part.proof is None:
                    part.proof, part.pull_request = Proof.PROVED, landing.pull_request
        if found[0].proof is Proof.PROVED and found[0].is_within:
            found[0].proof, found[0].reason = Proof.UNPROVED, "CI tested its whole train, and the range ends within it"
        above: _Landing | None = None
        for landing in found:
            if landing.proof is not None:
                above = landing if landing.is_open else None
                continue
            if above is not None and not _may_belong(landing.commit, above.commit):
                above = None
            landing.proof, landing.reason = self._without_record(landing.commit, above)
            landing.pull_request = pull_request_of(landing.commit)
        return found

    def _names_of_others(self) -> Iterator[str]:
        return (each["repository"]["name"] for records in self._others.values() for each in records)

    def _without_record(self, commit: Commit, above: _Landing | None) -> tuple[Proof, str]:
        """Tell a landing whose record is gone, perhaps of the rebase `above`, from a commit around the queue."""
        if replacing := self._replaced.get(commit.parents[0] if commit.parents else ""):
            return Proof.DIFFERS, f"the record has the commit {replacing[:12]} in its place"
        if other := self._elsewhere.get(commit.sha):
            return Proof.AROUND, f"it landed in {other}, and a person pushed it here"
        if above is not None:
            return Proof.NO_RECORD, f"the record of the rebase to {above.commit.sha[:12]} does not say where it began"
        first = min((self._first[number] for number in self._called_so), default=None)
        if first is None or float(commit.committed) < first - _TOLERANCE.total_seconds():
            return Proof.NO_RECORD, "older than the first record"
        if any((each, commit.tree) in self._named for each in commit.parents[1:]):
            return Proof.NO_RECORD, "its record is gone: another record names it"
        if is_of_a_machine(commit) and (len(commit.parents) > 1 or pull_request_of(commit) is not None):
            return Proof.NO_RECORD, "a bot or GitHub landed it: its record is gone, or another one merged it"
        return Proof.AROUND, "a person pushed or merged it"


def _may_belong(part: Commit, landing: Commit) -> bool:
    """Whether a rebase may have made a commit with the landing: GitHub makes new commits of all."""
    return len(part.parents) == 1 and part.committer == landing.committer


class _Stated:
    """What a line says of itself, before anything of it is proved: enough to skip the lines of other landings."""

    _BESIDE = re.compile(r'"commit": ?"([0-9a-f]{40,64})"')
    _PAYLOAD = re.compile(r'"payload": ?"([A-Za-z0-9+/=]+)"')
    _LANDED = re.compile(rb'"landed":\{"at":"([^"]{10,40})","commit":"([0-9a-f]{40,64})"')
    _REPOSITORY = re.compile(rb'"repository":\{"id":(\d{1,18}),"name":"([^"]{1,300})"')
    _BASE = re.compile(rb'"base":\{"before":"([0-9a-f]{40,64})"')

    def __init__(self, line: str) -> None:
        beside, encoded = self._BESIDE.search(line), self._PAYLOAD.search(line)
        self.beside = beside[1] if beside else None
        try:
            payload = b64decode(encoded[1]) if encoded else b""
        except binascii.Error:
            payload = b""
        landed, base = self._LANDED.search(payload), self._BASE.search(payload)
        repository = self._REPOSITORY.search(payload)
        self.repository = int(repository[1]) if repository else 0
        self.name = repository[2].decode(errors="replace").casefold() if repository else ""
        self.commit = landed[2].decode() if landed else None
        self.before = base[1].decode() if base else None
        try:
            self.at = datetime.fromisoformat(landed[1].decode()).timestamp() if landed else None
        except ValueError:
            self.at = None


@click.command(cls=AuthorCommand)
@click.argument("range_", metavar="RANGE")
@click.option("--bundle", type=click.File(errors="replace"), help="Records of `imq landings export`; - is the input.")
@click.option("--notes", is_flag=True, help=f"Records of the git notes in {NOTES}.")
@click.option("--refs", is_flag=True, help="Compare the refs of tested trees, too, as `origin` has them.")
@click.option("--keys", "keys_file", type=click.File(), help="The public keys. Default: those of the server.")
@click.option("--branch", metavar="NAME", help="Only landings on this base branch count. Default: on any.")
@json_option
@repository_option
@server_option
def verify(  # noqa: PLR0913
    range_: str,
    bundle: IO[str] | None,
    notes: bool,
    refs: bool,
    keys_file: IO[str] | None,
    branch: str | None,
    as_json: bool,
    repository: str | None,
    server: str | None,
) -> None:
    """Compare each landing of a range with the record that IMQ signed of it.

    RANGE is git's, such as `v1.0..main`; its first parents count. Without --bundle and --notes the records come from
    IMQ's API. With --keys and one of them the command works offline. The worst landing decides the exit code.
    """
    if bundle is not None and notes:
        raise click.UsageError("--bundle and --notes exclude each other.")
    try:
        with History() as history:
            history.count(range_)
            commits = list(history.first_parents(range_))
            session = open_session(server, as_json=as_json) if bundle is None and not notes else None
            verification = Verification(
                commits,
                _keys(keys_file, session, server),
                _refs(history) if refs else None,
                _names(repository) if session is None else (),
                branch,
            )
            if session is not None:
                _take_from_api(verification, session, repository)
            elif notes:
                for sha, line in _notes(history, commits):
                    verification.take(line, of=sha)
            else:
                assert bundle is not None
                while line := bundle.readline(_LONGEST_LINE):
                    verification.take(line)
            found = verification.landings()
    except HistoryError as error:
        stop(ExitCode.USAGE, on_one_line(str(error)))
    _show(verification, found, as_json=as_json)
    sys.exit(_CODES[max((each.proof or Proof.FORGED for each in found), key=_ORDER.index)])


def _show(verification: Verification, found: Sequence[_Landing], *, as_json: bool) -> None:
    counts = Counter(each.proof for each in found)
    if as_json:
        summary = {each: counts[each] for each in Proof}
        shown = [each.as_json() for each in found]
        echo_json({"repository": verification.repository, "landings": shown, "summary": summary})
    else:
        for each in found:
            if each.proof is not Proof.PROVED:
                number = f"#{each.pull_request}" if each.pull_request else ""
                echo(f"{each.commit.sha[:12]}  {each.proof}  {number:6} {on_one_line(each.commit.subject)[:_SUBJECT]}")
                echo(f"              {on_one_line(each.reason)}")
        figures = ", ".join(f"{counts[each]:,} {each}" for each in Proof if counts[each])
        of = f" of {on_one_line(verification.repository)}" if verification.repository else ""
        echo(f"{counted(len(found), 'landing')}{of}: {figures}.")


def _keys(given: IO[str] | None, session: Session | None, server: str | None) -> Keys:
    """Return the public keys of a file, or of the server. A bundle does not vouch for itself."""
    if given is not None:
        try:
            answered = json.load(given)
        except (ValueError, RecursionError):
            answered = None
    else:
        url = session.client.url if session is not None else chosen_url(server)
        if url is None:
            raise click.UsageError(f"Give --keys FILE, or --server URL, whose keys are at {_KEYS_PATH}.")
        try:
            answer = ApiClient(url).call("GET", _KEYS_PATH)
        except ConnectionFailed as problem:
            stop(ExitCode.UNREACHABLE, str(problem))
        if answer.status != 200:
            stop(ExitCode.UNREACHABLE, f"{url} has no keys: {answer.sentence}. Give --keys FILE.")
        answered = answer.body
    keys = answered.get("keys") if isinstance(answered, dict) else None
    if not isinstance(keys, dict) or not keys:
        stop(ExitCode.USAGE, f"There are no keys in the form of {_KEYS_PATH}.")
    return keys


def _names(given: str | None) -> Sequence[str]:
    """Return which repository the clone may be of; none if its remotes do not say."""
    if given is not None:
        return [given]
    try:
        return [each.full_name for each in Clone().repositories(None) if each.host]
    except CloneError:
        return []


def _take_from_api(verification: Verification, session: Session, repository: str | None) -> None:
    """Compare the landings that the server lists, newest first, as far as the range needs them."""
    path = repository_path(repository or repository_of_clone(session, clone_or_stop())) + "/landings"
    cursor: str | None = None
    while True:
        query = urlencode({"limit": _PAGE} | ({"cursor": cursor} if cursor else {}))
        answer = session.call("GET", f"{path}?{query}")
        session.refuse(answer)
        for each in answer.body["landings"]:
            verification.take(json.dumps(each))
        cursor = answer.body["next"]
        if cursor is None or verification.is_done():
            return


def _refs(history: History) -> Mapping[str, str]:
    """Return what the refs of tested trees point at, as the clone's `origin` has them."""
    # Everything else reads the clone alone.
    allowed = (f"protocol.{each}.allow=always" for each in ("https", "ssh", "http", "git", "file"))
    options = [part for each in allowed for part in ("-c", each)]
    wanted = ("refs/imq/tested/*", "refs/heads/imq-tested/*")
    lines = history.git(*options, "ls-remote", "origin", *wanted).splitlines()
    return {name: target for target, _, name in (line.partition("\t") for line in lines)}


def _notes(history: History, commits: Iterable[Commit]) -> Iterator[tuple[str, str]]:
    """Yield the lines of the notes on these commits."""
    wanted = {each.sha for each in commits}
    listed = (line.split() for line in history.git("notes", f"--ref={NOTES}", "list").splitlines())
    for blob, sha in listed:
        if sha in wanted:
            for line in history.git("cat-file", "blob", blob).splitlines():
                yield sha, line
