"""What a caller may know to exist."""

from github_emulator.callers.tokens import Caller
from github_emulator.facade.github import GitHub
from github_emulator.state import Repository


def visible(github: GitHub, caller: Caller, repository: Repository) -> bool:
    """Whether the caller may know that this repository exists."""
    if not repository.private or caller.covers(repository):
        return True
    person = caller.actor if caller.installation is None else None
    return person is not None and github.accounts.role(person.user, repository) != "none"


def may_push(caller: Caller) -> bool:
    """Whether an App's token may push; persons always pass, as their role is judged elsewhere."""
    return caller.installation is None or (caller.actor is not None and caller.actor.may("contents", "write"))


def sees_members(caller: Caller, repository: Repository | None) -> bool:
    """Whether the caller may know who is a private member of the organisation that owns the repository."""
    if caller.actor is None or repository is None:
        return False
    if caller.installation is not None:
        return caller.actor.may("members", "read")
    return caller.actor.user.login in repository.collaborators
