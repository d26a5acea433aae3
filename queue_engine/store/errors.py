"""What the store refuses. A stale version is `queue_engine.errors.StaleVersion`."""

from queue_engine.errors import EngineError


class DuplicateEntry(EngineError):
    """This pull request stands in a queue already."""
