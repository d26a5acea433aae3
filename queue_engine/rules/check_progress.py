"""The progress of a run's checks: which have completed, when they ran, and how long they take. Pure.

The instants are GitHub's. `started_at` of a job of GitHub Actions may show when the job was queued
(strands-labs/robots #2509), so that these durations serve people and statistics, and decide nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any
from urllib.parse import urlsplit

from queue_engine.core.observability.progress import ProgressEvent, ProgressStatus
from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.model import Entry, EntryStatus, TimelineEvent
from queue_engine.domain.run import CheckTiming, Run
from queue_engine.domain.webhooks import CheckOutcome, CheckWebhook
from queue_engine.rules.checks import rerun_names, run_key
from queue_engine.rules.job_rates import JobFigures, figures_of_job, figures_of_run, minutes_of


def pending_checks(run: Run) -> tuple[str, ...]:
    """Return the checks that a run waits for, without those that have completed since the last poll."""
    return tuple(name for name in run.pending_checks if name not in run.completed_checks)


def tally(entry: Entry) -> tuple[int, int] | None:
    """Return how many checks have completed, of how many; None while IMQ does not know which checks it waits for."""
    if entry.status is not EntryStatus.CHECKING or not entry.run.pending_checks:
        return None
    return count_checks(entry.run)


def count_checks(run: Run) -> tuple[int, int]:
    """Return how many checks of a run have completed, of how many that IMQ knows."""
    ended = set(run.completed_checks)
    return len(ended), len(ended | set(run.pending_checks))


def run_progress(run: Run, status: ProgressStatus = ProgressStatus.IN_PROGRESS) -> ProgressEvent | None:
    """Return how far the checks of a run are, under the id of its candidate; None while IMQ knows of no check."""
    done, total = count_checks(run)
    if run.candidate is None or total == 0:
        return None
    return _event(run.candidate, status, total if status is ProgressStatus.COMPLETED else done, total)


def progress(before: Entry, after: Entry) -> ProgressEvent | None:
    """Return the progress event for this change of an entry, if more checks have completed."""
    was, now = tally(before), tally(after)
    if was is not None and after.status is EntryStatus.READY:
        now = (was[1], was[1])
    if now is None or now == was:
        return None
    status = ProgressStatus.COMPLETED if now[0] == now[1] else ProgressStatus.IN_PROGRESS
    return _event(after.id, status, *now)


def _event(correlation_id: str, status: ProgressStatus, done: int, total: int) -> ProgressEvent:
    return ProgressEvent(
        correlation_id=correlation_id,
        status=status,
        message=f"{done} of {total} checks have reported",
        done=done,
        total=total,
    )


MOST_CHECKS = 200
"""How many checks of one candidate are recorded."""

_LONGEST_LINK = 1000


def safe_link(url: str | None) -> str | None:
    """Return the address if it is one of the web, without credentials; anyone with write access sets these."""
    if url is None or len(url) > _LONGEST_LINK or not url.isascii() or not url.isprintable() or " " in url:
        return None
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it is what validates it
    except ValueError:
        return None
    is_web = parts.scheme in {"http", "https"} and parts.hostname and "@" not in parts.netloc
    return url if is_web and "\\" not in url else None


def with_reports(run: Run, reports: Iterable[CheckReport]) -> Run:
    """Record these reports on the candidate; a check run that IMQ asked GitHub to run again does not count."""
    shown = [_timing(report) for report in reports if run_key(report) not in run.rerun_checks]
    timings = {timing.name: timing for timing in run.timings}
    for timing in sorted(shown, key=_rank):
        others = [each for each in shown if each.name == timing.name and each is not timing and each.ended]
        minutes = sum(minutes_of(each, None, each.ended) for each in others if each.is_job and each.ended)
        timings[timing.name] = replace(timing, same_name=minutes or None)
    return _with(run, timings)


def with_webhook(run: Run, webhook: CheckWebhook) -> Run:
    """Record a check's report by webhook, which says when the check ended; a commit status has no start."""
    if not isinstance(webhook, CheckOutcome) or webhook.check_ended is None:
        return run
    name = webhook.check_name
    before = {timing.name: timing for timing in run.timings}
    known = before.get(name, CheckTiming(name))
    url, started = webhook.check_url or known.url, webhook.check_started or known.started
    minutes, job = known.same_name, webhook.by_actions or None
    if job and known.is_job and known.ended is not None and known.url != url:
        minutes = (minutes or 0) + minutes_of(known, None, known.ended)
    reported = CheckTiming(name, url, started, webhook.check_ended, webhook.passed, job, same_name=minutes)
    return _with(run, {**before, name: reported})


