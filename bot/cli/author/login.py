"""`imq login` and `imq logout`: get a token by GitHub's device flow, and give it back."""

import os
import time
from typing import Any
from urllib.parse import urlsplit

import click

from bot.cli.author.api_client import ApiClient, ConnectionFailed
from bot.cli.author.session import (
    API,
    BUSY,
    TOKEN,
    AuthorCommand,
    LoginsError,
    Session,
    StoredLogin,
    chosen_url,
    find_login,
    is_token,
    stored_logins,
)
from bot.cli.console import ExitCode, echo, stop

LOGIN = f"{API}/login"

_ROOM = 1.2
"""The interval is stretched by this: clocks of virtual machines run fast (cli/cli #9370)."""


@click.command(cls=AuthorCommand)
@click.argument("url", required=False)
@click.option("--maintain", is_flag=True, help="Get a token that may also control queues, where your role lets you.")
def login(url: str | None, maintain: bool) -> None:
    """Log in to the IMQ at URL by GitHub, and store a token for the other commands.

    You type a code on GitHub's page. The token is valid for 30 days, and queues in your name.
    """
    chosen = chosen_url(url) or _known_url()
    session = Session(ApiClient(chosen), None, as_json=False)
    begun = session.call("POST", f"{LOGIN}/device", {"access": "maintain" if maintain else "write"})
    session.refuse(begun)
    _explain(chosen, begun.body)
    try:
        done = _wait(session, begun.body)
    except KeyboardInterrupt:
        stop(ExitCode.INTERRUPTED, "Stopped. Nothing was stored.")
    if not is_token(done["token"]):
        raise ValueError("no header can carry its token")
    github = urlsplit(begun.body["verification_uri"]).netloc.lower()
    stored = StoredLogin(chosen, done["token"], done["login"], github, done["expires_at"])
    try:
        stored_logins().add(stored)
    except LoginsError as problem:
        # A token that cannot be kept is given back.
        Session(ApiClient(chosen, done["token"]), None, as_json=False).call("DELETE", LOGIN)
        stop(ExitCode.USAGE, str(problem))
    echo(f"Logged in to {chosen} as {done['login']}, until {done['expires_at'][:10]}.")
    if os.environ.get(TOKEN):
        echo(f"{TOKEN} is set, and counts more than this login.", err=True)


@click.command(cls=AuthorCommand)
@click.argument("url", required=False)
def logout(url: str | None) -> None:
    """Revoke the token of a login and forget it; without URL that of the newest login."""
    found = find_login(chosen_url(url))
    if found is None:
        stop(ExitCode.USAGE, "You are not logged in there.")
    try:
        answer = ApiClient(found.url, found.token).call("DELETE", LOGIN)
        revoked = answer.status in (204, 401)
        why = answer.sentence if not revoked else ""
    except ConnectionFailed as problem:
        revoked, why = False, str(problem).rstrip(".")
    try:
        stored_logins().remove(found.url)
    except LoginsError as problem:
        stop(ExitCode.USAGE, str(problem))
    if not revoked:
        until = found.expires_at[:10]
        stop(ExitCode.UNREACHABLE, f"The login is forgotten here, but its token is valid until {until}: {why}.")
    echo(f"Logged out of {found.url}.")


def _known_url() -> str:
    """Return the server of the newest login, to log in there again."""
    found = find_login(None)
    if found is None:
        stop(ExitCode.USAGE, "Give the address of IMQ: `imq login https://imq.example.com`.")
    return found.url


def _explain(url: str, begun: Any) -> None:
    """Say what is asked for, so that a person recognizes a code that somebody else sent them."""
    rights = "queue and dequeue pull requests"
    if begun["access"] == "maintain":
        rights += ", and control queues"
    minutes = begun["expires_in"] // 60
    echo(f"Open {begun['verification_uri']} and type this code: {begun['user_code']}")
    echo(f"This lets the IMQ at {url} {rights} in your name. The code is valid for {minutes} minutes.")
    echo("Type only a code that you see here; IMQ never sends one.")


def _interval(body: Any) -> float:
    """Return the seconds between two questions, as IMQ wants them."""
    return max(1.0, float(body["interval"]))


def _wait(session: Session, begun: Any) -> Any:
    """Ask until the person has typed the code. Stops the command when the login ended."""
    interval = _interval(begun)
    ends = time.monotonic() + begun["expires_in"]
    while True:
        if time.monotonic() >= ends:
            stop(ExitCode.TIMED_OUT, "The code has expired. Run `imq login` again.")
        time.sleep(interval * _ROOM)
        try:
            answer = session.client.call("POST", f"{LOGIN}/device/token", {"id": begun["id"]})
        except ConnectionFailed:
            # The id outlives a restart of the server.
            continue
        if answer.status == 200:
            return answer.body
        if answer.status == 202:
            interval = _interval(answer.body)
        elif answer.status < 500 and answer.status != BUSY:
            stop(ExitCode.REFUSED, f"{answer.sentence}")
