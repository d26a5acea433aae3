"""Exit codes of the commands for authors, by outcome."""

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended. `docs/command-line.md` lists the same; a test compares both."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DEQUEUED = 3
    REFUSED = 4
    NOT_ALLOWED = 5
    UNREACHABLE = 6
    TIMED_OUT = 7
    BUSY = 8
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.DONE: "it landed; without `--wait` it is queued; the command printed what was asked for",
    ExitCode.FAILED: "it was ejected: a check failed, or it conflicts",
    ExitCode.USAGE: "the command cannot run here: wrong options, no clone, no pull request, other local commits",
    ExitCode.DEQUEUED: "it was dequeued: by a person, a push, a close, or another base branch",
    ExitCode.REFUSED: "IMQ refuses to queue it, and says why",
    ExitCode.NOT_ALLOWED: "not logged in, or not allowed here",
    ExitCode.UNREACHABLE: "IMQ did not answer, or could not",
    ExitCode.TIMED_OUT: "`--timeout` ended the wait; the pull request stays queued",
    ExitCode.BUSY: "the queue is full, or the caller made too many calls; try again later",
    ExitCode.INTERRUPTED: "Ctrl-C ended the wait; the pull request stays queued",
}
