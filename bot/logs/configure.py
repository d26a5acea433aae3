"""Configure logging: every line structured, with its trace and delivery, and without secrets."""

import io
import logging
import re
import sys
import textwrap
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from bot.logs.printable import on_one_line, printable
from queue_engine.core.database.outage import fault_of
from queue_engine.core.observability import trace
from queue_engine.core.timing.clock import Clock, SystemClock
from queue_engine.domain.errors import GitHubError, Invalid

_BETWEEN = timedelta(minutes=1)


class LogThrottle:
    """Counts equal lines between those that are logged. Their texts must be few, because all are kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._suppressed: dict[str, tuple[datetime, int]] = {}

    def count(self, line: str) -> int | None:
        """Return how many such lines were suppressed since the last one; None if this one is suppressed, too."""
        now = self._clock.now()
        written, repeats = self._suppressed.get(line, (now - _BETWEEN, 0))
        if timedelta(0) <= now - written < _BETWEEN:
            self._suppressed[line] = written, repeats + 1
            return None
        self._suppressed[line] = now, 0
        return repeats


_MASK = "[secret]"

_SECRETS: Sequence[tuple[re.Pattern[str], str]] = (
    # A private key, with real or escaped newlines, also if it is truncated.
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL), _MASK),
    (re.compile(r"\bgh[a-z]_[A-Za-z0-9_]{4,}"), _MASK),
    (re.compile(r"\bgithub_pat_\w+"), _MASK),
    (re.compile(r"\bimq_[\w-]{40,}"), _MASK),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), _MASK),
    (re.compile(r"(?i)\b(bearer|token) +(?!\[secret\])[\w.~+/=-]{12,}"), rf"\1 {_MASK}"),
    (re.compile(r"(://[^:/@\s\"']*:)[^@/\s\"']+(?=@)"), rf"\1{_MASK}"),
)


def mask(text: str) -> str:
    """Mask everything in `text` that looks like a GitHub token, a JWT, a private key or a URL's password."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def mask_rendered(_logger: WrappedLogger, _method: str, rendered: str) -> str:
    """Mask the rendered line, as the last processor, so that no value or traceback is left out."""
    return mask(rendered)


_OWN = frozenset({"imq", "bot", "notifications", "queue_engine"})
"""Prefixes of IMQ's own loggers."""

_VERBOSE_LIBRARIES = ("aiosqlite", "asyncio")
"""Libraries whose debug lines have every statement with its values, or are useless to an operator."""


def configure(
    level: str = "info", log_format: str | None = None, stream: TextIO | None = None, clock: Clock | None = None
) -> None:
    """Send structlog's and the standard library's records to `stream`, the standard error if None.

    `log_format` is `json` or `console`; None means console on a terminal, else json. Above the level debug, a fault of
    the database is a line a minute by `clock`.
    """
    stream = stream or sys.stderr
    console = log_format == "console" or (log_format is None and stream.isatty())
    shared: list[Processor] = [
        _summarize_faults,
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        _lower_level,
        structlog.stdlib.add_logger_name,
        _add_component_and_trace,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[*_rendering(console), mask_rendered],  # type: ignore[list-item]
        )
    )
    if level != "debug":
        handler.addFilter(_OutageFilter(clock or SystemClock()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Alembic logs its own plugins, which is useless to an operator. It also logs every revision: on an empty database
    # these lines would hide the few that tell an operator whether the first start went well.
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)
    logging.getLogger("alembic.runtime.migration").setLevel(logging.NOTSET if level == "debug" else logging.WARNING)
    # It raises an error of a statement, and warns of what follows from it: a line for each transaction of an outage.
    logging.getLogger("psycopg").setLevel(logging.NOTSET if level == "debug" else logging.ERROR)
    for name in _VERBOSE_LIBRARIES:
        logging.getLogger(name).setLevel(logging.INFO)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


class _OutageFilter(logging.Filter):
    """Lets one line a minute pass for each fault of the database, and as many about loops that recovered."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._throttle = LogThrottle(clock)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write the line; it gets the number of lines that were left out since the last one."""
        event = record.msg if isinstance(record.msg, dict) else {}
        error = record.exc_info[1] if record.exc_info else None
        if (fault := event.get("fault") or fault_of(error)) is None:
            return True
        repeats = self._throttle.count(f"{fault} {'recovers' if record.levelno <= logging.INFO else 'fails'}")
        if repeats:
            event["repeats"] = repeats
        return repeats is not None


def _summarize_faults(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace the traceback of a fault of the database or GitHub by a sentence, but not of invalid requests."""
    given = event.get("exc_info")
    error = given[1] if isinstance(given, tuple) else given if isinstance(given, BaseException) else sys.exc_info()[1]
    if given and (fault := fault_of(error)) is not None:
        event["exc_info"] = None
        event.setdefault("error", str(error).partition("\n")[0])
        event.update(fault=fault.value, advice=fault.sentence)
    elif given and isinstance(error, GitHubError) and not (isinstance(error, Invalid) or type(error) is GitHubError):
        event["exc_info"] = None
        event.setdefault("error", f"{type(error).__name__}: {error.message}")
    return event


def _lower_level(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Make a fault of the database a warning: errors in the log mean that IMQ itself is at fault."""
    if "fault" in event and event["level"] == "error":
        event["level"] = "warning"
    return event


def _add_component_and_trace(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add the component or library of the line, and the ids of its trace."""
    names = str(event["logger"]).split(".")
    event.setdefault("component", names[-1] if names[0] in _OWN else names[0])
    event.update(trace.ids())
    return event


def _rendering(console: bool) -> list[Processor]:
    without_meta: Processor = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if console:
        renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=_indented_traceback)
        return [without_meta, _values_on_one_line, renderer, _without_control_characters]  # type: ignore[list-item]
    return [without_meta, structlog.processors.format_exc_info, _event_first, structlog.processors.JSONRenderer()]


def _indented_traceback(stream: TextIO, exc_info: ExcInfo) -> None:
    """Write a plain traceback: the pretty ones print local variables, including secrets."""
    plain = io.StringIO()
    structlog.dev.plain_traceback(plain, exc_info)
    stream.write(textwrap.indent(plain.getvalue(), "  "))


def _values_on_one_line(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Remove line breaks from values, which could look like another event."""
    for key, value in event.items():
        if isinstance(value, str) and key not in ("exception", "stack"):
            event[key] = on_one_line(value)
    return event


def _without_control_characters(_logger: WrappedLogger, _method: str, rendered: str) -> str:
    """Escape control characters of foreign text, such as branch names in errors."""
    return printable(rendered)


def _event_first(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Move the event to the start of the line."""
    return {"event": event.pop("event", ""), **event}
