"""Read the App's manifest, `app.yml`, from which the demo and the tests register the sandbox's App."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from queue_engine.config.document import parse

PATH = Path(__file__).resolve().parents[2] / "app.yml"


class InvalidManifest(Exception):
    """The manifest has not the form of an App's manifest."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of an App. `content` is all of it, as GitHub's manifest flow takes it."""

    permissions: dict[str, str]
    events: tuple[str, ...]
    content: dict[str, Any]


def read_manifest(path: Path = PATH) -> Manifest:
    """Read a manifest. Raises InvalidManifest, ConfigError for invalid YAML, and OSError without a file."""
    document = parse(path.read_text(encoding="utf-8"))
    content = document.value
    if document.problems or not isinstance(content, dict):
        raise InvalidManifest("a manifest is a mapping, in which each key stands once")
    permissions, events = content.get("default_permissions"), content.get("default_events")
    if not isinstance(permissions, dict) or not isinstance(events, list):
        raise InvalidManifest("default_permissions is a mapping, and default_events a list")
    return Manifest({name: str(level) for name, level in permissions.items()}, tuple(map(str, events)), content)
