"""`imq validate`: a configuration's mistakes with their lines, and what it means."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bot.cli import host, main
from queue_engine.config.file import as_keys
from queue_engine.config.model import Policy

Validate = Callable[..., Result]


@pytest.fixture
def validate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Validate:
    """Runs the command on a file of this content, in an environment without any setting."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(host, "configure", lambda *_: None)
    settings = ("IMQ_GITHUB_APP_ID", "IMQ_GITHUB_PRIVATE_KEY", "IMQ_GITHUB_WEBHOOK_SECRET")
    runner = CliRunner(env=dict.fromkeys(settings))

    def run(content: str | bytes, *arguments: str) -> Result:
        Path("imq.yml").write_bytes(content if isinstance(content, bytes) else content.encode())
        return runner.invoke(main.main, ["validate", "imq.yml", *arguments], catch_exceptions=False)

    return run


def test_validate_prints_every_problem_with_its_line(validate: Validate) -> None:
    """Number, sentence and the line itself; the exit code lets CI fail."""
    result = validate("depth: many\nchecks:\n\n  timeuot: 2h\n")
    assert result.exit_code == 1
    assert result.stdout == (
        "imq.yml has 2 problems:\n\n"
        'line 1: depth must be a whole number, not "many"\n    depth: many\n\n'
        "line 4: checks.timeuot is unknown; did you mean timeout?\n      timeuot: 2h\n"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a: \xff\n", "imq.yml has 1 problem:\n\nline 1: The file is not UTF-8: save it as UTF-8.\n"),
        ("a: \x1b[31m\n", "line 1: The file holds a character that YAML does not allow (0x1b).\n    a:  [31m\n"),
        ("a:\n\tb: 1\n", "line 2: A tab indents this line: use spaces.\n        b: 1\n"),
    ],
    ids=["encoding", "escape", "tab"],
)
def test_validate_shows_hostile_lines_harmlessly(validate: Validate, content: str | bytes, expected: str) -> None:
    """No content of a file controls the terminal that shows its mistakes."""
    result = validate(content)
    assert result.exit_code == 1
    assert expected in result.stdout
    assert "\x1b" not in result.stdout


def test_validate_names_flaky_checks_whose_last_day_is_over(validate: Validate) -> None:
    """Otherwise only a run that fails would say so; the file stays valid."""
    text = "checks:\n  flaky:\n  - {name: old, until: 2026-03-01}\n  - {name: today, until: 2026-03-02}\n"
    sentence = "checks.flaky: old expired after 2026-03-01. IMQ reruns it like any other check."
    result = validate(text)
    assert (result.exit_code, "today expired" in result.stdout) == (0, False)
    assert f"imq.yml is valid.\n\n{sentence}\n\n" in result.stdout
    assert json.loads(validate(text, "--json").stdout)["expired"] == [sentence]


def test_validate_problems_as_json_are_for_programs(validate: Validate) -> None:
    """A program in CI puts them beside the line."""
    result = validate("\ndepth: 0\n", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "valid": False,
        "problems": [{"line": 2, "place": "depth", "sentence": 'must be 1 or more, not "0"'}],
    }


def test_validate_prints_what_differs_from_the_defaults(validate: Validate) -> None:
    """Key, value and default, then of each rule what differs from the other branches; no settings are needed."""
    rules = "branches:\n  - match: [main, x/*]\n    checks: {timeout: 90m}\n  - match: y\n"
    text = "depth: 9\nmerge: {title: '{title}'}\nchecks: {required: [test, lint], timeout: 2h}\n" + rules
    result = validate(text)
    assert result.exit_code == 0
    assert result.stdout == (
        "imq.yml is valid.\n\n"
        "All other base branches:\n"
        "key              value       default\n"
        "depth            9           20\n"
        "merge.title      {title}     -\n"
        "checks.required  lint, test  -\n"
        "checks.timeout   2h          auto\n\n"
        "main, x/*:\n"
        "key             value  other branches\n"
        "checks.timeout  1h30m  2h\n\n"
        "y: as above\n\n"
        "Every key that is not listed has its default; --json prints all.\n"
    )
    assert "\nAll base branches: the defaults\n" in validate("depth: 20").stdout


