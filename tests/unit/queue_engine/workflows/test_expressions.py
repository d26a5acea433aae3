"""Expressions of GitHub Actions: values as GitHub compares them, and answers that hold for all unknown values."""

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_engine.workflows.event_context import WorkflowEvent, event_values
from queue_engine.workflows.expressions import ExpressionContext, evaluate, guard, render
from queue_engine.workflows.values import UNKNOWN, UnknownValue, Value, truth
from tests.unit.queue_engine.workflows.labeled import CANDIDATE

STATUS: Mapping[str, bool | None] = {"always": True, "success": True, "failure": False, "cancelled": False}


def on(event: WorkflowEvent) -> ExpressionContext:
    return ExpressionContext(event_values(event, CANDIDATE, "CI"), STATUS)


def test_guard_on_a_push_is_as_github_evaluates_it() -> None:
    """A condition holds, does not hold, or is unknown; what IMQ cannot read is unknown."""
    for text, holds in [
        ("github.event_name == 'push'", True),
        ("github.event_name == 'PUSH'", True),
        ("github['event_name'] == 'push'", True),
        ("!(github.event_name != 'push')", True),
        ("github.ref == 'refs/heads/main'", False),
        ("startsWith(github.ref, 'refs/heads/imq/')", True),
        ("endsWith(github.ref_name, '/1')", True),
        ("contains(github.ref, 'IMQ')", True),
        ("github.head_ref == ''", True),
        ("github.event.pull_request == null", True),
        ("github.event.pull_request.draft == false", True),
        ("github.event.pull_request.title", False),
        ("github.event.head_commit.message == 'x'", None),
        ("secrets.TOKEN != ''", None),
        ("vars.A == 'x' && false", False),
        ("vars.A == 'x' || true", True),
        ("vars.A || github.event_name == 'pull_request'", None),
        ("github.actor == 'dependabot[bot]'", False),
        ("github.actor == 'octocat'", False),
        ("github.actor == 'imq-of-octo[bot]'", None),
        ("contains(github.actor, '[bot]')", True),
        ("always() && failure()", False),
        ("1 < 2 && 0x10 == 16 && 'a' != 'b'", True),
        ("'1' == 1 && true == 1 && null == 0 && '' == 0", True),
        ("contains(fromJSON('[\"a\", \"b\"]'), 'B')", True),
        ("!github.event.pull_request.labels.*", False),
        ("contains(github.event.pull_request.labels.*.name, '')", False),
        ('contains(fromJSON(\'[{"a": 1}, {"b": 2}]\').*.a, null)', False),
        ("contains(fromJSON('[{\"a\": [1]}]').*.a.*, 1)", None),
        ("format('{0}-{1}', 'x', 7) == 'x-7'", True),
        ("github.ref == format('refs/heads/{0}', github.event.repository.default_branch)", False),
        ("format('{{{0}}}', 'x') == '{x}'", None),
        ("format('{1}', 'x')", None),
        ("join(github.event.pull_request.labels.*.name)", None),
        ("github.event_name = 'push'", None),
        ("(" * 100 + "true" + ")" * 100, None),
        ("'it''s' == 'it''s'", True),
        ("", None),
    ]:
        assert guard(text or " ", on(WorkflowEvent.PUSH)) is holds, (text, holds)


def test_guard_on_a_draft_pull_request_is_as_github_evaluates_it() -> None:
    """IMQ's draft is its own, has no label, and comes from the repository itself."""
    for text, holds in [
        ("github.ref == 'refs/heads/main'", False),
        ("github.ref == 'refs/pull/7/merge'", None),
        ("startsWith(github.ref, 'refs/pull/')", True),
        ("startsWith(github.ref, 'refs/pull/7')", None),
        ("endsWith(github.ref, '/merge')", True),
        ("endsWith(github.ref, 'head')", False),
        ("github.base_ref == 'main'", True),
        ("github.event.action == 'opened'", True),
        ("github.event.pull_request.draft", True),
        ("github.event.pull_request.user.type == 'Bot'", True),
        ("github.event.pull_request.head.repo.full_name == github.repository", True),
        ("github.event.pull_request.head.repo.fork", None),
        ("contains(github.event.pull_request.labels.*.name, 'ci')", False),
    ]:
        assert guard(text, on(WorkflowEvent.PULL_REQUEST)) is holds, (text, holds)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (None, True),
        (True, True),
        (False, False),
        ("${{ github.event_name == 'push' }}", True),
        ("${{ true }} && false", None),
        (["push"], None),
    ],
)
def test_guard_reads_each_form_of_a_condition(condition: object, holds: bool | None) -> None:
    """Braces may be left out; a text around them is always true for GitHub, which no author means."""
    assert guard(condition, on(WorkflowEvent.PUSH)) is holds


def test_render_leaves_parts_that_are_unknown() -> None:
    """A name with a computed part is not mistaken for a known one."""
    assert render("a ${{ github.event_name }} ${{ vars.B }}", on(WorkflowEvent.PUSH)) == [
        "a ",
        "push",
        " ",
        UNKNOWN,
        "",
    ]


_ATOMS = st.sampled_from(["vars.a", "vars.b", "vars.c", "vars.a == 'x'", "vars.b != vars.c", "true", "false", "null"])
EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        inner.map(lambda each: f"!({each})"),
        st.tuples(inner, st.sampled_from(["&&", "||", "==", "!="]), inner).map(lambda each: f"({' '.join(each)})"),
        st.tuples(st.sampled_from(["contains", "startsWith", "endsWith"]), inner, inner).map(
            lambda each: f"{each[0]}({each[1]}, {each[2]})"
        ),
    ),
    max_leaves=8,
)
_VALUES: tuple[Value, ...] = ("", "x", "true", True, False, None, 0.0)


@given(
    EXPRESSIONS, st.sets(st.sampled_from("abc"), min_size=1), st.lists(st.sampled_from(_VALUES), min_size=3, max_size=3)
)
def test_answer_with_unknown_values_holds_for_each_of_their_values(
    text: str, unknown: set[str], values: list[Value]
) -> None:
    """An answer other than unknown is GitHub's answer, for each of the values that are unknown."""
    known = dict(zip("abc", values, strict=True))
    found = truth(_evaluated(text, {**known, **dict.fromkeys(unknown, UNKNOWN)}))
    if found is None:
        return
    for chosen in product(_VALUES, repeat=len(unknown)):
        exact = truth(_evaluated(text, {**known, **dict(zip(sorted(unknown), chosen, strict=True))}))
        assert exact in (None, found)


def _evaluated(text: str, values: Mapping[str, Value]) -> Value:
    return evaluate(text, ExpressionContext({"vars": dict(values)}, STATUS))


@given(st.text(max_size=60))
def test_evaluate_any_text_returns_a_value(text: str) -> None:
    """No condition in a repository's file makes IMQ fail."""
    evaluate(text, ExpressionContext({}, STATUS))
    assert isinstance(evaluate(f"{text} ~", ExpressionContext({}, STATUS)), UnknownValue) or "'" in text
