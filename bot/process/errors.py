"""Why a process cannot start: one sentence with the way out, which the command line prints."""


class StartRefused(Exception):
    """A process cannot start. The message says why, and what the operator does about it."""


class NotMigrated(StartRefused):
    """The database has the tables of another version, older or newer."""

    def __init__(
        self, message: str = "The database is empty or older than this version: run `imq migrate` first."
    ) -> None:
        super().__init__(message)


class NotListening(StartRefused):
    """The web process cannot listen on its address and port."""


class FileRefused(StartRefused):
    """SQLite's file cannot be created or written, or another process runs on it."""
