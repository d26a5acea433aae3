"""Endpoints as data: method, path, who may call it, and the function that answers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from github_emulator.rest.answer import Access, Answer, Role
from github_emulator.rest.call import Call

REPOSITORY = "/repos/{owner}/{repo}"
Resource = Literal["core", "graphql"]


Handler = Callable[[Call], Answer]


@dataclass(frozen=True)
class Route:
    """One endpoint. `creates` says that it counts as creating content; `docs` is its page in the REST reference.

    `resource` is the limit that it costs of: GraphQL has one of its own.
    """

    method: str
    path: str
    handler: Handler
    access: Access
    docs: str
    creates: bool = False
    resource: Resource = "core"

    @property
    def template(self) -> str:
        """Method and path, for example "PUT /repos/{owner}/{repo}/pulls/{number}/merge"."""
        return f"{self.method} {self.path}"

    @property
    def prefixes(self) -> tuple[str, str]:
        """Where it is below github.com's API and below a host of Enterprise Server, whose GraphQL is no part of v3."""
        return ("", "/api/v3") if self.resource == "core" else ("", "/api")

    @property
    def paths(self) -> list[str]:
        """Where the endpoint is found, as patterns: repositories go by name and by id, as in GitHub's page links."""
        if not self.path.startswith(REPOSITORY):
            return [_pattern(self.path)]
        rest = _pattern(self.path.removeprefix(REPOSITORY))
        return [REPOSITORY + rest, "/repositories/{repository_id}" + rest]


@dataclass
class Routes:
    """The endpoints of one noun; `docs` is its page in the REST reference, and `#anchor` an endpoint's place there."""

    docs: str
    _routes: list[Route] = field(default_factory=list)

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def add(
        self,
        method: str,
        path: str,
        access: Access,
        *,
        docs: str = "",
        creates: bool = False,
        resource: Resource = "core",
    ) -> Callable[[Handler], Handler]:
        """Declares the decorated function as the endpoint's answer."""
        page = self.docs + docs if docs.startswith("#") else docs or self.docs

        def declare(handler: Handler) -> Handler:
            self._routes.append(Route(method, path, handler, access, page, creates, resource))
            return handler

        return declare

    def repository(
        self,
        method: str,
        path: str,
        *needs: str,
        role: Role = "read",
        docs: str = "",
        creates: bool = False,
    ) -> Callable[[Handler], Handler]:
        """An endpoint below `/repos/{owner}/{repo}`; `needs` are permissions, of which one suffices."""
        access = Access("repository", needs or ("metadata=read",), role)
        return self.add(method, REPOSITORY + path, access, docs=docs, creates=creates)


def _pattern(path: str) -> str:
    """Names of branches, refs and files may hold slashes; the template shows them as one word."""
    for name in ("basehead", "branch", "ref", "path"):
        path = path.replace(f"{{{name}}}", f"{{{name}:.+}}")
    return path
