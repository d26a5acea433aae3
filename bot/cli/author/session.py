"""Choose the server, the token and the repository of a command, and explain refusals."""

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import click

from bot.cli.author.api_client import ApiAnswer, ApiClient, ConnectionFailed, Retries, server_url
from bot.cli.author.clone import Branch, Clone, CloneError
from bot.cli.console import ExitCode, RepositoryName, echo, echo_json, stop

FILE_MODE, FOLDER_MODE = 0o600, 0o700


class LoginsError(Exception):
    """The file of logins cannot be read or written. The message has the way out."""


@dataclass(frozen=True, slots=True)
class StoredLogin:
    """A login at one server. `github` is the host of the GitHub that it serves."""

    url: str
    token: str
    login: str
    github: str
    expires_at: str

    def __repr__(self) -> str:
        """Leave the token out, which no message may have."""
        return f"StoredLogin({self.url!r}, login={self.login!r})"


class Logins:
    """The logins of this account on this machine."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def find(self, url: str | None) -> StoredLogin | None:
        """Return the login at a server; without one, the newest login."""
        logins, newest = self._read()
        return logins.get(url or newest)

    def add(self, login: StoredLogin) -> None:
        """Store a login, which becomes the newest. Raises LoginsError."""
        logins, _ = self._read()
        self._write({**logins, login.url: login}, login.url)

    def remove(self, url: str) -> None:
        """Forget a login. Raises LoginsError."""
        logins, newest = self._read()
        rest = {each: login for each, login in logins.items() if each != url}
        self._write(rest, newest if newest in rest else next(reversed(rest), ""))

    def _read(self) -> tuple[dict[str, StoredLogin], str]:
        with self._explained():
            try:
                content = json.loads(self._file.read_text(encoding="utf-8"))
            except FileNotFoundError:
                return {}, ""
            if os.name == "posix" and self._file.stat().st_mode & 0o077:
                self._file.chmod(FILE_MODE)
            found = [StoredLogin(**each) for each in content["logins"]]
            return {each.url: each for each in found}, str(content["newest"])

    def _write(self, logins: Mapping[str, StoredLogin], newest: str) -> None:
        """Replace the file at once, so that no reader sees half of it."""
        content: dict[str, Any] = {"newest": newest, "logins": [asdict(each) for each in logins.values()]}
        with self._explained():
            self._file.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            partial = self._file.with_name(f"{self._file.name}.{os.getpid()}")
            partial.unlink(missing_ok=True)
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "w") as stream:
                json.dump(content, stream, indent=2)
            partial.replace(self._file)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, TypeError, KeyError) as error:
            # A damaged file has tokens in it, so its content is not repeated.
            why = error.strerror if isinstance(error, OSError) else "it is damaged"
            raise LoginsError(f"{self._file}: {why}. Correct or delete it, and run `imq login`.") from None


def logins_file(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return where logins are kept: XDG's folder, or the one of Windows or macOS."""
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    if chosen := environ.get("XDG_CONFIG_HOME"):
        folder = Path(chosen)
    elif platform == "win32":
        folder = Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    elif platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        folder = home / ".config"
    return folder / "imq" / "logins.json"


URL, TOKEN = "IMQ_URL", "IMQ_TOKEN"
NOT_ALLOWED = (401, 403, 404)
BUSY = 429
_IN_A_HEADER = re.compile(r"[\x21-\x7e]+")

API = "/api/v1"
"""The prefix of every path but `/queue/status`."""


