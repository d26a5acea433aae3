"""`imq land`, `imq revert`, `imq reland`: queue a pull request and wait for it, take one back, land it again."""

import hashlib
import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import click
from yarl import URL

from bot.cli.author.api_client import WAIT_SECONDS, ApiAnswer, ConnectionFailed, Retries
from bot.cli.author.clone import Clone, CloneError
from bot.cli.author.session import (
    API,
    BUSY,
    FOLDER_MODE,
    AuthorCommand,
    FoundPullRequest,
    Session,
    clone_or_stop,
    code_of,
    find_pull_request,
    logins_file,
    open_session,
    repository_of_clone,
    repository_option,
    repository_path,
    server_option,
)
from bot.cli.author.terminal import details, say_line, state_line, state_word
from bot.cli.console import ExitCode, echo, echo_json, json_option, stop

GIVE_UP_SECONDS = 900.0
"""For so long IMQ may be unreachable, which a release takes minutes to end, have too many calls, or a full queue."""

_LEAST_SECONDS = 1.0
"""A call that is answered sooner without a change did not wait: IMQ is asked more and more rarely then."""

_CONFLICT = 409

OUTCOMES = {
    "landed": ExitCode.DONE,
    "failed": ExitCode.FAILED,
    "cancelled": ExitCode.DEQUEUED,
    "refused": ExitCode.REFUSED,
}


def answers(session: Session, path: Callable[[], str], retries: Retries) -> Iterator[ApiAnswer | None]:
    """Ask IMQ again and again by the path of that moment, and yield each answer; None while it cannot answer.

    Raises ConnectionFailed once it has not answered for a quarter of an hour.
    """
    while True:
        asked, answer = retries.now(), None
        try:
            answer = session.client.call("GET", path(), seconds=WAIT_SECONDS)
            if answer.status >= 500 or answer.status == BUSY:
                raise ConnectionFailed(f"{answer.sentence}.")
            retries.answered()
            yield answer
            if retries.now() - asked < _LEAST_SECONDS:
                retries.rest()
        except ConnectionFailed:
            if not retries.outlasts(GIVE_UP_SECONDS):
                raise
            yield None


@dataclass
class LandingWait:
    """Prints each change of a pull request's state once."""

    session: Session
    path: str
    name: str
    timeout: float | None
    retries: Retries = field(default_factory=Retries)
    printed: str = ""

    def run(self) -> ExitCode:
        """Wait, print the outcome, and return its exit code."""
        ends = None if self.timeout is None else self.retries.now() + self.timeout
        path = f"{self.path}/queue"

        def next_path() -> str:
            return path if ends is None else waiting_at_most(path, ends - self.retries.now())

        try:
            for answer in answers(self.session, next_path, self.retries):
                if answer is not None:
                    self._refuse(answer)
                    if self._print(answer.body):
                        self.retries.shorten()
                    if answer.body["state"] == "not_queued":
                        return self._ended(answer.body)
                    path = _next_path(answer.body) or path
                if ends is not None and self.retries.now() >= ends:
                    stop(ExitCode.TIMED_OUT, f"{self.name} did not land in time. It stays queued.")
        except ConnectionFailed as problem:
            stop(ExitCode.UNREACHABLE, f"{problem} {self.name} stays queued.")
        raise AssertionError("answers have no end")

    def _refuse(self, answer: ApiAnswer) -> None:
        """Stop the command for a refusal."""
        if answer.status >= 400:
            if self.session.as_json:
                echo_json(answer.body)
            stop(code_of(answer.status), f"{answer.sentence}. {self.name} may still be queued.")

    def _print(self, body: Any) -> bool:
        """Print the state if it changed; return whether it did."""
        line = state_line(body)
        if line == self.printed:
            return False
        self.printed = line
        if self.session.as_json:
            # Only the last answer is for programs.
            echo(f"{self.name} {line}", err=True)
        else:
            say_line(f"{self.name} {line}", state_word(body))
        if body["state"] == "not_ready":
            # Somebody has to act, and nothing else happens until then.
            for each in details(body):
                echo(each, err=self.session.as_json)
        return True

    def _ended(self, body: Any) -> ExitCode:
        if self.session.as_json:
            echo_json(body)
        else:
            for line in details(body):
                echo(line)
        return OUTCOMES.get(str(body.get("outcome")), ExitCode.DEQUEUED)


