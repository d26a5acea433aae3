"""`imq token`: tokens of the API are made, listed and revoked."""

import re
from datetime import UTC, datetime

import click

from bot.commands.surroundings import columns, instant, on_store
from queue_engine.store import Store
from queue_engine.store.tokens import Token

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:\[bot\])?")


@click.group()
def token() -> None:
    """Tokens of the HTTP API."""


@token.command()
@click.argument("name")
@click.option("--login", help="The GitHub user for whom, and with whose rights, the token queues and dequeues.")
@click.option("--operator", is_flag=True, help="It may see and steer IMQ itself, such as dead letters.")
def create(name: str, login: str | None, operator: bool) -> None:
    """Make a token and print it: only its hash is kept."""
    if not _NAME.fullmatch(name):
        raise click.BadParameter(
            "a name is letters, digits, dots, dashes and underscores, at most 100", param_hint="NAME"
        )
    if login is not None and not _LOGIN.fullmatch(login):
        raise click.BadParameter("that is no GitHub login", param_hint="--login")

    async def work(store: Store) -> str | None:
        async with store.transaction() as tx:
            return await tx.tokens.create(name, login=login, operator=operator, now=datetime.now(UTC))

    secret = on_store(work)
    if secret is None:
        raise click.ClickException(f"There is a token named {name} already: revoke it, or choose another name.")
    click.echo(secret)
    click.echo("It is shown this once. Send it as `Authorization: Bearer ...`.", err=True)


@token.command("list")
def list_tokens() -> None:
    """Show all tokens, without their secrets."""

    async def work(store: Store) -> tuple[Token, ...]:
        async with store.reading() as tx:
            return await tx.tokens.all()

    tokens = on_store(work)
    if not tokens:
        click.echo("There are no tokens.")
        return
    rows = (
        (
            each.name,
            each.login or "-",
            "yes" if each.operator else "no",
            instant(each.created_at),
            instant(each.last_used_at),
        )
        for each in tokens
    )
    click.echo(columns(("NAME", "LOGIN", "OPERATOR", "CREATED", "LAST USED"), rows))


@token.command()
@click.argument("name")
def revoke(name: str) -> None:
    """Delete a token: calls with it are refused from now on."""

    async def work(store: Store) -> bool:
        async with store.transaction() as tx:
            return await tx.tokens.revoke(name)

    if not on_store(work):
        raise click.ClickException(f"There is no token named {name}; `imq token list` shows those that there are.")
    click.echo(f"Revoked {name}.")
