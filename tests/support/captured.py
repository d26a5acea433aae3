"""The log as operators get it, caught for a test: `bot.logs.configure` as it is, at debug level, one JSON object per
line."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from bot.logs.configure import configure
from queue_engine.core.timing.clock import Clock


class Log:
    """What was written so far."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        """Everything, as written."""
        return self.stream.getvalue()

    def lines(self, **fields: Any) -> list[dict[str, Any]]:
        """The lines in which these fields have these values, oldest first."""
        parsed = map(json.loads, self.text.splitlines())
        return [line for line in parsed if all(line.get(name) == value for name, value in fields.items())]


@contextmanager
def captured(level: str = "debug", clock: Clock | None = None) -> Iterator[Log]:
    """Catch the log; what was configured before is back afterwards."""
    root, before = logging.getLogger(), structlog.get_config()
    handlers, root_level = root.handlers[:], root.level
    log = Log()
    configure(level, "json", log.stream, clock)
    try:
        yield log
    finally:
        root.handlers[:] = handlers
        root.setLevel(root_level)
        structlog.configure(**before)
