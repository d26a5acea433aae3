"""A finding of `imq doctor`: plain data for people and programs."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of an installation, with its effect and its remedy."""

    code: str
    subject: str
    """`IMQ`, `App`, or a repository with its owner."""
    finding: str
    impact: str
    remedy: str
    link: str
    """The page of IMQ's documents with more, from the root of its repository."""

    def as_json(self) -> dict[str, Any]:
        """Return the finding as JSON data."""
        return asdict(self)

    def as_text(self) -> str:
        """Return the finding as text."""
        lines = (f"{self.subject}: {self.finding}", f"Effect: {self.impact}", f"Remedy: {self.remedy}", self.link)
        return "\n  ".join(lines)
