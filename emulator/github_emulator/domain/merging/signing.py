"""Who is named in the commits that GitHub writes."""

from github_emulator.core.clock import Clock
from github_emulator.core.git import Signature
from github_emulator.state import User


def signature(clock: Clock, user: User) -> Signature:
    """An account, now."""
    return Signature(user.login, user.email, clock.now())


def web_flow(clock: Clock) -> Signature:
    """GitHub itself, now."""
    return Signature("GitHub", "noreply@github.com", clock.now())


def author_and_committer(clock: Clock, user: User) -> tuple[Signature, Signature]:
    """Who is named in a commit that GitHub writes for an account."""
    return signature(clock, user), web_flow(clock)
