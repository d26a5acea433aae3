"""Read `IMQ_SINKS`: YAML, inline or the path of its file. Faults name entry and line, and never quote an address."""

import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from bot.settings.setting_values import is_private
from notifications.sinks.sink import DEFAULT_EVENTS, EventKind, Sink, SinkKind, key_of
from queue_engine.config.document import ConfigError, Document, Problem, nearest, parse
from queue_engine.config.patterns import branch_pattern

MOST_SINKS = 50

_KEYS = ("name", "slack", "webhook", "secret", "repositories", "branches", "events")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}")
_INLINE = re.compile(r"\s*[-\[{#]|.*\n", re.DOTALL)
"""What begins a list of YAML, or has several lines; all else is a path."""
_REPOSITORY = re.compile(r"[^/\s]+/[^/\s]+")

_WANTED = [each for each in EventKind if each is not EventKind.TEST]


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _url(value: SecretStr) -> SecretStr:
    """Check an address. Raises ValueError; no message repeats it."""
    text = value.get_secret_value().strip()
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("is no URL") from None
    if parts.scheme not in ("http", "https") or not host or not text.isprintable() or " " in text:
        raise ValueError("must be a URL that begins with https://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a user or a password: the signature proves that IMQ sent a message")
    if parts.scheme == "http" and not is_private(host):
        raise ValueError("is plain http, over which others read the messages: write https://")
    return SecretStr(text)


def _secret(value: SecretStr) -> SecretStr:
    key_of(value.get_secret_value())
    return value


def _repository(value: str) -> str:
    if not _REPOSITORY.fullmatch(value):
        raise ValueError("must be a pattern of OWNER/NAME, such as acme/* or acme/rocket")
    return branch_pattern(value)


def _event(value: Any) -> Any:
    if not isinstance(value, str) or value not in _WANTED:
        raise ValueError(f"is no kind of event{nearest(str(value), _WANTED)}; kinds: {', '.join(_WANTED)}")
    return value


_Url = Annotated[SecretStr, AfterValidator(_url)]
_Secret = Annotated[SecretStr, AfterValidator(_secret)]
_Event = Annotated[EventKind, BeforeValidator(_event)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)

    name: str = Field(pattern=f"^{_NAME.pattern}$")
    slack: _Url | None = None
    webhook: _Url | None = None
    secret: Annotated[list[_Secret], BeforeValidator(_several), Field(max_length=3)] = []
    repositories: Annotated[
        list[Annotated[str, AfterValidator(_repository)]], BeforeValidator(_several), Field(min_length=1)
    ]
    branches: Annotated[
        list[Annotated[str, AfterValidator(branch_pattern)]], BeforeValidator(_several), Field(min_length=1)
    ] = ["**"]
    events: Annotated[list[_Event], BeforeValidator(_several), Field(min_length=1)] = list(DEFAULT_EVENTS)

    @model_validator(mode="after")
    def _one_receiver(self) -> "_Entry":
        if (self.slack is None) == (self.webhook is None):
            raise ValueError("needs either slack or webhook, with the address of its receiver")
        if self.slack is not None and self.secret:
            raise ValueError("has a secret, which is for webhooks: Slack verifies no signature")
        if self.webhook is not None and not self.secret:
            raise ValueError("needs a secret, with which its receiver verifies the messages")
        return self

    def sink(self) -> Sink:
        """Return the sink as plain data."""
        address = self.slack or self.webhook
        assert address is not None
        return Sink(
            name=self.name,
            kind=SinkKind.WEBHOOK if self.slack is None else SinkKind.SLACK,
            url=address.get_secret_value(),
            repositories=tuple(self.repositories),
            branches=tuple(self.branches),
            events=frozenset(self.events),
            keys=tuple(key_of(each.get_secret_value()) for each in self.secret),
        )


def read_sinks(value: Any) -> Any:
    """Return the sinks of the setting. Raises ValueError, whose message names entry and line of each fault."""
    if not isinstance(value, str):
        return value
    text = value if _INLINE.match(value) else _read(value.strip())
    try:
        document = parse(text)
        return _sinks(document)
    except ConfigError as error:
        raise ValueError("; ".join(["has faults", *map(str, error.problems)])) from None


def _read(path: str) -> str:
    # An address that was meant to be inline would be quoted.
    named = path if "://" not in path else "the given path"
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise ValueError(f"names a file that cannot be read: {named}; give YAML, or the path of its file") from None


def _sinks(document: Document) -> tuple[Sink, ...]:
    """Return the sinks. Raises ConfigError."""
    entries, problems = document.value or [], list(document.problems)
    if not isinstance(entries, list):
        raise ConfigError([Problem(1, "", "Write a list, whose entries begin with `- name:`.")])
    if len(entries) > MOST_SINKS:
        raise ConfigError([Problem(1, "", f"There are {len(entries)} entries, and {MOST_SINKS} are the most.")])
    found: list[Sink] = []
    for index, entry in enumerate(entries):
        try:
            found.append(_Entry.model_validate(entry).sink())
        except ValidationError as error:
            problems += _problems(document, index, entry, error)
    for index, sink in enumerate(found):
        if any(other.name.casefold() == sink.name.casefold() for other in found[:index]):
            problems.append(Problem(document.line((index, "name")), _place(index, sink.name), "has a name of another"))
    if problems:
        raise ConfigError(problems)
    return tuple(found)


def _problems(document: Document, index: int, entry: Any, error: ValidationError) -> list[Problem]:
    name = entry.get("name") if isinstance(entry, dict) else None
    place = _place(index, name)
    return [
        Problem(document.line((index, *each["loc"])), place, _sentence(each["loc"], each["type"], each["msg"]))
        for each in error.errors(include_url=False, include_input=False)
    ]


def _place(index: int, name: Any) -> str:
    # A name that is none could be an address.
    return f"entry {index + 1}{f' ({name})' if isinstance(name, str) and _NAME.fullmatch(name) else ''}:"


def _sentence(loc: tuple[int | str, ...], kind: str, message: str) -> str:
    key = str(loc[0]) if loc else ""
    if kind == "extra_forbidden":
        return f"has a key that IMQ does not know{nearest(key, _KEYS)}"
    if kind == "missing" and key == "repositories":
        return 'names no repositories: write repositories: [acme/*], or ["*/*"] for all that the App sees'
    if kind == "missing":
        return f"has no {key}"
    if key == "name":
        return "needs a name of at most 50 letters, digits, dots, dashes and underscores"
    if kind == "value_error":
        return f"{key} {message.removeprefix('Value error, ')}".strip()
    return f"{key}: {message}" if key else "must be a list of keys and values"


Sinks = Annotated[tuple[Sink, ...], BeforeValidator(read_sinks)]
"""The setting: YAML, which becomes sinks."""
