"""`imq token`: tokens of the API are made, listed and revoked."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time

import click

from bot.commands.surroundings import RepositoryName, columns, instant, on_store, settings
from bot.printable import echo
from queue_engine.config.durations import duration
from queue_engine.facts import Account, Permission
from queue_engine.store import Store, Transaction
from queue_engine.store.tokens import Grant, Token

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:\[bot\])?")


@click.group()
def token() -> None:
    """Tokens of the HTTP API."""


@token.command()
@click.argument("name")
@click.option("--person", "--login", "login", help="The GitHub user for whom, and with whose rights, the token acts.")
@click.option("--operator", is_flag=True, help="It may see everything, and steer IMQ itself, such as dead letters.")
@click.option("--installation", type=int, help="Only the repositories of this installation of the App, by its id.")
@click.option("--repository", "names", multiple=True, type=RepositoryName(), help="Only this repository; repeatable.")
@click.option("--read", is_flag=True, help="It changes nothing; the default where no person is given.")
@click.option("--write", is_flag=True, help="It may queue and dequeue, and not steer queues.")
@click.option("--maintain", is_flag=True, help="It may steer queues as well; a person's default.")
@click.option("--expires", help="When it ends: after 90d, 12h, ... or on a date such as 2027-01-31 (UTC).")
def create(
    name: str,
    login: str | None,
    operator: bool,
    installation: int | None,
    names: tuple[str, ...],
    expires: str | None,
    **chosen: bool,
) -> None:
    """Make a token and print it: only its hash is kept."""
    if not _NAME.fullmatch(name):
        raise click.BadParameter(
            "a name is letters, digits, dots, dashes and underscores, at most 100", param_hint="NAME"
        )
    now = datetime.now(UTC)
    scoped = installation is not None or bool(names)
    _check_owner(login, operator, scoped=scoped)
    grant = Grant(
        login=login,
        operator=operator,
        access=_access(chosen, default=Permission.READ if login is None and not operator else Permission.MAINTAIN),
        installation_id=installation,
        expires_at=None if expires is None else _end(expires, now),
    )
    account = None if login is None else _account(login)
    if account is not None:
        grant = replace(grant, login=account.login, person_id=account.id)

    async def work(store: Store) -> str | None:
        async with store.transaction() as tx:
            limited = replace(grant, repositories=await _ids(tx, names, installation))
            return await tx.tokens.create(name, limited, now=now)

    secret = on_store(work)
    if secret is None:
        raise click.ClickException(f"There is a token named {name} already: revoke it, or choose another name.")
    echo(secret)
    echo("It is shown this once. Send it as `Authorization: Bearer ...`.", err=True)


@token.command("list")
def list_tokens() -> None:
    """Show all tokens, without their secrets."""

    async def work(store: Store) -> tuple[tuple[Token, str], ...]:
        async with store.reading() as tx:
            return tuple([(each, await _scope(tx, each.grant)) for each in await tx.tokens.all()])

    tokens = on_store(work)
    if not tokens:
        echo("There are no tokens.")
        return
    now = datetime.now(UTC)
    titles = ("NAME", "PERSON", "OPERATOR", "ACCESS", "SCOPE", "CREATED", "LAST USED", "EXPIRES")
    echo(columns(titles, (_row(each, scope, now) for each, scope in tokens)))


@token.command()
@click.argument("name")
def revoke(name: str) -> None:
    """Delete a token: calls with it are refused from now on."""

    async def work(store: Store) -> bool:
        async with store.transaction() as tx:
            return await tx.tokens.revoke(name)

    if not on_store(work):
        raise click.ClickException(f"There is no token named {name}; `imq token list` shows those that there are.")
    echo(f"Revoked {name}.")


def _check_owner(login: str | None, operator: bool, *, scoped: bool) -> None:
    """Refuse a token that is nobody's, and one whose limits mean nothing."""
    if login is not None and not _LOGIN.fullmatch(login):
        raise click.BadParameter("that is no GitHub login", param_hint="--person")
    if login is None and not operator and not scoped:
        raise click.UsageError("Say whose token it is: --person, --operator, --installation or --repository.")
    if operator and scoped:
        raise click.UsageError("An operator's token sees everything: leave --installation and --repository out.")


def _access(chosen: Mapping[str, bool], *, default: Permission) -> Permission:
    """What the token may do at most, by its flags."""
    flags = [name for name, given in chosen.items() if given]
    if len(flags) > 1:
        raise click.UsageError(f"Choose one of {' and '.join(f'--{name}' for name in flags)}.")
    return Permission(flags[0]) if flags else default


def _end(text: str, now: datetime) -> datetime:
    """When a token ends that is made now."""
    try:
        end = now + duration(text)
    except (ValueError, OverflowError):
        end = _date(text)
    if end <= now:
        raise click.BadParameter("that has passed already", param_hint="--expires")
    return end


def _date(text: str) -> datetime:
    try:
        return datetime.combine(date.fromisoformat(text), time(), tzinfo=UTC)
    except ValueError:
        raise click.BadParameter("give 90d, 12h, or a date such as 2027-01-31", param_hint="--expires") from None


def _account(login: str) -> Account:
    # Imported when needed: only this asks GitHub.
    from bot.commands import people

    try:
        return asyncio.run(people.account_of(settings(quiet=True), login))
    except people.PersonNotTold as problem:
        raise click.ClickException(str(problem)) from None


async def _ids(tx: Transaction, names: Sequence[str], installation: int | None) -> tuple[int, ...] | None:
    """The repositories of these names; None if none is named. Raises ClickException for one that IMQ never saw."""
    ids = []
    for name in names:
        owner, _, repository = name.partition("/")
        found = await tx.queues.repository(owner, repository)
        if found is None or installation not in {None, found.installation_id}:
            raise click.ClickException(f"IMQ has not seen {name}: is the App installed there, and has IMQ run since?")
        ids.append(found.id)
    return tuple(ids) if names else None


async def _scope(tx: Transaction, grant: Grant) -> str:
    """Where a token may be used, for people to read."""
    parts = [] if grant.installation_id is None else [f"installation {grant.installation_id}"]
    for repository_id in grant.repositories or ():
        found = await tx.queues.repository_by_id(repository_id)
        parts.append(f"repository {repository_id}" if found is None else found.full_name)
    return ", ".join(parts) or "-"


def _most(grant: Grant) -> str:
    """The most that a token may do; an operator's changes queues only for a person."""
    if grant.operator and grant.login is None and grant.access is not Permission.READ:
        return "dead letters"
    return grant.access.value


def _row(token: Token, scope: str, now: datetime) -> Sequence[str]:
    grant = token.grant
    ended = " (over)" if grant.expired(now) else ""
    return (
        token.name,
        grant.login or "-",
        "yes" if grant.operator else "no",
        _most(grant),
        scope,
        instant(token.created_at),
        instant(token.last_used_at),
        instant(grant.expires_at) + ended,
    )
