"""Refuse writes to repositories in shadow mode: the one place that every request to GitHub passes.

No other module has to know the mode for IMQ to write nothing. Calls of the App itself, such as requests for tokens,
concern no repository. Reads pass.
"""

from collections.abc import Awaitable, Callable

from bot.gateway.http.client import Call
from bot.gateway.http.scopes import Target
from queue_engine.domain.errors import ShadowModeError
from queue_engine.domain.model import Repository

MayWrite = Callable[[Repository], Awaitable[bool]]
"""Whether IMQ may write in a repository. Raises GitHubError if it cannot know: then IMQ sends nothing."""


async def assert_may_write(target: Target, call: Call, may_write: MayWrite | None) -> None:
    """Let reads pass, and writes to repositories in which IMQ may write. Raises ShadowModeError, and GitHubError.

    A write names its repository: one that names only an installation is refused. `may_write` None: no repository is in
    shadow mode, as for tools that only read.
    """
    if call.reads or target is None or may_write is None:
        return
    if not isinstance(target, Repository) or not await may_write(target):
        raise ShadowModeError(f"{call.name} was not sent: the repository is in shadow mode")
