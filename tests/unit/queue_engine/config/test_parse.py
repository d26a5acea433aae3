"""A configuration as text: all that is wrong with it at once, each with line and place."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_engine.config.document import MAX_CHARACTERS, ConfigError, Problem, as_json
from queue_engine.config.file import Config, policy_for
from queue_engine.config.model import Policy
from queue_engine.config.parse import _SENTENCES, declared_mode, decoded, read
from queue_engine.domain.policy import Mode, PushPolicy
from tests.unit.queue_engine.config.test_policy import EVERYTHING


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        read(text)
    return [str(problem) for problem in error.value.problems]


def problems_in(text: str) -> tuple[Problem, ...]:
    try:
        read(text)
    except ConfigError as error:
        return error.problems
    return ()


def test_read_nothing_sets_nothing() -> None:
    """An empty file, a comment, or sections whose lines are all commented out are fine."""
    assert read("") == read("# later\n") == read("checks:\n  # timeout: 2h\nbranches:\n") == Config()


@pytest.mark.parametrize(
    "text", ["", "depth: 3", "trigger_labels: [ship, 'on', '12:30']", "\ufeffdepth: 3", EVERYTHING]
)
def test_read_of_parsed_values_is_the_same_as_of_the_text(text: str) -> None:
    """Whichever process parsed the YAML, all of them have the same policy."""
    parsed = as_json(text)
    assert parsed is not None
    assert read(text, parsed=parsed) == read(text)


def test_read_of_parsed_values_has_the_lines_of_the_text() -> None:
    """A file may be readable as YAML, and yet be wrong."""
    text = "# rules\ndepth: many\n"
    with pytest.raises(ConfigError, match="line 2: depth must be a whole number"):
        read(text, parsed=as_json(text))


@pytest.mark.parametrize(
    "text", ["depth: 3\ndepth: 4", "a: !x 3", "a: &b 3\nc: *b", "cost: 1e999", "[", "x" * (MAX_CHARACTERS + 1)]
)
def test_parsed_values_of_a_file_that_is_faulty_or_may_grow_are_not_kept(text: str) -> None:
    """A few lines with aliases can be gigabytes of JSON, and PostgreSQL's own JSON has no infinite number."""
    assert as_json(text) is None


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("mode: shadow\ndepth: many", Mode.SHADOW),
        ("depth: many\n'mode' : 'shadow' # for now", Mode.SHADOW),
        ("mode: shadwo", Mode.SHADOW),
        ("mode: queue\ndepth: many", Mode.QUEUE),
        ("depth: many", None),
        ("mode:\ndepth: many", None),
        ("comments:\n  mode: shadow", None),
        ("# mode: shadow\ndepth: many", None),
    ],
)
def test_declared_mode_of_a_faulty_file_is_shadow_in_doubt(text: str, mode: Mode | None) -> None:
    """A misspelt mode makes IMQ write nothing; only a key of the top level counts."""
    assert declared_mode(text) is mode


def test_mode_belongs_to_the_top_level() -> None:
    """A branch's rule cannot switch the repository."""
    assert any("mode" in each for each in problems("branches: [{match: next, mode: shadow}]"))


@pytest.mark.parametrize("text", ["on_push: requeue", "on_push: {queued: requeue}"])
def test_read_takes_one_word_for_the_section_of_pushes(text: str) -> None:
    """The short form of `on_push` means the same as its section."""
    assert policy_for(read(text), Policy(), "main").on_push.queued is PushPolicy.REQUEUE


@pytest.mark.parametrize("text", ["on_push: later", "on_push: {queued: later}"])
def test_read_names_the_words_that_a_push_may_have(text: str) -> None:
    """A wrong word is answered with the right ones, in both forms."""
    assert problems(text) == ["line 1: on_push.queued must be 'dequeue' or 'requeue', not \"later\""]