def without_reruns(run: Run) -> Run:
    """Forget the timings of checks that run again, but for the billed minutes of jobs."""
    again = set(rerun_names(run))
    kept = [_before_rerun(each) if each.name in again else each for each in run.timings]
    return replace(run, timings=tuple(each for each in kept if each is not None))


def _before_rerun(timing: CheckTiming) -> CheckTiming | None:
    if not timing.is_job or timing.ended is None:
        return None
    minutes = minutes_of(timing, None, timing.ended) + (timing.rerun_minutes or 0)
    return CheckTiming(timing.name, is_job=True, price=timing.price, rerun_minutes=minutes)


def rerun_seconds(before: Run, after: Run) -> dict[str, float]:
    """Return how long the checks took that now run again; these seconds are in no other event."""
    again, kept = set(rerun_names(after)), set(after.timings)
    ended = [each for each in before.timings if each.name in again and each.ended is not None and each not in kept]
    return {each.name: _seconds(each.started, each.ended) for each in ended if each.started and each.ended}


def rerun_jobs(before: Run, after: Run, share: float) -> dict[str, dict[str, Any]]:
    """Return what the jobs cost that now run again, by name, of which this share counts."""
    again, kept, prices = set(rerun_names(after)), set(after.timings), before.job_prices or {}
    return {
        each.name: asdict(figures_of_job(each, prices).times(share))
        for each in before.timings
        if each.name in again and each.is_job and each.ended is not None and each not in kept
    }


def check_data(entry: Entry, now: datetime, *, passed: bool = False) -> dict[str, Any]:
    """Return, as data of an event that ends a test, which commit was tested, and for how long by each check.

    Checks that still run count until now; where the tests `passed`, these do not matter, and are left out. Checks of
    IMQ's own update began with the status `checking`, if nothing else says when. Events of one commit repeat each
    other's seconds: the newest has all. `check_ended` says how many seconds before the event each check had ended.
    `run` is the run of a train, whose other members have the same seconds.
    """
    begun = checks_begun(entry)
    seconds: dict[str, float] = {}
    for timing in entry.run.timings:
        started, ended = timing.started or begun, timing.ended or (None if passed else now)
        if started is not None and ended is not None:
            seconds[timing.name] = _seconds(started, ended)
    if not seconds and not entry.run.job_prices:
        return {}
    ended_before = {each.name: _seconds(each.ended, now) for each in entry.run.timings if each.ended is not None}
    data: dict[str, Any] = {"tested": entry.run.candidate, "check_seconds": seconds, "check_ended": ended_before}
    if passed and (prices := {each.name: each.price for each in entry.run.timings if each.is_job}):
        data["job_prices"] = prices
    if entry.run.has_branch:
        # The run itself has the figures of its jobs.
        return {**data, "run": entry.run.id}
    return data | _job_data(*entry_figures(entry, now))


def checks_begun(entry: Entry) -> datetime | None:
    """Return when the checks of IMQ's own update began, if nothing else says when; None on a head of others."""
    return (entry.run.checks_since or entry.status_since) if entry.head_sha != entry.queued_head else None


def entry_figures(entry: Entry, now: datetime) -> tuple[JobFigures, JobFigures]:
    """Return what the jobs of an entry's own run cost, and what of that reruns replaced."""
    return figures_of_run(entry.run, now, begun=checks_begun(entry), since=entry.enqueued_at)


def train_figures(run: Run, now: datetime) -> tuple[JobFigures, JobFigures]:
    """Return the same of a run in a train."""
    return figures_of_run(run, now, begun=run.checks_since or run.published_at)


def job_data(run: Run, now: datetime) -> dict[str, Any]:
    """Return what the jobs of a run in a train cost, as data of an event."""
    return _job_data(*train_figures(run, now))


def _job_data(spent: JobFigures, reruns: JobFigures) -> dict[str, Any]:
    if not spent.minutes:
        return {}
    return {"jobs": asdict(spent), **({"rerun_jobs": asdict(reruns)} if reruns.minutes else {})}


