"""Write the text of an issue about a flaky check, job or test, for people to file. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from notifications.render.escape import code, duration
from notifications.render.status import job_text
from queue_engine.queries.queue_statistics import QueueStatistics, RerunCount
from queue_engine.store.departures import FlakyKind

_LISTED_FOR = timedelta(days=14)
_MOST_TESTS = 10
_ADD = "can rerun it twice more. Add to"


@dataclass(frozen=True, slots=True)
class FlakeIssue:
    """The title and the body of an issue, in GitHub's Markdown; of that a title has code spans, and no entities."""

    title: str
    body: str


def flake_issue(found: QueueStatistics, kind: FlakyKind, name: str) -> FlakeIssue | None:
    """Return the text for a flaky check, job or test of these statistics; None if they have no flake of it."""
    counts = {"check": found.flaky_checks, "job": found.flaky_jobs, "test": found.flaky_tests}[kind]
    count = next((each for each in counts if each.name == name and each.first_day is not None), None)
    if count is None:
        return None
    return FlakeIssue(f"Flaky {kind}: {code(name)}", "\n\n".join(_paragraphs(found, count, kind)))


def _paragraphs(found: QueueStatistics, count: RerunCount, kind: FlakyKind) -> Iterator[str]:
    where = "" if found.repository is None else f" in the merge queue of {code(str(found.base_branch))}"
    yield f"The {kind} {code(count.name)} failed{where}, and passed later on the same tree: the change was good."
    yield "\n".join(f"- {line}" for line in _facts(found, count))
    if kind == "check" and found.flaky_tests:
        named = ", ".join(code(each.name) for each in found.flaky_tests[:_MOST_TESTS])
        yield f"Tests that failed in flakes of this queue: {named}."
    if kind == "check":
        until = found.last + _LISTED_FOR
        is_listed = count.listed_until is not None and count.listed_until >= found.last
        how = "reruns it twice more, until that day. To list it for longer, change"
        yield (
            f"Until somebody fixes it, the merge queue {how if is_listed else _ADD} `.github/imq.yml`:\n\n"
            f"```yaml\nchecks:\n  flaky:\n    - {{name: {_quoted(count.name)}, until: {until}}}\n```"
        )


def _facts(found: QueueStatistics, count: RerunCount) -> Iterator[str]:
    yield f"Period: {found.first} to {found.last}; first flake on {count.first_day}."
    if count.runs and count.rate is not None:
        yield f"Failures: {count.failures} in {count.runs} runs on good changes. Estimated rate: {count.rate:.1%}."
    people = "" if count.people is None else f", by {count.people} author{'' if count.people == 1 else 's'}"
    yield f"Delayed pull requests: {count.pulls}{people}; {count.pulls_before} in the period before."
    if count.waited:
        yield f"Waiting time: {duration(timedelta(seconds=count.waited))}."
    if count.ci_seconds is not None:
        yield f"CI time of the failed runs: {duration(timedelta(seconds=count.ci_seconds))}."
    if count.jobs is not None:
        yield f"They cost {job_text(count.jobs)}."
    if count.listed_until is not None:
        yield f"Listed as flaky until {count.listed_until}."


def _quoted(name: str) -> str:
    """Return a name as YAML reads it."""
    escaped = "".join(each if each.isprintable() else " " for each in name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