def waiting_at_most(path: str, seconds: float) -> str:
    """Return the path with a shorter wait, if it waits for longer than this."""
    url = URL(path)
    if "wait" not in url.query:
        return path
    return str(url.update_query(wait=str(min(int(url.query["wait"]), max(1, math.ceil(seconds))))))


def _next_path(body: Any) -> str | None:
    """Return the path by which IMQ lets the caller wait for the next change."""
    call = (body.get("next") or {}).get("call") or {}
    path = str(call.get("path", ""))
    return path if call.get("method") == "GET" and path.startswith(f"{API}/") else None


def land_all(
    session: Session,
    repository: str,
    numbers: Sequence[int],
    priority: int | str | None,
    timeout: float | None,
    *,
    wait: bool,
) -> ExitCode:
    """Queue these pull requests in this order and print each result; returns the first exit code that is not 0."""
    more = {} if priority is None else {"priority": priority}
    pulls = [{"number": number, **more} for number in numbers]
    answer = session.call("POST", f"{repository_path(repository)}/queue", {"pulls": pulls})
    session.refuse(answer)
    process = _until_done(session, answer.body)
    if session.as_json and not wait:
        echo_json(process)
    codes = [_print_result(session, repository, each) for each in process["results"]]
    if wait:
        ends = None if timeout is None else time.monotonic() + timeout
        codes = [
            _land(session, repository, each["number"], ends) if code is ExitCode.DONE else code
            for each, code in zip(process["results"], codes, strict=True)
        ]
    return next((code for code in codes if code is not ExitCode.DONE), ExitCode.DONE)