def test_read_reports_everything_that_is_wrong_at_once() -> None:
    """A maintainer fixes all faults of a file in one push."""
    text = """\
depth: many
enabeld: true
timeout: 20m
checks:
  timeout: 20
  required: [test, {name: lint, app: GitHub}]
  required: [test]
merge: {method: sqaush}
branches:
  - match: [main]
    dept: 7
  - depth: 7
"""
    assert problems(text) == [
        'line 1: depth must be a whole number, not "many"',
        "line 2: enabeld is unknown; did you mean enabled?",
        "line 3: timeout is unknown here; it belongs under checks",
        'line 5: checks.timeout must be a duration such as 20m or 2h, not "20"',
        'line 7: "required" is a duplicate: see line 6.',
        "line 8: merge.method must be 'auto', 'merge', 'squash' or 'rebase', not \"sqaush\"",
        "line 11: branches[0].dept is unknown; did you mean depth?",
        "line 12: branches[1].match is missing",
    ]


def test_read_mistake_has_its_own_sentence() -> None:
    """Each mistake is reported in the words of the file, with its line, and never in those of a library."""
    for text, expected in [
        ("- a\n", "line 1: The file must be keys with values, such as `depth: 20`."),
        ("just words\n", "line 1: The file must be keys with values, such as `depth: 20`."),
        ("enabled: on\n", 'line 1: enabled must be true or false, not "on"'),
        ("depth: true\n", "line 1: depth must be a whole number, not true"),
        ("depth: 2.5\n", 'line 1: depth must be a whole number, not "2.5"'),
        ("depth: 0\n", 'line 1: depth must be 1 or more, not "0"'),
        ("depth: 1001\n", 'line 1: depth must be 1000 or less, not "1001"'),
        ("trigger_labels: [a, b, c, d, e, f]\n", "line 1: trigger_labels has more than 5 values"),
        ("trigger_labels: []\n", "line 1: trigger_labels must name at least one"),
        ("trigger_labels: 7\n", 'line 1: trigger_labels must be text, not "7": quote it'),
        ("trigger_labels: [a, A]\n", 'line 1: trigger_labels has "A" twice'),
        ('trigger_labels: ""\n', "line 1: trigger_labels is empty"),
        (f"trigger_labels: {'x' * 51}\n", "line 1: trigger_labels is longer than 50 characters"),
        ('trigger_labels: "a\\nb"\n', "line 1: trigger_labels must be one line without leading or trailing spaces"),
        ("checks: {timeout: 8d}\n", 'line 1: checks.timeout must be from 1m to 7d, not "8d"'),
        ("checks: {settle: 0s}\n", 'line 1: checks.settle must be from 1s to 1h, not "0s"'),
        ("checks: {reruns: 6}\n", 'line 1: checks.reruns must be 5 or less, not "6"'),
        ("checks: 3\n", 'line 1: checks must be a section, not "3"'),
        ("who_may_queue: {permission: read}\n", "line 1: who_may_queue.permission must be 'triage'"),
        (
            "who_may_queue: {teams: a/b/c}\n",
            'line 1: who_may_queue.teams is not a team, such as release-managers or acme/release-managers: "a/b/c"',
        ),
        ("who_may_queue: {people: [a b]}\n", 'line 1: who_may_queue.people[0] is not a GitHub login: "a b"'),
        ("priority: {labels: [a]}\n", "line 1: priority.labels must be a section, not a list"),
        ("priority: {labels: {a: high}}\n", "line 1: priority.labels.a must be a section"),
        ("branches: {main: {}}\n", "line 1: branches must be a list, not a section"),
        ("blocking: {titles: ['(?=x)']}\n", "line 1: blocking.titles[0] is not an RE2 expression"),
        (
            "merge: {title: '{titel}'}\n",
            'line 1: merge.title has an unknown placeholder "{titel}"; did you mean title?',
        ),
        (
            "comments: {texts: {conflikt: x}}\n",
            "line 1: comments.texts.conflikt is not a reason code or a kind of",
        ),
        ("comments: {texts: {conflict: '{x}'}}\n", "line 1: comments.texts.conflict has an unknown placeholder"),
        ("freeze: {windows: [{from: 1, to: x}]}\n", "line 1: freeze.windows[0].from must be text"),
        ("freeze: {windows: [{form: a, to: x}]}\n", "line 1: freeze.windows[0].form is unknown; did you mean from?"),
        ("freeze: {windows: [{from: '16', to: '17:00'}]}\n", 'line 1: freeze.windows[0] must be "16:00", "fri 16:00"'),
        (f"freeze:\n  windows: {[{}] * 21}\n", "line 2: freeze.windows has more than 20 values"),
        (f"blocking: {{labels: {list(map(str, range(51)))}}}\n", "line 1: blocking.labels has more than 50 values"),
    ]:
        assert problems(text)[0].startswith(expected), (text, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "branches:\n  - match: [main, x]\n  - match: main\n",
            ['line 3: branches[1].match never applies to "main": the rule on line 2 matches first'],
        ),
        (
            "branches:\n  - match: '**'\n  - match: main\n",
            ['line 3: branches[1].match never applies to "main": the rule on line 2 matches first'],
        ),
        (
            "trigger_labels: Land\nblocking:\n  labels: land\n",
            ['line 2: blocking has "land", which both queues and blocks'],
        ),
        (
            "blocking: {labels: hold}\nbranches:\n  - match: main\n    trigger_labels: hold\n",
            ['line 4: branches[0].trigger_labels has "hold", which both queues and blocks'],
        ),
        (
            "blocking: {labels: Merge-Queue}\n",
            ['line 1: blocking has "merge-queue", which both queues and blocks'],
        ),
        (
            "checks:\n  queue_only: e2e\n  testing_label: merge-Queue\n",
            ['line 1: checks has the testing label "merge-Queue", which also queues pull requests'],
        ),
        (
            "blocking: {labels: busy}\nlabels: {failed: Busy}\n",
            ['line 2: labels has "Busy", which also blocks pull requests: choose another one'],
        ),
        ("labels: {landed: done, failed: Done}\n", ['line 1: labels has "done" for two outcomes']),
        (
            "require: {labels: qa}\nlabels: {landed: QA}\n",
            ['line 2: labels has "QA", which also is required of pull requests: choose another one'],
        ),
        (
            "labels: {failed: merge-queue-fix}\n",
            ['line 1: labels has "merge-queue-fix", which also is one of `priority.labels`: choose another one'],
        ),
        (
            "freeze: {exempt_labels: busy}\nlabels: {failed: busy}\n",
            ['line 2: labels has "busy", which also lets pull requests land in a freeze: choose another one'],
        ),
        (
            "merge: {method_labels: {busy: squash}}\nlabels: {failed: busy}\n",
            ['line 2: labels has "busy", which also chooses a merge method: choose another one'],
        ),
        (
            "checks: {queue_only: e2e, testing_label: busy}\nlabels: {failed: busy}\n",
            ['line 2: labels has "busy", which also starts checks: choose another one'],
        ),
        (
            "blocking: {labels: busy}\nchecks: {queue_only: e2e, testing_label: busy}\n",
            ['line 2: checks has the testing label "busy", which also blocks pull requests'],
        ),
        (
            "checks:\n  required: IMQ\n",
            ["line 2: checks.required requires IMQ's own check \"IMQ\", which only GitHub's rules can require"],
        ),
        (
            "branches:\n  - match: main\n    checks: {required: [ci,\n      IMQ]}\n",
            [
                "line 4: branches[0].checks.required[1] requires IMQ's own check \"IMQ\", which only GitHub's "
                "rules can require"
            ],
        ),
        (
            "merge:\n  method_labels:\n    Squash: squash\n    squash: rebase\n",
            ['line 4: merge.method_labels.squash is the same label as "Squash" on GitHub'],
        ),
        (
            "branches:\n  - match: main\n    priority: {labels: {Hot: 1,\n      hot: 2}}\n",
            ['line 4: branches[0].priority.labels.hot is the same label as "Hot" on GitHub'],
        ),
    ],
)
def test_read_contradictions_are_reported(text: str, expected: list[str]) -> None:
    """What could never take effect, or would shut everybody out, is a mistake although each part is well written."""
    assert problems(text) == expected


