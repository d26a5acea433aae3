"""What files of the past show: planted figures are found again, within their errors."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from benchmarks.scheduling.cells import Cell
from bot.cli.replay import arrivals, estimates
from bot.cli.replay.arrivals import Arrival, of_timeline
from bot.cli.replay.estimates import Estimate
from bot.cli.replay.history_files import FileError, Timeline, read_checks, read_timeline
from bot.cli.replay.policies import TrainPolicy
from bot.cli.replay.replays import ONE_BY_ONE, Team, as_it_was, compare, policies, repeat
from tests.unit.bot.cli.replay.recorder import Recorder, recorded

LANDED = '{"event": "landed", "base_branch": "main", "at": "today", "number": 1}'
PLANTED = Cell(per_hour=4, minutes=24, bad=0.12, flakes=0.06, slots=2)


def timeline_of(directory: Path, lines: Sequence[str]) -> Timeline:
    """The timeline in a file of these lines."""
    file = directory / "timeline.jsonl"
    file.write_text("\n".join(lines))
    return read_timeline(file)


def test_planted_figures_are_found_again_within_their_errors(tmp_path: Path) -> None:
    """Arrivals, CI time, failures and flakes of ten histories: each interval has the truth in 95 of 100 cases."""
    planted = {"arrivals": 4, "ci_time": 24, "failures": 0.12, "flakes": 0.06}
    found: dict[str, list[Estimate]] = {name: [] for name in planted}
    for seed in range(10):
        timeline = timeline_of(tmp_path, recorded(PLANTED, seed, 300))
        arrivals = of_timeline(timeline, ())
        rate = estimates.rate(len(arrivals), (arrivals[-1].at - arrivals[0].at) / 60, "")
        assert rate is not None
        for name, each in {**timeline.estimates(), "arrivals": rate}.items():
            found[name].append(each)
    for name, true in planted.items():
        assert sum(each.low <= true <= each.high for each in found[name]) >= 8, name
        assert fmean(each.value for each in found[name]) == pytest.approx(true, rel=0.2), name


def test_errors_become_smaller_with_more_history(tmp_path: Path) -> None:
    """Four times as many pull requests halve them."""

    def width(pulls: int) -> float:
        found = timeline_of(tmp_path, recorded(PLANTED, 3, pulls)).estimates()["failures"]
        return found.high - found.low

    assert width(400) == pytest.approx(width(100) / 2, rel=0.25)


def test_share_of_few_has_the_interval_of_wilson() -> None:
    """Published examples; none of few is not never."""
    for happened, total, low, high in ((1, 10, 0.0179, 0.4042), (0, 10, 0.0, 0.2775), (50, 100, 0.4038, 0.5962)):
        found = estimates.share(happened, total, "")
        assert found is not None
        assert [found.low, found.high] == pytest.approx([low, high], abs=1e-4)


def test_mean_counts_what_was_cut_short() -> None:
    """Runs that are cancelled after a quarter of an hour at most leave the short ones: their mean alone is too low."""
    dice = Random("durations")
    pairs = [(dice.lognormvariate(2.7, 0.5), dice.uniform(5, 60)) for _ in range(2000)]
    whole = [duration for duration, limit in pairs if duration <= limit]
    cut = [limit for duration, limit in pairs if duration > limit]
    true = fmean(duration for duration, _ in pairs)
    found = estimates.mean(whole, "", cut)
    assert found is not None
    assert found.low < true < found.high
    assert fmean(whole) < found.low


def test_run_with_a_member_that_people_took_out_shows_no_flake(tmp_path: Path) -> None:
    """It may have been bad; and one that landed after a repair was bad before."""
    times = iter(range(60))

    def event(name: str, number: int | None = None, reason: str | None = None, **data: Any) -> str:
        at = f"2026-03-02T08:{next(times):02}:00Z"
        where = {"repository": "acme/widgets", "base_branch": "main", "number": number, "reason": reason}
        return json.dumps({**where, "at": at, "event": name, "data": data})

    def failed(run: int, number: int) -> list[str]:
        return [event("run_started", run=run, members=[number]), event("run_ended", run=run, outcome="failed")]

    lines = [event("queued", 1), *failed(1, 1), event("cancelled", 1, "label_removed")]
    lines += [event("queued", 2), *failed(2, 2), event("failed", 2, "checks_failed")]
    lines += [
        event("queued", 2),
        event("run_started", run=3, members=[2]),
        event("run_passed", run=3),
        event("landed", 2),
    ]
    assert "flakes" not in timeline_of(tmp_path, lines).estimates()
    lines += [event("queued", 3), *failed(4, 3), event("run_started", run=5, members=[3])]
    lines += [event("run_passed", run=5), event("landed", 3)]
    assert timeline_of(tmp_path, lines).estimates()["flakes"].value == 0.5
    lines += [event("flake_seen", members=[3])]
    assert timeline_of(tmp_path, lines).estimates()["flakes"].value == 0.5, "the run that failed is counted"
    lines += [event("queued", 4), event("run_started", run=6, members=[4])]
    lines += [event("run_passed", run=6), event("flake_seen", run=6, members=[4]), event("landed", 4)]
    assert timeline_of(tmp_path, lines).estimates()["flakes"].value == 0.5, "two of four, one absorbed by a rerun"


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_timeline_of_the_planner_is_repeated_to_its_last_run(slots: int, tmp_path: Path) -> None:
    """The same outcomes lead to the same runs and the same order of landings, also where CI flakes."""
    cell = Cell(6, 20, 0.15, 0.1, slots)
    timeline = timeline_of(tmp_path, recorded(cell, 5, 120))
    found = repeat(timeline, of_timeline(timeline, ()))
    assert timeline.slots == slots
    assert (found.same_runs, found.landed_again) == (found.runs, found.landed)


def test_what_happened_is_within_the_errors_of_its_replay(tmp_path: Path) -> None:
    """Two runs at once, replayed with the estimates that their own history gives."""
    timeline = timeline_of(tmp_path, recorded(Cell(3, 25, 0.1, 0.04, 2), 7, 250))
    found = timeline.estimates()
    errors = {name: (found[name].high - found[name].low) / 4 for name in ("ci_time", "flakes")}
    minutes = found["ci_time"].value
    team = Team(minutes, 0.3, None, found["flakes"].value, 0.0, minutes, 0.006, errors)
    happened = as_it_was(timeline, team)
    (again,) = compare(
        of_timeline(timeline, ()), team, {"trains": policies([2], every=False)["trains, 2 runs"]}, range(5)
    )
    for name in ("p50", "p95", "runs", "minutes", "cost", "landed", "ejected"):
        true, replayed = happened.figures[name], again.figures[name]
        assert true is not None
        assert replayed is not None
        assert true.value == pytest.approx(replayed.value, abs=2 * replayed.error + 0.01), name


def test_event_stream_of_the_api_is_read_as_the_export_is(tmp_path: Path) -> None:
    """Lines of server-sent events, some of them twice, as `curl` saves them."""
    lines = recorded(PLANTED, 1, 40)
    stream = [f"id: {number}\ndata: {line}\n" for number, line in enumerate(lines, 1)]
    begin = 'event: begin\ndata: {"id": 0}\n\n: still here\n'
    assert timeline_of(tmp_path, [begin, *stream, *stream[:3]]).entries == timeline_of(tmp_path, lines).entries


def test_waits_and_runs_without_trains_are_read_from_the_entries(tmp_path: Path) -> None:
    """One pull request after the other: `checking` begins a run, and `ready` or a failure ends it."""

    def event(number: int, minute: int, name: str, **more: Any) -> str:
        where = {"repository": "acme/widgets", "base_branch": "main", "number": number, "reason": None, "data": {}}
        return json.dumps({**where, "at": f"2026-03-02T08:{minute:02}:00Z", "event": name, **more})

    seconds = {"tested": "abc", "check_seconds": {"test": 300, "lint": 60}}
    timeline = timeline_of(
        tmp_path,
        [
            event(1, 0, "queued"),
            event(2, 1, "queued"),
            event(1, 2, "checking"),
            event(1, 7, "ready", data=seconds),
            event(1, 8, "landed"),
            event(2, 9, "checking"),
            event(2, 12, "failed", reason="checks_failed"),
            event(3, 13, "queued"),
            event(3, 14, "cancelled", reason="label_removed"),
        ],
    )
    waits = [(each.number, each.until - each.since, each.by_checks) for each in timeline.entries]
    assert waits == [(1, 8, False), (2, 11, True), (3, 1, False)]
    assert [(each.end - each.start, each.passed) for each in timeline.runs] == [(5, True), (3, False)]
    assert timeline.minutes == [6]
    assert [each.number for each in of_timeline(timeline, ())] == [1, 2]


def run(sha: str, minutes: int, conclusion: str = "success", **more: Any) -> dict[str, Any]:
    """A workflow run as `gh run list --json` prints it."""
    return {
        "headSha": sha,
        "conclusion": conclusion,
        "startedAt": "2026-03-02T08:00:00Z",
        "updatedAt": f"2026-03-02T08:{minutes:02}:00Z",
        "workflowName": "CI",
        "attempt": 1,
        "event": "pull_request",
        "headBranch": "add-one",
        **more,
    }


def test_minutes_of_a_run_are_those_of_all_its_jobs() -> None:
    """Three jobs of twenty minutes are an hour for each run, at the price of a minute."""
    arrivals = [Arrival(15.0 * number, number) for number in range(40)]
    team = Team(ci_time=20, sigma=0, failures=0, flakes=0, conflicts=0, minutes=60, price=0.5)
    for row in compare(arrivals, team, policies([2], every=False), range(2)):
        found = {name: each.value for name, each in row.figures.items() if each is not None}
        assert found["landed"] == 40
        if row.policy == ONE_BY_ONE:
            assert (found["minutes"], found["cost"]) == (60 * found["runs"], 30 * found["runs"])


def test_timeline_says_how_many_runs_it_may_have_where_fewer_were_active(tmp_path: Path) -> None:
    """A quiet week of a queue with four runs at once is no week of a queue with one."""
    recorder = Recorder(TrainPolicy(1, 10.0), 1)
    recorder.write("queued", 0, 1)
    recorder.write("run_started", 0, run=1, members=[1], slots=4)
    recorder.write("run_passed", 9, run=1)
    recorder.write("landed", 9, 1)
    assert timeline_of(tmp_path, recorder.lines).slots == 4


def test_pull_requests_of_one_instant_arrive_in_the_order_of_their_places(tmp_path: Path) -> None:
    """Webhooks of one instant come in any order; the queue had the second ahead, and the third between."""
    recorder = Recorder(TrainPolicy(1, 10.0), 1)
    for number, position in ((1, 0), (2, 0), (3, 1)):
        recorder.write("queued", 0, number, position=position)
    for number in (1, 2, 3):
        recorder.write("landed", 9, number)
    assert [each.number for each in of_timeline(timeline_of(tmp_path, recorder.lines), ())] == [2, 3, 1]


def test_timeline_of_several_queues_is_that_of_the_busiest(tmp_path: Path) -> None:
    """The others are counted, so that the report names them."""
    other = LANDED.replace('"main"', '"release"').replace("today", "2026-03-02T08:00:00Z")
    lines = [other, *recorded(PLANTED, 3, 20)]
    found = timeline_of(tmp_path, lines)
    assert (found.queue, found.others) == ("acme/widgets main", 1)


def test_workflow_runs_show_times_flakes_and_candidates(tmp_path: Path) -> None:
    """CI takes as long as its slowest workflow; a commit that failed and then passed had flaked."""
    file = tmp_path / "runs.json"
    queue = {"event": "merge_group", "headBranch": "gh-readonly-queue/main/pr-1-abc"}
    file.write_text(
        json.dumps(
            [
                run("a", 10),
                run("a", 20, workflowName="Windows"),
                run("b", 12, attempt=2),
                run("c", 9, "failure", **queue),
                run("d", 11, headBranch="staging"),
                run("e", 5, "cancelled"),
            ]
        )
    )
    found = read_checks(file)
    assert (found.queued, found.queued_minutes) == (2, 20)
    assert sorted(found.ci_times) == [11, 12, 20]
    assert {name: each.value for name, each in found.estimates().items()} == pytest.approx(
        {"ci_time": 43 / 3, "minutes": 62 / 4, "failures": 0.5, "flakes": 1 / 3}
    )


def test_pages_of_githubs_api_are_read_as_gh_prints_them(tmp_path: Path) -> None:
    """`gh api --paginate` prints one answer after the other."""
    file = tmp_path / "runs.json"
    names = {"headSha": "head_sha", "startedAt": "run_started_at", "updatedAt": "updated_at", "attempt": "run_attempt"}
    pages = [[run("a", 10)], [run("b", 30)]]
    answers = [
        {"workflow_runs": [{names.get(key, key): of for key, of in each.items()} for each in page]} for page in pages
    ]
    file.write_text("".join(map(json.dumps, answers)))
    assert read_checks(file).ci_times == [10, 30]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "has no events of IMQ's timeline. `imq export --timeline` writes them"),
        ('{"queues": []}', "has no events of IMQ's timeline"),
        ('{"id": 1}\n{"id"', "is no JSON from line 2 on"),
        (
            '{"event": "landed", "base_branch": "main", "at": "2026-01-01T00:00:00Z", "number": 1}',
            "landed in the timeline",
        ),
        (
            '{"event": "landed", "base_branch": "main", "at": "today", "number": 1}',
            "an event that this IMQ cannot read",
        ),
        (b"\xff\xfe", "is no text in UTF-8"),
    ],
)
def test_file_that_is_no_timeline_is_refused_with_the_way_out(content: str | bytes, words: str, tmp_path: Path) -> None:
    """A person learns what is wrong, and which command writes the file."""
    file = tmp_path / "file"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FileError, match=words.replace("(", r"\(")):
        read_timeline(file)


def test_file_without_workflow_runs_names_the_command_that_lists_them(tmp_path: Path) -> None:
    """A list of pull requests, for example."""
    file = tmp_path / "runs.json"
    file.write_text('[{"number": 1}]')
    with pytest.raises(FileError, match="gh run list --limit 1000 --json attempt,"):
        read_checks(file)
    with pytest.raises(FileError, match="No such file"):
        read_checks(tmp_path / "absent")


@pytest.mark.parametrize(("between", "found"), [(True, 6), (False, 4)])
def test_commits_of_wrong_clocks_end_a_history_only_where_they_come_in_a_row(
    monkeypatch: pytest.MonkeyPatch, between: bool, found: int
) -> None:
    """Nine or more end it: here are ten, in two halves with a right clock in between, or not."""
    right, wrong = "1700000000", ["0"] * 5
    times = [right] * 4 + wrong + [right] * between + wrong + [right]
    landings = [SimpleNamespace(commit=SimpleNamespace(committed=at)) for at in times]
    monkeypatch.setattr(arrivals, "judge", lambda _history, _range: iter(landings))
    assert len(list(arrivals._recent(Mock(), None))) == found