def pending_at(event: TimelineEvent, at: datetime) -> tuple[str, ...]:
    """Return the checks that had not ended at an instant, by the event that ended their test; none if unknown."""
    seconds, ended = event.data.get("check_seconds"), event.data.get("check_ended")
    if not isinstance(seconds, dict) or not isinstance(ended, dict):
        return ()
    before = (event.at - at).total_seconds()
    return tuple(sorted(name for name in {*seconds, *ended} if ended.get(name, 0) < before))


def usual_seconds(events: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return how long each check usually takes: the median of these events' `check_seconds`."""
    # Imported when needed: it takes 200 kB, and a process at rest computes none.
    from statistics import median

    each: dict[str, list[float]] = {}
    for data in events:
        for name, seconds in (data.get("check_seconds") or {}).items():
            each.setdefault(name, []).append(seconds)
    return {name: median(durations) for name, durations in each.items()}


def _timing(report: CheckReport) -> CheckTiming:
    job = report.by_actions or None
    if report.state is CheckState.PENDING:
        started = report.started_at if report.started else None
        return CheckTiming(report.name, safe_link(report.url), started, is_job=job, price=report.price)
    passed = report.state is CheckState.PASSED
    # The instants of a status are those of its newest report.
    started = None if report.run_id is None else report.started_at
    ended = report.completed_at
    return CheckTiming(report.name, safe_link(report.url), started, ended, passed, job, report.price)


def _rank(timing: CheckTiming) -> tuple[bool, bool, str]:
    """Order reports of one name: of several Apps or events, one that runs counts before a failed one."""
    return timing.ended is None, timing.passed is False, timing.url or ""


def _with(run: Run, timings: Mapping[str, CheckTiming]) -> Run:
    before = {timing.name: timing for timing in run.timings}
    kept = [_merged(before.get(name), timings[name]) for name in sorted(timings)]
    return replace(run, timings=tuple(kept[:MOST_CHECKS]))


def _merged(before: CheckTiming | None, after: CheckTiming) -> CheckTiming:
    """Keep what a newer report of the same check does not say: the start of a commit status, and what a job costs."""
    if before is None:
        return after
    if before.is_job:
        price = before.price if after.price is None else after.price
        after = replace(after, is_job=True, price=price, rerun_minutes=before.rerun_minutes)
    if after.started is not None or before.ended not in {None, after.ended}:
        return after
    return replace(after, started=before.started)


def _seconds(started: datetime, ended: datetime) -> float:
    return max((ended - started).total_seconds(), 0.0)


_SHARE = 0.95
_TIMES = 3
_SHORTEST, _LONGEST = timedelta(minutes=10), timedelta(hours=24)


def check_limits_by(events: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many seconds each check may take, by the `check_seconds` of these events, which passed.

    That is three times the 95th percentile of its past durations, from ten minutes to a day.
    """
    each: dict[str, list[float]] = {}
    for data in events:
        for name, seconds in (data.get("check_seconds") or {}).items():
            each.setdefault(name, []).append(seconds)
    return {name: _limit(sorted(durations)) for name, durations in each.items()}


def _limit(durations: Sequence[float]) -> int:
    usual = timedelta(seconds=durations[ceil(_SHARE * len(durations)) - 1])
    return ceil(min(max(usual * _TIMES, _SHORTEST), _LONGEST).total_seconds())


def figures_of(entry: Entry, events: Iterable[TimelineEvent], now: datetime) -> dict[str, float]:
    """Return the durations of an entry that lands now, in seconds: in the queue, at its front, in its checks.

    `events` are those of its pull request, oldest first. The time in checks never exceeds the time at the front, even
    if checks ran while the queue was blocked.
    """
    front = now - (entry.run.started_at or now)
    figures = {
        "queue": now - entry.enqueued_at,
        "front": front,
        "checks": min(time_in_checks(events, entry.id), front),
    }
    return {name: figure.total_seconds() for name, figure in figures.items()}


def time_in_checks(events: Iterable[TimelineEvent], entry_id: str) -> timedelta:
    """Return how long an entry was in checks, all runs together; `events` of its pull request are oldest first.

    If checks passed, the event has the instant at which they completed, which may be long before IMQ's next read.
    """
    total, since = timedelta(0), None
    for event in events:
        if event.entry_id != entry_id or event.event not in set(EntryStatus):
            continue
        if since is not None:
            ended = event.data.get("ended")
            total += max(event.at if ended is None else datetime.fromisoformat(ended), since) - since
        since = event.at if event.event == EntryStatus.CHECKING else None
    return total