def test_validate_shared_begins_with_how_much_of_the_file_counts(
    validate: Validate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Valid does not mean followed: what the operator allows, and which rule of the repository is needed."""
    text = "who_may_queue: {people: [eve]}\nblocking: {labels: wip}"
    condition = "it is used only while the default branch of .github requires an approving review."
    for mode, verdict in (
        ("tighten", f"imq.yml is valid, but 1 of its keys is ignored; {condition}"),
        ("trust", f"imq.yml is valid; {condition}"),
        ("off", "imq.yml is valid, but not shared with other repositories: IMQ_ORGANIZATION_CONFIG is off."),
    ):
        monkeypatch.setenv("IMQ_ORGANIZATION_CONFIG", mode)
        assert validate(text, "--shared").stdout.splitlines()[0] == verdict
        ignored = json.loads(validate(text, "--shared", "--json").stdout).get("not_followed", [])
        assert len(ignored) == (mode != "trust")


def test_validate_meaning_as_json_is_complete_for_each_rule(validate: Validate) -> None:
    """A program needs to lay nothing over anything."""
    found = json.loads(validate("branches: [{match: main, depth: 3}]", "--json").stdout)
    default = as_keys(Policy())
    assert found == {"valid": True, "rules": default, "branches": [{"match": ["main"], **default, "depth": 3}]}


def test_validate_shows_the_operators_choices_where_the_file_is_silent(
    validate: Validate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes effect is what holds here, and a label means what it means here; GitHub's settings are not needed."""
    monkeypatch.setenv("IMQ_TRIGGER_LABEL", "ship")
    monkeypatch.setenv("IMQ_MAX_QUEUE_DEPTH", "3")
    shown = validate("blocking: {labels: merge-queue}").stdout
    assert [line.split() for line in shown.splitlines() if line.startswith(("trigger", "depth"))] == [
        ["trigger_labels", "ship", "merge-queue"],
        ["depth", "3", "20"],
    ]
    assert "which both queues and blocks" in validate("blocking: {labels: ship}").stdout
    monkeypatch.setenv("IMQ_MAX_QUEUE_DEPTH", "many")
    assert validate("").exit_code == 2


@pytest.mark.parametrize(
    "wrong", ["acme/rocket", "acme#3", "acme/rocket#0", "acme/rocket#x", "https://x/acme/rocket#3"]
)
def test_validate_against_what_is_no_pull_request_is_refused(validate: Validate, wrong: str) -> None:
    """The form is named, with exit code 2 as for every wrong use."""
    result = validate("", "--against", wrong)
    assert result.exit_code == 2
    assert "write OWNER/REPO#N, such as acme/rocket#12" in result.stderr


def test_validate_against_without_settings_names_them(validate: Validate) -> None:
    """Asking GitHub needs the App's settings, and says which are missing."""
    result = validate("", "--against", "acme/rocket#3")
    assert result.exit_code == 2
    assert "IMQ_GITHUB_APP_ID is missing" in result.stderr


WORKFLOW = """
on:
  pull_request:
  push:
    branches: [master]
jobs:
  test:
    runs-on: ubuntu-latest
    steps: [{uses: actions/checkout@v4}, {run: ./ci/test.sh}]
"""


def clone(workflow: str, script: str = "make\n") -> Path:
    """Make a clone of acme/rocket, whose default branch is master."""
    files = {
        ".git/config": '[remote "origin"]\n\turl = git@github.com:acme/rocket.git\n',
        ".git/refs/remotes/origin/HEAD": "ref: refs/remotes/origin/master\n",
        ".github/workflows/ci.yml": workflow,
        "ci/test.sh": script,
    }
    for name, text in files.items():
        path = Path("rocket", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Path("rocket")


def test_validate_of_a_clones_workflows_says_what_starts_ci_and_what_to_add(validate: Validate) -> None:
    """Without an App: a draft starts it now, and with the missing lines a push does, as far as scripts allow."""
    folder = clone(WORKFLOW)
    result = validate("checks: {required: [test]}", "--workflows", str(folder))
    assert result.exit_code == 0
    assert result.stdout == (
        "Trains on master, by these workflows: .github/workflows/ci.yml.\n"
        "Required checks: `test`.\n\n"
        "- CI of a train would start by a draft pull request, which costs notifications\n"
        "- by push: no; `test`: `.github/workflows/ci.yml` does not run on `push` for the branch `imq/master/1`\n"
        "- so that a push runs its checks, .github/workflows/ci.yml needs:\n"
        "    on:\n      push:\n        branches: [master, 'imq/**']\n\n"
        "A clone does not show the rules of GitHub: name the checks that they require by --required.\n"
    )
    clone(WORKFLOW.replace("[master]", "[master, 'imq/**']"))
    report = json.loads(validate("", "--workflows", str(folder), "--required", "test", "--json").stdout)
    assert (report["trigger"], report["proven"], report["add"]) == ("push", True, [])
    # The script that the step names is read: one that reads the event proves nothing.
    clone(WORKFLOW.replace("[master]", "[master, 'imq/**']"), "echo $GITHUB_BASE_REF\n")
    report = json.loads(validate("", "--workflows", str(folder), "--required", "test", "--json").stdout)
    assert report["trigger"] == "pull_request"


def test_validate_of_workflows_names_a_reason_once_for_all_jobs_of_a_matrix(validate: Validate) -> None:
    """Each reason is a line: three of its checks, and how many more there are."""
    matrix = WORKFLOW.replace("  test:\n", "  test:\n    strategy: {matrix: {python: [10, 11, 12, 13]}}\n")
    folder = clone(matrix + "  lint:\n    runs-on: ubuntu-latest\n")
    names = ["test (10)", "test (11)", "test (12)", "test (13)", "lint", "audit"]
    result = validate("trains: push", "--workflows", str(folder), *(f"--required={each}" for each in names))
    assert (
        "- by push: no\n"
        "    - `audit`: no workflow of this repository has a job of this name: another App or a status reports it\n"
        "    - `lint`, `test (10)`, `test (11)` and 2 more: `.github/workflows/ci.yml` does not run on `push` "
        "for the branch `imq/master/1`\n"
    ) in result.stdout


def test_validate_of_workflows_finds_the_clones_own_file(validate: Validate) -> None:
    """Its trigger counts: where that starts no required check, the exit code lets CI fail."""
    folder = clone(WORKFLOW)
    Path(folder, ".github/imq.yml").write_text("checks: {required: [test]}\ntrains: push\n")
    runner = CliRunner()
    result = runner.invoke(main.main, ["validate", "--workflows", str(folder)], catch_exceptions=False)
    assert result.exit_code == 1
    assert "- no trigger surely tests every required check" in result.stdout
    Path(folder, ".github/imq.yml").write_text("trains: sometimes\n")
    faulty = runner.invoke(main.main, ["validate", "--workflows", str(folder)], catch_exceptions=False)
    assert (faulty.exit_code, faulty.stdout.splitlines()[0]) == (1, "rocket/.github/imq.yml has 1 problem:")
    assert runner.invoke(main.main, ["validate"]).exit_code == 2


def test_validate_of_workflows_follows_no_link_out_of_the_clone(validate: Validate) -> None:
    """A workflow that is a link, and a script outside, are not read; one too long, or no text, counts as empty."""
    folder = clone(WORKFLOW.replace("[master]", "['**']").replace("./ci/test.sh", "../secret.sh"))
    Path("secret.sh").write_text("make\n")
    for name in ("linked", "long", "binary"):
        path = Path(folder, f".github/workflows/{name}.yml")
        if name == "linked":
            path.symlink_to(Path("imq.yml").resolve())
        else:
            path.write_bytes(b"\xff" if name == "binary" else b"#" * 600_000)
    report = json.loads(validate("", "--workflows", str(folder), "--required", "test", "--json").stdout)
    assert report["workflows"] == [f".github/workflows/{name}.yml" for name in ("binary", "ci", "long")]
    assert report["proven"] is False
