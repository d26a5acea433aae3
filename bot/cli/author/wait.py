"""Wait until a pull request leaves its queue, through restarts of the server and failures of the network."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from yarl import URL

from bot.cli.author.api_client import WAIT_SECONDS, ApiAnswer, ConnectionFailed
from bot.cli.author.session import API, BUSY, Session, code_of
from bot.cli.author.state_text import details, state_line, state_word
from bot.cli.author.terminal import ExitCode, say, say_json, say_line, stop

GIVE_UP_SECONDS = 900.0
"""For so long IMQ may be unreachable; a release or a restart takes minutes."""

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 1.0, 30.0, 1.6
_LEAST_SECONDS = 1.0
"""A call that is answered sooner without a change did not wait: IMQ is asked more and more rarely then."""

OUTCOMES = {
    "landed": ExitCode.DONE,
    "failed": ExitCode.FAILED,
    "cancelled": ExitCode.DEQUEUED,
    "refused": ExitCode.REFUSED,
}


@dataclass
class LandingWait:
    """Prints each change of a pull request's state once. `now` and `sleep` are the clock."""

    session: Session
    path: str
    name: str
    timeout: float | None
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    printed: str = ""

    def run(self) -> ExitCode:
        """Wait, print the outcome, and return its exit code."""
        started = last_answered = self.now()
        pause, path = _FIRST_PAUSE, f"{self.path}/queue"
        while True:
            asked = self.now()
            left = None if self.timeout is None else started + self.timeout - asked
            answer = self._ask(path if left is None else _waiting_at_most(path, left))
            if isinstance(answer, str):
                if self.now() - last_answered > GIVE_UP_SECONDS:
                    stop(ExitCode.UNREACHABLE, f"{answer} {self.name} stays queued.")
            else:
                last_answered = self.now()
                if self._print(answer.body):
                    pause = _FIRST_PAUSE
                if answer.body["state"] == "not_queued":
                    return self._ended(answer.body)
                path = _next_path(answer.body) or path
            if self.timeout is not None and self.now() - started >= self.timeout:
                stop(ExitCode.TIMED_OUT, f"{self.name} did not land in time. It stays queued.")
            if isinstance(answer, str) or self.now() - asked < _LEAST_SECONDS:
                self.sleep(pause)
                pause = min(pause * _GROWTH, _LONGEST_PAUSE)

    def _ask(self, path: str) -> ApiAnswer | str:
        """Return an answer, or why there is none yet. Stops the command for a refusal that stays one."""
        try:
            answer = self.session.client.call("GET", path, seconds=WAIT_SECONDS)
        except ConnectionFailed as problem:
            return str(problem)
        if answer.status >= 500 or answer.status == BUSY:
            return f"{answer.sentence}."
        if answer.status >= 400:
            if self.session.as_json:
                say_json(answer.body)
            stop(code_of(answer.status), f"{answer.sentence}. {self.name} may still be queued.")
        return answer

    def _print(self, body: Any) -> bool:
        """Print the state if it changed; return whether it did."""
        line = state_line(body)
        if line == self.printed:
            return False
        self.printed = line
        if self.session.as_json:
            # Only the last answer is for programs.
            say(f"{self.name} {line}", err=True)
        else:
            say_line(f"{self.name} {line}", state_word(body))
        return True

    def _ended(self, body: Any) -> ExitCode:
        if self.session.as_json:
            say_json(body)
        else:
            for line in details(body):
                say(line)
        return OUTCOMES.get(str(body.get("outcome")), ExitCode.DEQUEUED)


def _waiting_at_most(path: str, seconds: float) -> str:
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
