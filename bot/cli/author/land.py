"""`imq land`: queue a pull request, and wait until it landed."""

import re
from collections.abc import Sequence
from typing import Any

import click

from bot.cli.author.bulk_landing import land_all
from bot.cli.author.clone import Clone, CloneError
from bot.cli.author.pull_requests import FoundPullRequest, find_pull_request
from bot.cli.author.session import (
    AuthorCommand,
    Session,
    clone_or_stop,
    json_option,
    open_session,
    repository_of_clone,
    repository_option,
    server_option,
)
from bot.cli.author.terminal import ExitCode, say, say_json, stop
from bot.cli.author.wait import LandingWait

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
    session = open_session(server, as_json=as_json)
    if len(numbers) > 1:
        chosen = repository or repository_of_clone(session, clone_or_stop())
        raise SystemExit(int(_queue_all(session, chosen, numbers, priority, timeout, wait=wait)))
    found = find_pull_request(session, numbers[0] if numbers else None, repository)
    bound = None if head == ANY else _head(found, head)
    body = {name: value for name, value in (("head_sha", bound), ("priority", priority)) if value is not None}
    answer = session.call("POST", f"{found.path}/queue", body)
    session.refuse(answer)
    if as_json and not wait:
        say_json(answer.body)
    else:
        say(_queued(found, answer.body, new=answer.status == 202), err=as_json)
    if wait:
        raise SystemExit(int(_wait(session, found, timeout)))


def _queue_all(
    session: Session,
    repository: str,
    numbers: Sequence[int],
    priority: int | str | None,
    timeout: float | None,
    *,
    wait: bool,
) -> ExitCode:
    try:
        return land_all(session, repository, numbers, priority, wait, timeout)
    except KeyboardInterrupt:
        stop(ExitCode.INTERRUPTED, "Stopped waiting. What is queued stays queued; `imq status` shows it.")


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
    place = "is waiting for room" if body["position"] is None else f"is at position {body['position'] + 1}"
    state = "Queued" if new else "Already queued"
    return f"{state}: {found.name} {place} in the queue for {body['base_branch']}, head {body['head_sha'][:7]}."


def _wait(session: Session, found: FoundPullRequest, timeout: float | None) -> ExitCode:
    try:
        return LandingWait(session, found.path, found.name, timeout).run()
    except KeyboardInterrupt:
        stop(ExitCode.INTERRUPTED, f"Stopped waiting. {found.name} stays queued; `imq why {found.number}` shows it.")
