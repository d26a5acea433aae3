"""Figures of a run: requests per merged pull request, and reaction times. Pure, over the emulator's record."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from github_emulator import CheckRun, CommitStatus, RecordedCall

MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"


def merge_requests(requests: Iterable[RecordedCall]) -> dict[int, datetime]:
    """Return when the successful merge of each pull request was requested, by number."""
    return {
        int(exchange.path.rsplit("/", 2)[1]): exchange.at
        for exchange in requests
        if exchange.template == MERGE and exchange.applied == 200
    }


def refused(requests: Iterable[RecordedCall]) -> list[str]:
    """List the routes that GitHub refused with 401 or 403, each once: `app.yml` may lack a permission."""
    found = (f"{exchange.status} for {exchange.template}" for exchange in requests if exchange.status in (401, 403))
    return list(dict.fromkeys(found))


def requests_by_pull(requests: Iterable[RecordedCall], known: Mapping[str, int]) -> Counter[int]:
    """Count the requests of each pull request, as far as a request names one.

    `known` has the pull request of each commit, comment and check run, by SHA or id.
    """
    numbers = (_number(exchange, known) for exchange in requests)
    return Counter(number for number in numbers if number is not None)


def _number(exchange: RecordedCall, known: Mapping[str, int]) -> int | None:
    if named := re.search(r"/(?:pulls|issues)/(\d+)", exchange.path):
        return int(named[1])
    body = exchange.body if isinstance(exchange.body, dict) else {}
    keys = [*re.findall(r"[0-9a-f]{40}", exchange.path), exchange.path.rsplit("/", 1)[1], str(body.get("head_sha"))]
    return next((known[key] for key in keys if key in known), None)


def last_report(runs: Iterable[CheckRun], statuses: Iterable[CommitStatus], required: Iterable[str]) -> datetime | None:
    """Return when the last of these checks was reported on a head; None if none was."""
    names = set(required)
    times = [run.completed_at for run in runs if run.name in names and run.completed_at]
    times += [status.created_at for status in statuses if status.context in names and status.state != "pending"]
    return max(times, default=None)


def reactions(
    merges: dict[int, datetime], reports: dict[int, datetime], waiting_since: dict[int, datetime], speed: float
) -> list[timedelta]:
    """Return how long, in real time, each merge request came after the last required check, if that was reported while
    the pull request was at the front."""
    return [
        (merged - reports[number]) / speed
        for number, merged in sorted(merges.items(), key=lambda item: item[1])
        if number in reports and reports[number] > waiting_since[number]
    ]


def per_merge(count: int, merged: int) -> str:
    """Format the requests per merged pull request."""
    return f"{count / merged:.1f}" if merged else "-"


def median(times: Sequence[timedelta]) -> timedelta | None:
    """Return the median; None of an empty sequence."""
    return sorted(times)[len(times) // 2] if times else None
