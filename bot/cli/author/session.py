"""Choose the server, the token and the repository of a command, and explain refusals."""

import os
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import click

from bot.cli.author.api_client import ApiAnswer, ApiClient, ConnectionFailed, server_url
from bot.cli.author.clone import Clone, CloneError
from bot.cli.author.logins import Logins, LoginsError, StoredLogin, logins_file
from bot.cli.author.terminal import ExitCode, say_json, stop
from bot.cli.console import RepositoryName

URL, TOKEN = "IMQ_URL", "IMQ_TOKEN"
NOT_ALLOWED = (401, 403, 404)
BUSY = 429
API = "/api/v1"
"""The prefix of every path but `/queue/status`."""

_ATTEMPTS, _PAUSE_SECONDS = 3, 1.0
"""How often a call that changes something is sent, with one key, until the server answers."""


@dataclass(frozen=True, slots=True)
class Session:
    """A server, and who calls it. `github` is the host of its GitHub, if a login named it."""

    client: ApiClient
    github: str | None
    as_json: bool

    def call(self, method: str, path: str, body: Any = None) -> ApiAnswer:
        """Send a call, and stop the command if nothing answers. A call that changes something is sent again first."""
        key = str(uuid4())
        for left in reversed(range(1 if method == "GET" else _ATTEMPTS)):
            try:
                return self.client.call(method, path, body, key=key)
            except ConnectionFailed as problem:
                if not left:
                    stop(ExitCode.UNREACHABLE, str(problem))
                time.sleep(_PAUSE_SECONDS)
        raise AssertionError("the last attempt ends the command")

    def refuse(self, answer: ApiAnswer) -> None:
        """Stop the command for an answer that is a refusal; return for any other."""
        if answer.status < 400:
            return
        if self.as_json:
            say_json(answer.body)
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
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
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


def open_session(given: str | None, *, as_json: bool) -> Session:
    """Return the session of a command; stop it without a login."""
    if token := os.environ.get(TOKEN):
        # Not of the clone: the person who made it chose that address, and would receive the token.
        named = given or os.environ.get(URL)
        if not named:
            stop(ExitCode.USAGE, f"{TOKEN} is set without {URL}: set the address of the server too, or give --server.")
        return Session(ApiClient(chosen_url(named) or "", token), None, as_json)
    url = chosen_url(given)
    login = find_login(url)
    if login is None:
        where = "URL" if url is None else url
        stop(ExitCode.NOT_ALLOWED, f"You are not logged in. Run `imq login {where}`, or set {URL} and {TOKEN}.")
    return Session(ApiClient(login.url, login.token), login.github, as_json)


def find_login(url: str | None) -> StoredLogin | None:
    """Return a stored login, and stop the command if its file is damaged."""
    try:
        return stored_logins().find(url)
    except LoginsError as problem:
        stop(ExitCode.USAGE, str(problem))


def repository_path(full_name: str) -> str:
    """Return the path of a repository in the API."""
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
json_option = click.option("--json", "as_json", is_flag=True, help="Print the API's answer.")
