"""`imq replay` on histories that real git made."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bot.cli import main
from tests.process.history_maker import HistoryMaker

START = 1_770_000_000


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HistoryMaker:
    made = HistoryMaker(tmp_path / "clone")
    monkeypatch.chdir(made.path)
    return made


def imq(*arguments: str, code: int = 0) -> Result:
    """Run the command."""
    result = CliRunner().invoke(main.main, ["replay", "--seeds", "2", *arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def replayed(*arguments: str) -> Mapping[str, Any]:
    """What programs read."""
    answer: Mapping[str, Any] = json.loads(imq("--json", *arguments).stdout)
    return answer


def policies(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return {each["policy"]: each for each in answer["policies"]}


def squashes(
    clone: HistoryMaker, seconds: Sequence[int], file: Callable[[int], str], subject: str = "Add (#{})"
) -> None:
    """Land pull requests by squash at these instants, each with a file of its own."""
    stream = ["reset refs/heads/main\nfrom refs/heads/main^0\n"]
    for number, second in enumerate(seconds, 1):
        text = subject.format(number)
        stream.append(f"commit refs/heads/main\ncommitter GitHub <noreply@github.com> {second} +0000\n")
        stream.append(f"data {len(text)}\n{text}\nM 100644 inline {file(number)}\ndata 2\n{number % 10}\n\n")
    clone.git("fast-import", "--quiet", "--force", given="".join(stream))


def hourly(clone: HistoryMaker, number: int, subject: str = "Add (#{})") -> None:
    """Land a pull request each hour."""
    squashes(clone, [START + 3600 * each for each in range(number)], "{}.txt".format, subject)


def test_landings_by_merge_squash_and_rebase_are_pull_requests(clone: HistoryMaker) -> None:
    """As `imq audit` distinguishes them: the commits of a rebase are one, and a push is none."""
    for number in range(1, 13):
        clone.pull_request(number, {f"{number}.py": "1\n"}, {f"{number}.py": "2\n"})
        (clone.merge, clone.squash, clone.rebase)[number % 3](number)
    clone.commit({"pushed.py": "1\n"}, "By hand")
    answer = replayed()
    assert answer["pull_requests"] == 12
    assert (
        "Commits: 4 merge, 4 squash, 8 rebase. 2 without a pull request, left out; --pushes counts them."
        in answer["notes"]
    )
    assert replayed("--pushes")["pull_requests"] == 14


def test_planted_rate_of_arrivals_is_found_within_its_error(clone: HistoryMaker) -> None:
    """12 pull requests a day."""
    dice, now, seconds = Random("arrivals"), float(START), []
    for _ in range(300):
        now += dice.expovariate(12 / 86_400)
        seconds.append(int(now))
    squashes(clone, seconds, "{}.txt".format)
    found = replayed("main~300..main")["estimates"]["arrivals"]
    assert found["low"] < 12 < found["high"]
    assert found["high"] - found["low"] < 4


def test_planted_failures_come_out_as_ejections(clone: HistoryMaker) -> None:
    """Where a fifth fails, every policy ejects a fifth of all; without flakes no good one, and all others land."""
    hourly(clone, 80)
    answer = replayed("--failures", "20%", "--flakes", "0", "--ci-time", "15", "--runs", "1,4", "--all")
    assert answer["estimates"]["failures"] == {"value": 0.2, "low": 0.2, "high": 0.2, "source": "given by --failures"}
    found = policies(answer)
    assert {"one by one", "GitHub-like, 4 runs", "bors-like, 4 runs", "trains, 1 run", "trains, 4 runs"} <= found.keys()
    for name, each in found.items():
        if name != "as it was":
            assert (each["landed"]["value"], each["ejected"]["value"], each["innocents"]["value"]) == (80, 20, 0), name
            assert each["cost"]["value"] == pytest.approx(each["minutes"]["value"] * 0.006)


def test_pull_requests_that_change_one_file_may_break_together(clone: HistoryMaker) -> None:
    """Of neighbours that always do, some leave; those with files of their own all land."""
    chances = ("--failures", "0", "--flakes", "0", "--conflicts", "90%", "--ci-time", "300", "--runs", "2")
    squashes(clone, [START + 600 * each for each in range(40)], lambda _: "one.txt")
    assert policies(replayed(*chances))["trains, 2 runs"]["ejected"]["value"] > 5
    clone.git("reset", "-q", "--hard", "main~40")
    squashes(clone, [START + 600 * each for each in range(40)], "{}.txt".format)
    assert policies(replayed(*chances))["trains, 2 runs"]["ejected"]["value"] == 0


def test_same_seed_gives_the_same_answer(clone: HistoryMaker, tmp_path: Path) -> None:
    """To the last character, in every form; another seed gives another."""
    hourly(clone, 30)
    page = tmp_path / "page.html"
    first = imq("--html", str(page)).stdout, page.read_text(), imq("--json").stdout
    assert (imq("--html", str(page)).stdout, page.read_text(), imq("--json").stdout) == first
    assert imq("--json", "--seed", "2").stdout != first[2]


def test_page_asks_for_nothing_and_answers_what_if(clone: HistoryMaker, tmp_path: Path) -> None:
    """One file with plots for failures, CI time and runs, in light and dark; texts of the clone are escaped."""
    hourly(clone, 30)
    clone.git("branch", "a<b>&c")
    page = tmp_path / "page.html"
    imq("a<b>&c~25..a<b>&c", "--html", str(page))
    text = page.read_text()
    assert "default-src 'none'" in text
    assert 'name="color-scheme" content="light dark"' in text
    assert not re.findall(r"<script|<link|<img|src=|href=|url\(|https?:", text)
    assert "a&lt;b&gt;&amp;c" in text
    assert "<b>" not in text
    assert len(re.findall("<svg", text)) == 6
    assert len(re.findall(r'<polyline class="line', text)) == 2 * (3 + 3 + 2)
    what_if = replayed("--html", str(page))["what_if"]
    assert [(each["figure"], each["value"]) for each in what_if] == [
        *(("failures", share) for share in (0.02, 0.05, 0.1, 0.2, 0.3)),
        *(("ci_time", minutes) for minutes in (10, 20, 30, 40, 60)),
        *(("runs", runs) for runs in (1, 2, 4, 8)),
    ]


def test_checks_of_candidates_show_how_it_was(clone: HistoryMaker, tmp_path: Path) -> None:
    """Times and failures come from the file, with their errors, and what is not in it is assumed."""
    hourly(clone, 20)
    file = tmp_path / "runs.json"
    times = {"startedAt": "2026-03-02T08:00:00Z", "updatedAt": "2026-03-02T08:12:00Z"}
    runs = [
        {"headSha": str(each), "conclusion": "failure" if each % 5 == 0 else "success", "event": "merge_group", **times}
        for each in range(40)
    ]
    file.write_text(json.dumps(runs))
    answer = replayed("--checks", str(file))
    found = {name: (each["value"], each["source"]) for name, each in answer["estimates"].items()}
    assert found["ci_time"] == (12, "32 commits whose checks passed")
    assert found["failures"] == (0.2, "40 candidates of a merge queue")
    assert found["conflicts"] == (0.034, "assumed; --conflicts gives it")
    before = policies(answer)["as it was"]
    assert (before["runs"]["value"], before["minutes"]["value"], before["p95"]) == (40, 480, None)
    given = replayed("--checks", str(file), "--ci-time", "30")["estimates"]
    assert (found["minutes"][0], given["minutes"]["value"]) == (12, 30)


def test_errors_of_estimates_are_in_those_of_the_policies(clone: HistoryMaker, tmp_path: Path) -> None:
    """Six workflow runs say little of how long CI takes, and so the waits are little known."""
    hourly(clone, 100)
    file = tmp_path / "runs.json"
    began = "2026-03-02T08:00:00Z"
    runs = [
        {"headSha": str(each), "conclusion": "success", "startedAt": began, "updatedAt": f"2026-03-02T08:{each:02}:00Z"}
        for each in (5, 55, 10, 50, 20, 35)
    ]
    file.write_text(json.dumps(runs))
    seeds = ("--checks", str(file), "--seeds", "30")
    measured, given = (policies(replayed(*seeds, *more))["one by one"]["p50"] for more in ((), ("--ci-time", "29")))
    assert measured["error"] > 1.5 * given["error"]
    assert measured["value"] == pytest.approx(given["value"], rel=0.4)


def test_table_names_what_was_assumed(clone: HistoryMaker) -> None:
    """A reader never takes an assumption for a measurement."""
    hourly(clone, 20)
    text = imq().stdout
    assert text.startswith("HEAD, the last 90 days: 20 pull requests in 0.8 days.\n")
    assert re.search(r"pull requests a day .* 20 pull requests in 0\.8 days\n", text)
    for name in ("ci-time", "failures", "flakes", "conflicts", "price"):
        assert f"assumed; --{name} gives it" in text
    rows = [line.split("  ")[1] for line in text.splitlines() if line.startswith("  ")]
    assert rows[-6:] == [
        "as it was",
        "one by one",
        "GitHub-like, 4 runs",
        "trains, 1 run",
        "trains, 2 runs",
        "trains, 4 runs",
    ]


def test_old_landings_do_not_count_unless_a_range_names_them(clone: HistoryMaker) -> None:
    """The last 90 days, from the newest landing on."""
    hourly(clone, 20)
    squashes(clone, [START + 200 * 86_400 + each for each in range(15)], "new{}.txt".format)
    assert replayed()["pull_requests"] == 15
    assert replayed("main")["pull_requests"] == 35


@pytest.mark.parametrize("wrong", [1, START + 3600 * 24 * 3000], ids=["past", "future"])
@pytest.mark.parametrize("place", [3, 14])
def test_landing_by_a_machine_with_a_wrong_clock_ends_no_history(clone: HistoryMaker, wrong: int, place: int) -> None:
    """It counts itself in no rate; the others do, before and after it."""
    seconds = [START + 3600 * each for each in range(15)]
    seconds[place] = wrong
    squashes(clone, seconds, "{}.txt".format)
    assert replayed()["pull_requests"] == 14
    assert re.search(r"14 pull requests in 0\.\d days", imq().stdout)


def test_clone_without_a_commit_is_refused(
    clone: HistoryMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No range is spoken of: no one named any."""
    clone.git("init", "-q", str(tmp_path / "empty"))
    monkeypatch.chdir(tmp_path / "empty")
    assert imq(code=2).stderr == "Error: This clone has no commit yet.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere..main",), "git does not know the range nowhere..main"),
        (("main..main",), "The range main..main has no commits."),
        (("main~1..main",), "has 1 landing of pull requests; a replay needs 10. Name a longer range."),
        (("--failures", "99%"), "write a share from 0% to 90%"),
        (("--ci-time", "nan"), "write a number, such as 20"),
        (("--ci-time", "0"), "is not in the range"),
        (("--runs", "0"), "write numbers from 1 to 16"),
        (("--timeline", "absent"), "absent: No such file or directory."),
        (("--html", "absent/page.html"), "absent/page.html: No such file or directory"),
    ],
)
def test_bad_input_ends_with_the_way_out(arguments: tuple[str, ...], words: str, clone: HistoryMaker) -> None:
    """Exit code 2 and a sentence."""
    hourly(clone, 12)
    assert words in " ".join(imq(*arguments, code=2).stderr.split())


def test_history_without_numbers_names_both_ways_out(clone: HistoryMaker) -> None:
    """Rebase landings look like pushes until the clone has the pull requests."""
    hourly(clone, 12, subject="Add {}")
    text = imq(code=2).stderr
    assert "`--pushes` counts them too" in text
    assert "git fetch origin '+refs/pull/*/head:refs/remotes/origin/pr/*'" in text
    assert replayed("--pushes")["pull_requests"] == 12


def test_folder_that_is_no_clone_and_shallow_clone_are_refused(
    clone: HistoryMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to do."""
    hourly(clone, 12)
    clone.git("clone", "-q", "--depth", "3", f"file://{clone.path}", str(tmp_path / "shallow"))
    monkeypatch.chdir(tmp_path / "shallow")
    assert "git fetch --unshallow" in imq(code=2).stderr
    monkeypatch.chdir(tmp_path)
    assert "Change to a clone" in imq(code=2).stderr


def test_help_starts_without_the_planner_and_its_libraries() -> None:
    """The command is imported when it is used, and what it simulates with when it runs."""
    modules = "{'pydantic', 'queue_engine', 'bot.cli.clone', 'aiohttp', 'structlog'}"
    program = f"import sys, bot.cli.replay.command; print({modules} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
