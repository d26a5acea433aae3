"""A check that did not pass, with the link that people follow and the jobs that failed."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class FailingCheck:
    """A failing check; for GitHub Actions one for each workflow run, with the names of its failed jobs."""

    check: str
    url: str | None
    """The link of the workflow run, or of the check; not trusted, but it begins with `http`."""
    jobs: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return the check as data of an event."""
        return asdict(self) | {"jobs": list(self.jobs)}

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Self:
        """Read a check from the data of an event."""
        return cls(data["check"], data["url"], tuple(data["jobs"]))

    @classmethod
    def all_of(cls, data: Mapping[str, Any]) -> tuple[Self, ...]:
        """Read the failing checks of an event, if it has any."""
        return tuple(map(cls.of_data, data.get("failing") or ()))


def as_data(failing: Iterable[FailingCheck]) -> list[dict[str, Any]]:
    """Return failing checks as data of an event."""
    return [each.as_data() for each in failing]
