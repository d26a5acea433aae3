"""Tags: references to commits, or to annotated tags, which are objects of their own (docs: "Git tags").

And references in folders of people's own, such as `refs/notes`: to any object, without rules or webhooks.
"""

from pygit2 import GitError

from github_emulator.core.errors import Invalid
from github_emulator.domain.refs.refs import Refs
from github_emulator.events.context import Context
from github_emulator.events.event_bus import EventBus
from github_emulator.events.events import RefMoved
from github_emulator.state import Actor, Repository


class Tags:
    """Creates, moves and deletes tags, as people push them and as the REST API does."""

    def __init__(self, events: EventBus, *, refs: Refs) -> None:
        self._events = events
        self._refs = refs

    def create(self, repository: Repository, name: str, sha: str, *, actor: Actor) -> None:
        """Create a tag. Raises Invalid when it exists, is badly named, or names an object that does not exist."""
        self._refs.check_access(repository, actor)
        if repository.git.ref(f"tags/{name}") is not None:
            raise Invalid("Reference already exists")
        self._set(repository, name, sha, actor)

    def update(self, repository: Repository, name: str, sha: str, *, actor: Actor, force: bool = False) -> None:
        """Move a tag. Raises Invalid when it does not exist, or would go back without `force`."""
        self._refs.check_access(repository, actor)
        git = repository.git
        before = git.ref(f"tags/{name}")
        if before is None:
            raise Invalid("Reference does not exist")
        if not force and git.object_type(sha) and not git.is_ancestor(git.peel(before), git.peel(sha)):
            raise Invalid("Update is not a fast forward")
        if before != sha:
            self._set(repository, name, sha, actor)

    def delete(self, repository: Repository, name: str, *, actor: Actor) -> None:
        """Delete a tag; the object of an annotated one stays. Raises Invalid when it does not exist."""
        self._refs.check_access(repository, actor)
        before = repository.git.ref(f"tags/{name}")
        if before is None:
            raise Invalid("Reference does not exist")
        repository.git.delete_ref(f"tags/{name}")
        self._events.publish(RefMoved(repository, actor, f"refs/tags/{name}", before, None, False))

    def _set(self, repository: Repository, name: str, sha: str, actor: Actor) -> None:
        git = repository.git
        if git.commit(git.peel(sha)) is None:
            raise Invalid("Object does not exist")
        before = git.ref(f"tags/{name}")
        try:
            git.set_ref(f"tags/{name}", sha)
        except (ValueError, GitError) as error:
            raise Invalid(f"refs/tags/{name} is not a valid ref name.") from error
        self._events.publish(RefMoved(repository, actor, f"refs/tags/{name}", before, sha, before is not None))


class OwnRefs:
    """Creates, moves and deletes references that are neither branches nor tags; `refs/pull` is GitHub's own.

    Rulesets cover branches and tags alone, and no webhook reports others.
    """

    def __init__(self, context: Context, *, refs: Refs) -> None:
        self._context = context
        self._refs = refs

    def create(self, repository: Repository, name: str, sha: str, *, actor: Actor) -> None:
        """Create a reference. Raises Invalid when it exists, or no object has this name."""
        self._check(repository, name, actor)
        if repository.git.ref(name) is not None:
            raise Invalid("Reference already exists")
        self._set(repository, name, sha)

    def update(self, repository: Repository, name: str, sha: str, *, actor: Actor, force: bool = False) -> None:
        """Move a reference. Raises Invalid when it does not exist, or would go back without `force`."""
        self._check(repository, name, actor)
        git, before = repository.git, repository.git.ref(name)
        if before is None:
            raise Invalid("Reference does not exist")
        commits = git.object_type(sha) == git.object_type(before) == "commit"
        if not force and not (commits and git.is_ancestor(before, sha)):
            raise Invalid("Update is not a fast forward")
        self._set(repository, name, sha)

    def delete(self, repository: Repository, name: str, *, actor: Actor) -> None:
        """Delete a reference. Raises Invalid when it does not exist."""
        self._check(repository, name, actor)
        if repository.git.ref(name) is None:
            raise Invalid("Reference does not exist")
        repository.git.delete_ref(name)

    def _check(self, repository: Repository, name: str, actor: Actor) -> None:
        self._refs.check_access(repository, actor)
        if self._context.behaviour.own_refs == "none" or name.startswith("pull/"):
            raise Invalid("Reference update failed")

    def _set(self, repository: Repository, name: str, sha: str) -> None:
        if repository.git.object_type(sha) is None:
            raise Invalid("Object does not exist")
        try:
            repository.git.set_ref(name, sha)
        except (ValueError, GitError) as error:
            raise Invalid(f"refs/{name} is not a valid ref name.") from error
