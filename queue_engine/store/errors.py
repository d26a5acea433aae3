"""Errors of the store. A stale version is `queue_engine.domain.errors.StaleRecord`."""

from queue_engine.domain.errors import EngineError


class EntryConflict(EngineError):
    """This pull request is queued already."""
