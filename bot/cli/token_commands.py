"""`imq token`: create, list and revoke tokens of the API."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time

import click

from bot.cli.console import CommandRefused, RepositoryName, columns, echo, instant
from bot.cli.host import account, find_repository, run_with_store, settings
from queue_engine.config.kinds import duration
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.facts import Actor, Permission
from queue_engine.store import Store, Transaction
from queue_engine.store.action_records import ActionKind
from queue_engine.store.tokens import Token, TokenPolicy

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:\[bot\])?")


@click.group()
def token() -> None:
    """Manage tokens of the HTTP API."""


@token.command()
@click.argument("name")
@click.option("--person", "login", help="GitHub user for whom the token acts.")
@click.option("--operator", is_flag=True, help="Allow to see everything and to manage dead letters.")
@click.option("--installation", type=int, help="Limit to this installation of the App, by its id.")
@click.option(
    "--repository", "names", multiple=True, type=RepositoryName(), help="Limit to this repository; repeatable."
)
@click.option("--read", is_flag=True, help="Allow to read only; the default without a person.")
@click.option("--write", is_flag=True, help="Allow to queue and dequeue.")
@click.option("--maintain", is_flag=True, help="Allow to pause, freeze and resume too; the default of a person.")
@click.option("--expires", help="Expire after 90d or 12h, or on a date such as 2027-01-31 (UTC).")
def create(
    name: str,
    login: str | None,
    operator: bool,
    installation: int | None,
    names: tuple[str, ...],
    expires: str | None,
    **chosen: bool,
) -> None:
    """Create a token and print it once; IMQ stores only its hash."""
    if not _NAME.fullmatch(name):
        raise click.BadParameter("use at most 100 letters, digits, dots, dashes and underscores", param_hint="NAME")
    now = SystemClock().now()
    scoped = installation is not None or bool(names)
    _check_owner(login, operator, scoped=scoped)
    grant = TokenPolicy(
        login=login,
        operator=operator,
        access=_access(chosen, default=Permission.READ if login is None and not operator else Permission.MAINTAIN),
        installation_id=installation,
        expires_at=None if expires is None else _expiry(expires, now),
    )
    person = None if login is None else _account(login)
    if person is not None:
        grant = replace(grant, login=person.login, person_id=person.id)

    async def work(store: Store) -> str | None:
        async with store.transaction() as tx:
            limited = replace(grant, repositories=await _repository_ids(tx, names, installation))
            secret = await tx.tokens.create(name, limited, now=now)
            if secret is not None:
                kind = ActionKind.TOKEN_CREATED
                await tx.actions.add(kind, name, by=account(), via="command_line", at=now, data=limited.described())
            return secret

    secret = run_with_store(work)
    if secret is None:
        raise click.ClickException(f"A token named {name} exists. Revoke it, or choose another name.")
    echo(secret)
    echo("Store it now: it is not shown again. Send it as `Authorization: Bearer ...`.", err=True)


@token.command("list")
def list_tokens() -> None:
    """Show all tokens, without their secrets."""

    async def work(store: Store) -> tuple[tuple[Token, str], ...]:
        async with store.reading() as tx:
            return tuple([(each, await _scope(tx, each.grant)) for each in await tx.tokens.all()])

    tokens = run_with_store(work)
    if not tokens:
        echo("No tokens.")
        return
    now = SystemClock().now()
    titles = ("NAME", "PERSON", "OPERATOR", "ACCESS", "SCOPE", "CREATED", "LAST USED", "EXPIRES")
    echo(columns(titles, (_row(each, scope, now) for each, scope in tokens)))


@token.command()
@click.argument("name")
def revoke(name: str) -> None:
    """Revoke a token."""

    async def work(store: Store) -> bool:
        async with store.transaction() as tx:
            revoked = await tx.tokens.revoke(name)
            if revoked:
                kind, now = ActionKind.TOKEN_REVOKED, SystemClock().now()
                await tx.actions.add(kind, name, by=account(), via="command_line", at=now)
            return revoked

    if not run_with_store(work):
        raise click.ClickException(f"No token has the name {name}. To list all, run `imq token list`.")
    echo(f"Revoked {name}.")


def _check_owner(login: str | None, operator: bool, *, scoped: bool) -> None:
    """Refuse a token without person or scope, and an operator's token with a scope."""
    if login is not None and not _LOGIN.fullmatch(login):
        raise click.BadParameter("not a GitHub login", param_hint="--person")
    if login is None and not operator and not scoped:
        raise click.UsageError("Give --person, --operator, --installation or --repository.")
    if operator and scoped:
        raise click.UsageError("Use --operator without --installation and --repository.")


def _access(chosen: Mapping[str, bool], *, default: Permission) -> Permission:
    """Return the highest permission of the token, by its flags."""
    flags = [name for name, given in chosen.items() if given]
    if len(flags) > 1:
        raise click.UsageError(f"Choose one of {' and '.join(f'--{name}' for name in flags)}.")
    return Permission(flags[0]) if flags else default


def _expiry(text: str, now: datetime) -> datetime:
    """Parse when a token that is created now expires."""
    try:
        end = now + duration(text)
    except (ValueError, OverflowError):
        end = _date(text)
    if end <= now:
        raise click.BadParameter("this has already passed", param_hint="--expires")
    return end


def _date(text: str) -> datetime:
    try:
        return datetime.combine(date.fromisoformat(text), time(), tzinfo=UTC)
    except ValueError:
        raise click.BadParameter("give 90d, 12h, or a date such as 2027-01-31", param_hint="--expires") from None


def _account(login: str) -> Actor:
    # Imported when needed: no other part of this command calls GitHub.
    from bot.cli import github

    return asyncio.run(github.account_of(settings(quiet=True), login))


async def _repository_ids(tx: Transaction, names: Sequence[str], installation: int | None) -> tuple[int, ...] | None:
    """Return the ids of these repositories; None without names. Raises CommandRefused for an unknown one."""
    ids = []
    for name in names:
        found = await find_repository(tx, name)
        if installation not in {None, found.installation_id}:
            raise CommandRefused(f"IMQ does not know {name} as a repository of the installation {installation}.")
        ids.append(found.id)
    return tuple(ids) if names else None


async def _scope(tx: Transaction, grant: TokenPolicy) -> str:
    """Format the scope of a token."""
    parts = [] if grant.installation_id is None else [f"installation {grant.installation_id}"]
    for repository_id in grant.repositories or ():
        found = await tx.repositories.by_id(repository_id)
        parts.append(f"repository {repository_id}" if found is None else found.full_name)
    return ", ".join(parts) or "-"


def _access_text(grant: TokenPolicy) -> str:
    """Format the access of a token; an operator's token without a person changes no queue."""
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
        _access_text(grant),
        scope,
        instant(token.created_at),
        instant(token.last_used_at),
        instant(grant.expires_at) + ended,
    )
