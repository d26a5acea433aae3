"""The App's manifest, `app.yml`: what the demo and the tests register the sandbox's App from."""

from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "app.yml"

Value = str | bool
Section = dict[str, Value] | list[Value]


class NotUnderstood(Exception):
    """A line of the manifest is beyond the plain mappings and lists that it is made of."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an App is registered with. `content` is all of it, as GitHub's manifest flow takes it."""

    permissions: dict[str, str]
    events: tuple[str, ...]
    content: dict[str, Value | Section]


def read_manifest(path: Path = PATH) -> Manifest:
    """The manifest in this file. Raises NotUnderstood, and OSError when there is no such file."""
    content = parse(path.read_text())
    permissions, events = content["default_permissions"], content["default_events"]
    if not isinstance(permissions, dict) or not isinstance(events, list):
        raise NotUnderstood("default_permissions is a mapping, and default_events a list")
    return Manifest({name: str(level) for name, level in permissions.items()}, tuple(map(str, events)), content)


def parse(text: str) -> dict[str, Value | Section]:
    """The part of YAML that a manifest needs: scalars, and mappings and lists of scalars one level deep."""
    content: dict[str, Value | Section] = {}
    open_key = ""
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if line.startswith("  "):
            content[open_key] = _with(content.get(open_key), stripped)
            continue
        key, value = _pair(line)
        if key in content:
            raise NotUnderstood(f"{key} stands there twice")
        open_key = key if value is None else ""
        if value is not None:
            content[key] = value
    return content


def _with(section: Value | Section | None, line: str) -> Section:
    if line.startswith("- ") and (section is None or isinstance(section, list)):
        return [*(section or []), _scalar(line.removeprefix("- "))]
    key, value = _pair(line)
    if value is None or isinstance(section, str | bool | list):
        raise NotUnderstood(line)
    return {**(section or {}), key: value}


def _pair(line: str) -> tuple[str, Value | None]:
    key, colon, rest = line.partition(":")
    if not colon or not key.replace("_", "").isalpha() or (rest and not rest.startswith(" ")):
        raise NotUnderstood(line)
    return key, _scalar(rest.strip()) if rest.strip() else None


def _scalar(text: str) -> Value:
    # Anything that YAML might read differently than it looks is refused.
    if text[0] in "\"'[]{}&*!|>%@`?" or " #" in text or ": " in text:
        raise NotUnderstood(text)
    return text == "true" if text in ("true", "false") else text
