"""`imq land` of several pull requests: one call queues them, and IMQ answers one by one."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from bot.cli.author.api_client import WAIT_SECONDS, ConnectionFailed
from bot.cli.author.session import API, Session, code_of, repository_path
from bot.cli.author.state_text import state_line
from bot.cli.author.terminal import ExitCode, say, say_json, stop
from bot.cli.author.wait import GIVE_UP_SECONDS, LandingWait

_PAUSE_SECONDS = 5.0
"""Between two calls while IMQ does not answer."""


def land_all(
    session: Session,
    repository: str,
    numbers: Sequence[int],
    priority: int | str | None,
    wait: bool,
    timeout: float | None,
) -> ExitCode:
    """Queue these pull requests in this order and print each result; returns the first exit code that is not 0."""
    more = {} if priority is None else {"priority": priority}
    pulls = [{"number": number, **more} for number in numbers]
    answer = session.call("POST", f"{repository_path(repository)}/queue", {"pulls": pulls})
    session.refuse(answer)
    process = _until_done(session, answer.body)
    if session.as_json and not wait:
        say_json(process)
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
    last_answered = time.monotonic()
    while process["state"] != "done":
        try:
            answer = session.client.call("GET", f"{path}&since={process['version']}", seconds=WAIT_SECONDS)
        except ConnectionFailed as problem:
            if time.monotonic() - last_answered > GIVE_UP_SECONDS:
                stop(ExitCode.UNREACHABLE, f"{problem} IMQ queues the pull requests once it runs again.")
            time.sleep(_PAUSE_SECONDS)
            continue
        last_answered = time.monotonic()
        if answer.status == 200:
            process = answer.body
        elif answer.status >= 500 or answer.status == 429:
            time.sleep(_PAUSE_SECONDS)
        elif answer.status >= 400:
            session.refuse(answer)
    return process


def _print_result(session: Session, repository: str, result: Mapping[str, Any]) -> ExitCode:
    """Print one result, and return its exit code: 0 for one that is queued."""
    queued = result["status"] < 400
    line = state_line({"queue": None, "entry": None, **result}) if queued else f"not queued: {result['error']}"
    say(f"{repository}#{result['number']} {line}", err=session.as_json)
    return ExitCode.DONE if queued else code_of(result["status"])


def _land(session: Session, repository: str, number: int, ends: float | None) -> ExitCode:
    """Wait for one of them; the time limit is that of all."""
    left = None if ends is None else max(0.0, ends - time.monotonic())
    path = f"{repository_path(repository)}/pulls/{number}"
    return LandingWait(session, path, f"{repository}#{number}", left).run()
