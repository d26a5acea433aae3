"""Who somebody is on GitHub, for commands that bind something to a person."""

from bot.commands.github import gateway_of
from bot.settings import Settings
from queue_engine.core.clock import SystemClock
from queue_engine.errors import GitHubError
from queue_engine.facts import Account


class PersonNotTold(Exception):
    """GitHub did not tell who that is; the message says why."""


async def account_of(settings: Settings, login: str) -> Account:
    """Ask GitHub, as the App of these settings, who has this login. Raises PersonNotTold."""
    async with gateway_of(settings, SystemClock()) as gateway:
        try:
            installations = await gateway.installations()
            if not installations:
                raise PersonNotTold(f"GitHub cannot be asked who {login} is: the App is installed nowhere.")
            account = await gateway.people.by_login(installations[0], login)
        except GitHubError as error:
            raise PersonNotTold(f"GitHub did not tell who {login} is: {error.message}") from None
    if account is None:
        raise PersonNotTold(f"GitHub knows nobody with the login {login}.")
    return account
