"""Find a person's GitHub id, for commands that bind something to a person."""

from bot.cli.github import gateway_of
from bot.settings.environment import Settings
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.errors import GitHubError
from queue_engine.domain.facts import Actor


class LookupFailed(Exception):
    """GitHub did not return the account; the message says why."""


async def account_of(settings: Settings, login: str) -> Actor:
    """Ask GitHub, as the App of these settings, for the account with this login. Raises LookupFailed."""
    async with gateway_of(settings, SystemClock()) as gateway:
        try:
            installations = await gateway.installations()
            if not installations:
                raise LookupFailed(f"The App is not installed, so IMQ cannot look up {login}.")
            account = await gateway.people.by_login(installations[0], login)
        except GitHubError as error:
            raise LookupFailed(f"IMQ could not look up {login}: {error.message}") from None
    if account is None:
        raise LookupFailed(f"GitHub has no account {login}.")
    return account
