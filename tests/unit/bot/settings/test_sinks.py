"""`IMQ_SINKS`: what is accepted, and faults that name entry and line without a secret."""

from pathlib import Path

import pytest

from bot.settings.environment import SettingsProblem, load_host_settings
from notifications.sinks.sink import DEFAULT_EVENTS, EventKind, SinkKind
from tests.support.sink_receiver import SECRET

SLACK = "https://hooks.slack.com/services/T0/B0/s3cretpath"  # pragma: allowlist secret
GOOD = f"""
- name: team
  slack: {SLACK}
  repositories: [acme/*]
- name: ops
  webhook: https://ops.example/imq
  secret: {SECRET}
  repositories: "*/*"
  branches: [main, release/**]
  events: [landed, dead_letter]
"""


def problem(text: str) -> str:
    """The one message about a faulty setting."""
    with pytest.raises(SettingsProblem) as caught:
        load_host_settings({"IMQ_SINKS": text})
    (found,) = caught.value.problems
    for secret in (SECRET, SLACK, "s3cretpath"):
        assert secret not in str(caught.value)
        assert secret not in repr(caught.value.__cause__) + repr(caught.value.__context__)
    return found


def test_sinks_are_read_from_the_setting_or_from_a_file(tmp_path: Path) -> None:
    """A file keeps secrets out of the environment."""
    file = tmp_path / "sinks.yml"
    file.write_text(GOOD, encoding="utf-8")
    team, ops = load_host_settings({"IMQ_SINKS": GOOD}).sinks
    assert load_host_settings({"IMQ_SINKS": str(file)}).sinks == (team, ops)
    assert (team.kind, team.url, team.events) == (SinkKind.SLACK, SLACK, frozenset(DEFAULT_EVENTS))
    assert (ops.repositories, ops.branches) == (("*/*",), ("main", "release/**"))
    assert ops.events == {EventKind.LANDED, EventKind.DEAD_LETTER}
    assert len(ops.keys) == 1
    assert load_host_settings({}).sinks == ()


def test_settings_show_no_secret_of_a_sink() -> None:
    """A traceback may show the settings."""
    shown = repr(load_host_settings({"IMQ_SINKS": GOOD}))
    assert "team" in shown
    assert "s3cretpath" not in shown
    assert SECRET not in shown


def test_fault_names_its_entry_and_line_and_no_secret() -> None:
    """An operator finds the place, and a log of the start has no address."""
    for text, words in [
        (f"- name: a\n  slack: {SLACK}\n", "line 1: entry 1 (a): names no repositories"),
        (f"- name: a\n  slack: {SLACK}\n  repositories: [acme]\n", "line 3: entry 1 (a): repositories must be"),
        (f"- name: a\n  slack: {SLACK}\n  repositories: []\n", "line 3: entry 1 (a): repositories"),
        ("- name: a\n  repositories: [a/b]\n", "entry 1 (a): needs either slack or webhook"),
        (f"- name: a\n  slack: {SLACK}\n  secret: {SECRET}\n  repositories: [a/b]\n", "Slack verifies no signature"),
        ("- name: a\n  webhook: https://x.example/s3cretpath\n  repositories: [a/b]\n", "needs a secret"),
        (
            "- name: a\n  webhook: https://x.example/s3cretpath\n  secret: hunter2\n  repositories: [a/b]\n",
            "line 3: entry 1 (a): secret must be whsec_",
        ),
        (
            "- name: a\n  slack: http://x.example/s3cretpath\n  repositories: [a/b]\n",
            "line 2: entry 1 (a): slack is plain",
        ),
        (
            "- name: a\n  slack: https://ada:s3cretpath@x.example\n  repositories: [a/b]\n",  # pragma: allowlist secret
            "line 2: entry 1 (a): slack holds a user or a password",
        ),
        ("- name: a\n  slack: s3cretpath\n  repositories: [a/b]\n", "line 2: entry 1 (a): slack must be a URL"),
        (
            f"- name: a\n  slack: {SLACK}\n  repositories: [a/b]\n  events: [ejectd]\n",
            "line 4: entry 1 (a): events is no kind of event; did you mean ejected?",
        ),
        (
            f"- name: a\n  slak: {SLACK}\n  repositories: [a/b]\n",
            "line 2: entry 1 (a): has a key that IMQ does not know",
        ),
        (f"- slack: {SLACK}\n  repositories: [a/b]\n", "line 1: entry 1: has no name"),
        (f"- name: {SLACK}\n  slack: {SLACK}\n  repositories: [a/b]\n", "line 1: entry 1: needs a name"),
        (GOOD + GOOD.replace("ops", "other"), "line 12: entry 3 (team): has a name of another"),
        ("- a\n", "line 1: entry 1:"),
        ("{a: 1}", "line 1: Write a list"),
        ("- name: [\n", "line"),
        ("no-such-file.yml", "names a file that cannot be read: no-such-file.yml"),
        (SLACK, "names a file that cannot be read: the given path"),
    ]:
        found = problem(text)
        assert found.startswith("IMQ_SINKS "), (text, words)
        assert words in found, (text, words)


def test_all_faults_are_named_at_once() -> None:
    """One start is enough to find them."""
    found = problem("- name: a\n- name: b\n  repositories: [a/b]\n")
    assert "entry 1 (a)" in found
    assert "entry 2 (b)" in found
