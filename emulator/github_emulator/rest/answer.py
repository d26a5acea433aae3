"""What an endpoint answers, and who may call it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["read", "triage", "write", "maintain", "admin"]
Who = Literal["anyone", "app", "installation", "repository"]


@dataclass(frozen=True)
class Answer:
    """What an endpoint answers. A None body is an answer without content."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Access:
    """Who may call an endpoint.

    `who`: anyone; an app by its JWT; an installation by its token; or anyone who can see the repository in the path.
    `needs`: for installations, permissions of which one suffices ("issues=write"); `role`: for people.
    """

    who: Who = "repository"
    needs: tuple[str, ...] = ("metadata=read",)
    role: Role = "read"

    @property
    def accepted(self) -> str:
        """The value of X-Accepted-GitHub-Permissions."""
        return "; ".join(self.needs)