def _until_done(session: Session, process: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the process once it has all results. Stops the command if IMQ does not answer for too long."""
    path = f"{API}/processes/{process['process_id']}?wait=60"
    found = answers(session, lambda: f"{path}&since={process['version']}", Retries())
    try:
        while process["state"] != "done":
            if (answer := next(found)) is not None:
                session.refuse(answer)
                process = answer.body
    except ConnectionFailed as problem:
        stop(ExitCode.UNREACHABLE, f"{problem} IMQ queues the pull requests once it runs again.")
    return process


def _print_result(session: Session, repository: str, result: Mapping[str, Any]) -> ExitCode:
    """Print one result, and return its exit code: 0 for one that is queued."""
    queued = result["status"] < 400
    line = state_line({"queue": None, "entry": None, **result}) if queued else f"not queued: {result['error']}"
    echo(f"{repository}#{result['number']} {line}", err=session.as_json)
    return ExitCode.DONE if queued else code_of(result["status"])


def _land(session: Session, repository: str, number: int, ends: float | None) -> ExitCode:
    """Wait for one of them; the time limit is that of all."""
    left = None if ends is None else max(0.0, ends - time.monotonic())
    path = f"{repository_path(repository)}/pulls/{number}"
    return LandingWait(session, path, f"{repository}#{number}", left).run()


class PendingLanding:
    """A landing that the command waits for. Its Idempotency-Key is kept in a file until the outcome was printed.

    So a command that was killed continues when it runs again: IMQ answers a call with the same key as it did before,
    and queues nothing again that has left its queue meanwhile. Another file has the number for the checked-out commit,
    as IMQ finds open pull requests alone.
    """

    def __init__(self, url: str, name: str, body: Mapping[str, Any]) -> None:
        """`body` is what queues the pull request: another head or priority is another landing."""
        named = json.dumps([url, name, body], sort_keys=True)
        folder = logins_file(os.environ).parent / "landings"
        self._file = folder / hashlib.sha256(named.encode()).hexdigest()

    def key(self) -> str:
        """Return the kept key, or a new one. Where no file can be written, each key is new."""
        return self.kept() or self.keep(str(uuid4()))

    def kept(self) -> str | None:
        """Return what the file keeps; None without one."""
        try:
            return self._file.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            return None

    def keep(self, text: str) -> str:
        """Keep a text, if a file can be written, and return it."""
        with suppress(OSError):
            self._file.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            self._file.write_text(text, encoding="ascii")
        return text

    def forget(self) -> None:
        """Remove the file: the next call queues the pull request again."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)


ANY = "any"
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_POINTS = re.compile(r"[+-]?[0-9]{1,4}")
_LEVELS = ("high", "normal", "low")
_DURATION = re.compile(r"(?:([0-9]{1,4})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,6})s?)?")


class Priority(click.ParamType[int | str]):
    """A level, or points."""

    name = "high|normal|low|POINTS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the level or the points. Raises BadParameter."""
        if value in _LEVELS:
            return str(value)
        if not _POINTS.fullmatch(value):
            self.fail("write high, normal, low, or points from -1000 to 1000", param, ctx)
        return int(value)


class Duration(click.ParamType[float]):
    """A duration such as 90m."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds. Raises BadParameter."""
        found = _DURATION.fullmatch(value) if value else None
        if found is None:
            self.fail("write a duration such as 90m, 2h or 30s", param, ctx)
        hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return float(hours * 3600 + minutes * 60 + seconds)


@click.command(cls=AuthorCommand)
@click.argument("numbers", metavar="[NUMBER]...", type=click.IntRange(min=1), nargs=-1)
@click.option("--wait", is_flag=True, help="Wait until it landed or left the queue.")
@click.option("--timeout", type=Duration(), help="With --wait: stop waiting after this time. It stays queued.")
@click.option("--priority", type=Priority(), help="Needs the role maintain, and a login with --maintain.")
@click.option("--head", metavar="SHA|any", help="Queue this head, or any of GitHub's. Default: what is checked out.")
@repository_option
@server_option
@json_option
def land(
    numbers: tuple[int, ...],
    wait: bool,
    timeout: float | None,
    priority: int | str | None,
    head: str | None,
    repository: str | None,
    server: str | None,
    as_json: bool,
) -> None:
    """Queue a pull request: NUMBER, or the one of the branch that is checked out. Several are queued in this order.

    IMQ queues the commit that is checked out, so GitHub must have it; of several, the heads that GitHub has. The exit
    code is 0 once it landed, or is queued without --wait. Other outcomes have other codes: see docs/command-line.md.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait.")
    numbers = tuple(dict.fromkeys(numbers))
    if len(numbers) > 1 and head not in (None, ANY):
        raise click.UsageError("--head names the head of one pull request.")
    patience = min(GIVE_UP_SECONDS, GIVE_UP_SECONDS if timeout is None else timeout) if wait else 0.0
    session = open_session(server, as_json=as_json, patience=patience)
    if len(numbers) > 1:
        chosen = repository or repository_of_clone(session, clone_or_stop())
        try:
            raise SystemExit(int(land_all(session, chosen, numbers, priority, timeout, wait=wait)))
        except KeyboardInterrupt:
            stop(ExitCode.INTERRUPTED, "Stopped waiting. What is queued stays queued; `imq status` shows it.")
    found = None
    if by_branch := wait and not numbers:
        repository = repository or repository_of_clone(session, clone_or_stop())
        found = _continued(session, repository)
    if found is None:
        found = find_pull_request(session, numbers[0] if numbers else None, repository, waits=True)
    bound = None if head == ANY else _head(found, head)
    body = {name: value for name, value in (("head_sha", bound), ("priority", priority)) if value is not None}
    begun, of_commit = PendingLanding(session.client.url, found.name, body), _of_commit(session, found)
    if by_branch:
        of_commit.keep(str(found.number))
    answer = session.call("POST", f"{found.path}/queue", body, key=begun.key() if wait else None)
    if not (wait and _has_landed(session, found, bound, answer)):
        if answer.status >= 400 and answer.pause is None:
            begun.forget()
            of_commit.forget()
        session.refuse(answer)
        if as_json and not wait:
            echo_json(answer.body)
        else:
            echo(_queued(found, answer.body, new=answer.status == 202), err=as_json)
    if wait:
        code = _wait(session, found, timeout)
        begun.forget()
        of_commit.forget()
        raise SystemExit(int(code))


def _of_commit(session: Session, found: FoundPullRequest) -> PendingLanding:
    """Return what keeps the number of the pull request whose landing the checked-out commit waits for."""
    return PendingLanding(session.client.url, found.repository, {"head_sha": found.local_head})


def _continued(session: Session, repository: str) -> FoundPullRequest | None:
    """Return the pull request for which a command waited that was killed: it may have landed meanwhile."""
    try:
        head = clone_or_stop().branch().head_sha
    except CloneError:
        return None
    number = _of_commit(session, FoundPullRequest(repository, 0, head)).kept() or ""
    return FoundPullRequest(repository, int(number), head, head) if number.isdecimal() else None


def _has_landed(session: Session, found: FoundPullRequest, bound: str | None, answer: ApiAnswer) -> bool:
    """Whether a pull request is refused because it has landed through the queue, with this head."""
    merged = answer.status == _CONFLICT and answer.body.get("reason") == "merged_elsewhere"
    if not merged or bound not in (None, found.pushed_head):
        return False
    state = session.call("GET", f"{found.path}/queue")
    return bool(state.status == 200 and state.body["outcome"] == "landed")


def _head(found: FoundPullRequest, given: str | None) -> str | None:
    """Return the head to bind; None for a pull request whose branch is not checked out. Stops if GitHub has another."""
    if given is not None:
        return _given_head(given)
    if found.local_head != found.pushed_head:
        local, pushed = (str(each)[:7] for each in (found.local_head, found.pushed_head))
        stop(
            ExitCode.USAGE,
            f"The checked-out branch is at {local}, but {found.name} is at {pushed} on GitHub. Push or pull first. "
            f"To queue GitHub's head, use `--head {ANY}`.",
        )
    return found.local_head


def _given_head(given: str) -> str:
    if _SHA.fullmatch(given.lower()):
        return given.lower()
    try:
        full = Clone().full_sha(given)
    except CloneError:
        full = None
    if full is None:
        stop(ExitCode.USAGE, f"No commit {given} is here. Give a full SHA.")
    return full


def _queued(found: FoundPullRequest, body: Any, *, new: bool) -> str:
    """Say where it is queued, and which head."""
    state, base, head = "Queued" if new else "Already queued", body["base_branch"], body["head_sha"][:7]
    if body["status"] == "not_ready":
        return f"Not queued yet: {found.name} joins the queue for {base} as soon as it is ready, head {head}."
    place = "is waiting for room" if body["position"] is None else f"is at position {body['position'] + 1}"
    return f"{state}: {found.name} {place} in the queue for {base}, head {head}."


def _wait(session: Session, found: FoundPullRequest, timeout: float | None) -> ExitCode:
    try:
        return LandingWait(session, found.path, found.name, timeout).run()
    except KeyboardInterrupt:
        stop(ExitCode.INTERRUPTED, f"Stopped waiting. {found.name} stays queued; `imq why {found.number}` shows it.")


@click.command(cls=AuthorCommand)
@click.argument("number", type=click.IntRange(min=1))
@repository_option
@server_option
@json_option
def revert(number: int, repository: str | None, server: str | None, as_json: bool) -> None:
    """Open the revert of NUMBER, which has landed, and queue it as a hotfix."""
    _revert("revert", number, repository, server, as_json=as_json)


@click.command(cls=AuthorCommand)
@click.argument("number", type=click.IntRange(min=1))
@repository_option
@server_option
@json_option
def reland(number: int, repository: str | None, server: str | None, as_json: bool) -> None:
    """Open the change of NUMBER, which was reverted, as a new pull request."""
    _revert("reland", number, repository, server, as_json=as_json)


def _revert(do: str, number: int, repository: str | None, server: str | None, *, as_json: bool) -> None:
    session = open_session(server, as_json=as_json)
    name = repository or repository_of_clone(session, clone_or_stop())
    answer = session.call("POST", f"{repository_path(name)}/pulls/{number}/{do}")
    session.refuse(answer)
    if as_json:
        echo_json(answer.body)
    else:
        echo(f"{name}#{number}: {answer.body['sentence'].replace('`', '')}")
    if answer.body["reason"] is not None:
        raise SystemExit(int(ExitCode.REFUSED))
