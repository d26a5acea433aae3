"""`imq audit`: check by git alone that each landing is its base plus its pull request."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from bot.cli.clone.history import History, HistoryError
from bot.cli.clone.landings import WRONG, Kind, Landing, Verdict, judge
from bot.cli.clone.report_page import report_page, write_page
from bot.cli.console import ExitCode, Progress, echo, echo_json, json_option, page_option, stop
from bot.logs.printable import on_one_line

WORDS = {
    Verdict.EQUAL: "equal",
    Verdict.DIFFERS: "differ",
    Verdict.REVERTS: "revert others",
    Verdict.PUSHED: "pushed directly",
    Verdict.UNKNOWN: "cannot tell",
}
_FILES, _PUSHES, _SUBJECT = 10, 10, 72

_FETCH = "git fetch origin '+refs/pull/*/head:refs/remotes/origin/pr/*'"


@click.command()
@click.argument("range_", metavar="[RANGE]", default="HEAD")
@json_option
@page_option
def audit(range_: str, as_json: bool, page: Path | None) -> None:
    """Check that each landing of a clone is its base plus its pull request.

    It needs git alone: no GitHub App, no database, no account. RANGE is git's, such as `v1.0..main`. The default is all
    of HEAD. The first parents count. The exit code is 1 if a landing differs or reverts others.
    """
    try:
        with History() as history:
            total, heads = history.count(range_), len(history.heads)
            if not as_json:
                echo(f"{counted(total, 'landing')} of {on_one_line(range_)}, {counted(heads, 'pull request')} known.")
            landings = []
            with Progress(total) as progress:
                for landing in judge(history, range_):
                    landings.append(landing)
                    if landing.verdict in WRONG and not as_json:
                        progress.clear()
                        echo("\n".join(_lines(landing)))
                    progress.step()
            summary = summarize(landings, range_, heads, history.git_version)
    except HistoryError as error:
        stop(ExitCode.USAGE, str(error))
    except KeyboardInterrupt:
        stop(ExitCode.INTERRUPTED, "Stopped.")
    if page is not None:
        write_page(page, report_page(landings, summary))
    if as_json:
        echo_json({"landings": [each.as_json() for each in landings], "summary": summary})
    else:
        echo("\n".join(_end(landings, heads)))
    if any(each.verdict in WRONG for each in landings):
        sys.exit(int(ExitCode.FAILED))


def summarize(landings: Sequence[Landing], range_: str, heads: int, git: str) -> dict[str, Any]:
    """Return the figures of an audit, and the reason of each verdict but `equal`, by its commit."""
    verdicts, kinds = Counter(each.verdict for each in landings), Counter(each.kind for each in landings)
    return {
        "range": range_,
        "git": git,
        "pull_requests": heads,
        "landings": len(landings),
        "verdicts": {each.value: verdicts[each] for each in Verdict},
        "kinds": {each.value: kinds[each] for each in Kind},
        "reasons": {each.commit.sha: each.reason for each in landings if each.reason},
    }


def _lines(landing: Landing) -> Iterator[str]:
    """Yield a landing as a heading, its reason and its files."""
    subject = on_one_line(landing.commit.subject)
    shown = subject if len(subject) <= _SUBJECT else f"{subject[: _SUBJECT - 1]}…"
    number = f"#{landing.pull_request}" if landing.pull_request else ""
    yield f"\n{landing.verdict.value:8} {landing.commit.sha[:12]}  {landing.kind.value:6}  {number:7} {shown}".rstrip()
    yield f"         {landing.reason}"
    yield from (f"           {on_one_line(each)}" for each in landing.files[:_FILES])
    if len(landing.files) > _FILES:
        yield f"           and {len(landing.files) - _FILES} more files"


def _end(landings: Sequence[Landing], heads: int) -> Iterator[str]:
    """Yield what needs no alarm, and the figures."""
    pushes = [each for each in landings if each.verdict is Verdict.PUSHED]
    if pushes:
        newest = f", the newest {_PUSHES}" if len(pushes) > _PUSHES else ""
        yield f"\nPushed directly: {len(pushes):,}{newest}"
        yield from (
            f"  {each.commit.sha[:12]}  {on_one_line(each.commit.subject)[:_SUBJECT]}" for each in pushes[:_PUSHES]
        )
    unknown = [each for each in landings if each.verdict is Verdict.UNKNOWN]
    if unknown:
        yield f"\nCannot tell: {len(unknown):,}"
        for (kind, reason), number in Counter((each.kind.value, each.reason) for each in unknown).most_common():
            example = next(each.commit.sha[:12] for each in unknown if (each.kind.value, each.reason) == (kind, reason))
            yield f"  {number:6,}  {kind:6}  {reason}, such as {example}"
    if not heads:
        yield f"\nTo check squash and rebase landings too, get the pull requests: {_FETCH}"
    counts = Counter(each.verdict for each in landings)
    found = [f"{counts[each]:,} {WORDS[each]}" for each in Verdict if counts[each]]
    yield f"\n{counted(len(landings), 'landing')}: {', '.join(found)}."


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