def test_read_goes_by_the_operators_label_where_the_file_names_none() -> None:
    """An operator who renamed the trigger label may give the old name another meaning."""
    text, elsewhere = "blocking: {labels: merge-queue}", Policy(trigger_labels=("ship",))
    assert read(text, elsewhere) == read(text, replace(elsewhere, trigger_labels=("land",)))
    with pytest.raises(ConfigError, match="which both queues"):
        read("blocking: {labels: ship}", elsewhere)


def test_read_knows_checks_of_imq_itself_by_its_app_where_that_is_known() -> None:
    """Another App's check may have any name."""
    text = "checks: {required: [{name: IMQ, app: 15368}, {name: gate, app: 99}]}"
    assert read(text) == read(text, Policy(own_app=7))
    with pytest.raises(ConfigError, match=r"required\[1\] requires IMQ's own check .gate."):
        read(text, Policy(own_app=99))


def test_read_branch_may_block_what_queues_elsewhere() -> None:
    """Rules of different branches contradict each other as they like."""
    read("branches:\n  - {match: main, trigger_labels: a, blocking: {labels: b}}\n  - {match: x, trigger_labels: b}\n")


def test_decoded_other_encoding_is_explained() -> None:
    """A file in another encoding is reported with its line; a byte order mark is none of its contents."""
    assert decoded(b"\xef\xbb\xbfdepth: 3\n") == "depth: 3\n"
    with pytest.raises(ConfigError, match="line 2: The file is not UTF-8: save it as UTF-8"):
        decoded(b"a: 1\nb: \xe4\n")