@dataclass(frozen=True, slots=True)
class Session:
    """A server, and who calls it. `github` is the host of its GitHub, if a login named it.

    For so many seconds of `patience` a call is sent again while IMQ has too many calls, or no room in the queue.
    """

    client: ApiClient
    github: str | None
    as_json: bool
    patience: float = 0.0

    def call(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> ApiAnswer:
        """Send a call, and stop the command if nothing answers. A call that changes something is sent again first."""
        key, retries, shown = key or str(uuid4()), Retries(), ""
        try:
            while True:
                answer = self.client.insist(method, path, body, key=key)
                if answer.status != BUSY:
                    return answer
                if self.patience and answer.sentence != shown:
                    shown = answer.sentence
                    echo(f"Waiting, since IMQ answers: {shown}.", err=True)
                if not retries.outlasts(self.patience, answer.retry_after):
                    return answer
        except ConnectionFailed as problem:
            stop(ExitCode.UNREACHABLE, str(problem))
        except KeyboardInterrupt:
            stop(ExitCode.INTERRUPTED, "Stopped waiting. Run the command again to continue.")

    def refuse(self, answer: ApiAnswer) -> None:
        """Stop the command for an answer that is a refusal; return for any other."""
        if answer.status < 400:
            return
        if self.as_json:
            echo_json(answer.body)
        sentence = answer.sentence
        if answer.status == 401:
            sentence += f". Log in: `imq login {self.client.url}`"
        stop(code_of(answer.status), sentence[:1].upper() + sentence[1:])


class AuthorCommand(click.Command):
    """A command that reads answers of a server, which may be no IMQ."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it. An answer without the expected fields ends it with a sentence."""
        try:
            return super().invoke(ctx)
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
            address = ApiClient.last_answered
            if address is None:
                raise
            what = f"{type(error).__name__}: {error}"
            stop(ExitCode.UNREACHABLE, f"{address} answered, but not as IMQ does ({what}). Check the address.")


def code_of(status: int) -> ExitCode:
    """Return the exit code of a refusal by its status."""
    if status in NOT_ALLOWED:
        return ExitCode.NOT_ALLOWED
    if status == BUSY:
        return ExitCode.BUSY
    return ExitCode.UNREACHABLE if status >= 500 else ExitCode.REFUSED


def stored_logins() -> Logins:
    """Return the logins of this account."""
    return Logins(logins_file(os.environ))


def chosen_url(given: str | None) -> str | None:
    """Return the address of the server: the given one, that of the environment, or of the clone; None without any."""
    url = given or os.environ.get(URL) or _of_clone()
    try:
        return None if url is None else server_url(url)
    except ValueError as problem:
        stop(ExitCode.USAGE, f"{problem}.")


def open_session(given: str | None, *, as_json: bool, patience: float = 0.0) -> Session:
    """Return the session of a command; stop it without a login."""
    if token := os.environ.get(TOKEN, "").strip():
        if not is_token(token):
            # What http.client says about it would repeat it.
            stop(ExitCode.USAGE, f"{TOKEN} is no token: it has characters that none has. Copy it again.")
        # Not of the clone: the person who made it chose that address, and would receive the token.
        named = given or os.environ.get(URL)
        if not named:
            stop(ExitCode.USAGE, f"{TOKEN} is set without {URL}: set the address of the server too, or give --server.")
        return Session(ApiClient(chosen_url(named) or "", token), None, as_json, patience)
    url = chosen_url(given)
    login = find_login(url)
    if login is None:
        where = "URL" if url is None else url
        stop(ExitCode.NOT_ALLOWED, f"You are not logged in. Run `imq login {where}`, or set {URL} and {TOKEN}.")
    return Session(ApiClient(login.url, login.token), login.github, as_json, patience)


def is_token(text: str) -> bool:
    """Return whether a header can carry it."""
    return _IN_A_HEADER.fullmatch(text) is not None


def find_login(url: str | None) -> StoredLogin | None:
    """Return a stored login, and stop the command if its file is damaged."""
    try:
        return stored_logins().find(url)
    except LoginsError as problem:
        stop(ExitCode.USAGE, str(problem))


def repository_path(full_name: str) -> str:
    owner, _, name = full_name.partition("/")
    return f"{API}/repositories/{quote(owner, safe='')}/{quote(name, safe='')}"


def clone_or_stop() -> Clone:
    """Return the clone of the current folder, and stop the command outside of one."""
    try:
        return Clone()
    except CloneError as problem:
        stop(ExitCode.USAGE, str(problem))


def repository_of_clone(session: Session, clone: Clone) -> str:
    """Return the first remote's repository that IMQ shows to the caller. Stops the command if it shows none."""
    try:
        candidates = clone.repositories(session.github)
    except CloneError as problem:
        stop(ExitCode.USAGE, str(problem))
    for each in candidates[:-1]:
        answer = session.call("GET", f"{repository_path(each.full_name)}/queues")
        if answer.status != 404:
            session.refuse(answer)
            return each.full_name
    name = candidates[-1].full_name
    # A folder's path may end in any two names.
    if not candidates[-1].host and session.call("GET", f"{repository_path(name)}/queues").status == 404:
        sentence = f"No remote of this clone is a repository that IMQ knows: {name}. Give --repository OWNER/REPO."
        stop(ExitCode.USAGE, sentence)
    return name


def _of_clone() -> str | None:
    try:
        return Clone().url_of_server()
    except CloneError:
        return None


server_option = click.option(
    "--server", metavar="URL", help="The address of IMQ. Default: IMQ_URL, or the newest login."
)
repository_option = click.option(
    "--repository", "-R", type=RepositoryName(), help="Default: the repository of the clone's remotes."
)


@dataclass(frozen=True, slots=True)
class FoundPullRequest:
    """A pull request. The heads are those of the local branch and of GitHub; None if its branch is not checked out."""

    repository: str
    number: int
    local_head: str | None = None
    pushed_head: str | None = None

    @property
    def path(self) -> str:
        """Return its path in the API."""
        return f"{repository_path(self.repository)}/pulls/{self.number}"

    @property
    def name(self) -> str:
        """Return what people call it."""
        return f"{self.repository}#{self.number}"


_LAG_SECONDS = (1, 2, 4)
"""Pauses before IMQ is asked again: GitHub's reads may not show a pull request yet that was just opened."""


def find_pull_request(
    session: Session, number: int | None, repository: str | None, *, waits: bool = False
) -> FoundPullRequest:
    """Return the pull request that a person means. Stops the command if there is none, or more than one.

    With `waits` it may have been opened, or pushed to, a moment ago.
    """
    if number is not None and repository is not None:
        return FoundPullRequest(repository, number)
    clone = clone_or_stop()
    chosen = repository or repository_of_clone(session, clone)
    try:
        branch = clone.branch()
    except CloneError as problem:
        if number is not None:
            return FoundPullRequest(chosen, number)
        stop(ExitCode.USAGE, str(problem))
    found = _open_ones(session, clone, chosen, branch)
    for pause in _LAG_SECONDS if waits else ():
        if _may_lag(branch, found, number):
            time.sleep(pause)
            found = _open_ones(session, clone, chosen, branch)
    if number is not None:
        found = [each for each in found if each["number"] == number]
        if not found:
            # That of another branch.
            return FoundPullRequest(chosen, number)
    if not found:
        stop(
            ExitCode.USAGE,
            f"{chosen} has no open pull request of the branch {branch.name}. Push it and open one, or give a number.",
        )
    if len(found) > 1:
        numbers = " or ".join(f"{each['number']} for {each['base_branch']}" for each in found)
        stop(ExitCode.USAGE, f"The branch {branch.name} has several pull requests. Give a number: {numbers}.")
    return FoundPullRequest(chosen, found[0]["number"], branch.head_sha, found[0]["head_sha"])


def _may_lag(branch: Branch, found: Sequence[Mapping[str, Any]], number: int | None) -> bool:
    """Whether GitHub's reads may not show yet that the branch's pull request was opened, or what was pushed to it.

    Without that a number would be taken for that of another branch, and GitHub's head would land in place of the
    checked-out one (P4).
    """
    if not found:
        return number is None or (branch.pushed and not branch.default)
    heads = [each["head_sha"] for each in found if number in (None, each["number"])]
    return branch.pushed and bool(heads) and branch.head_sha not in heads


def _open_ones(session: Session, clone: Clone, repository: str, branch: Branch) -> list[dict[str, Any]]:
    """Ask IMQ for the open pull requests of a branch."""
    pushed_to = clone.remote(branch.remote or "origin")
    owner = repository.partition("/")[0] if pushed_to is None else pushed_to.owner
    query = urlencode({"head": f"{owner}:{branch.name}"})
    answer = session.call("GET", f"{repository_path(repository)}/pulls?{query}")
    session.refuse(answer)
    found: list[dict[str, Any]] = answer.body["pulls"]
    return found