def test_sentences_are_there_for_every_kind_of_mistake() -> None:
    """No kind of fault that the model's schema can find is reported in pydantic's words."""
    given = {"bool": "bool_type", "int": "int_type", "list": "list_type", "dict": "dict_type", "str": "string_type"}
    given |= {"literal": "literal_error", "model": "model_type"}
    bounds = {"ge": "greater_than_equal", "le": "less_than_equal"}
    found = {"missing"}

    def visit(node: Any) -> None:
        if isinstance(node, list | tuple):
            for each in node:
                visit(each)
        if isinstance(node, dict):
            kind = node.get("type")
            if isinstance(kind, str) and kind in given:
                found.add(given[kind])
                found.update(error for bound, error in bounds.items() if bound in node)
                if kind == "str":
                    found.update({"string_too_short"} if "min_length" in node else set())
                    found.update({"string_too_long"} if "max_length" in node else set())
                    found.update({"string_pattern_mismatch"} if "pattern" in node else set())
                elif "max_length" in node:
                    found.add("too_long")
            for each in node.values():
                visit(each)

    visit(Config.__pydantic_core_schema__)
    assert found == set(_SENTENCES)


@given(st.text(max_size=300) | st.text(alphabet="abc:-[]{}&*!|>'\"#%@`,? \n\t", max_size=60))
def test_read_of_any_text_is_a_configuration_or_reported_problems(text: str) -> None:
    """No file raises anything else, and every problem has its line and is one line of text."""
    for problem in problems_in(text):
        assert 1 <= problem.line <= text.count("\n") + text.count("\r") + 2
        assert re.fullmatch(r"line \d+: .+", str(problem))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "a", "20m", "auto", "**", "{title}", "16:00"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["match", "labels", "titles", "timeout", "windows", "from", "to", "days", "name", "app", "x"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*Config.model_fields, "x"]), VALUES, max_size=4))
def test_read_of_any_values_is_a_configuration_or_reported_problems(value: dict[str, Any]) -> None:
    """Right keys with wrong values raise nothing else either."""
    assert not [problem for problem in problems_in(json.dumps(value)) if "cannot be used: " in problem.sentence]


@pytest.mark.parametrize("hidden", ["\u202e", "\u2066", "\ufeff", "\u200b"])
def test_read_shows_no_invisible_character(hidden: str) -> None:
    """Terminals and comments show a problem, and such characters would reorder the text around them."""
    assert problems(f"x{hidden}: 2") == ["line 1: x\ufffd is unknown"]
    assert problems(f"depth: {hidden}2") == ['line 1: depth must be a whole number, not "\ufffd2"']
