"""GitHub's own packages, `@actions/expressions` and `@actions/workflow-parser`, as a second opinion on workflow files.

`make actions` installs them by their lock.
"""

import json
import random
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from queue_engine.domain.policy import Candidates
from queue_engine.workflows.event_context import WorkflowEvent, event_values
from queue_engine.workflows.expressions import ExpressionContext, guard, unwrapped
from queue_engine.workflows.trigger_choice import choose_trigger
from queue_engine.workflows.values import PatternValue, UnknownValue, Value
from queue_engine.workflows.workflow_file import read_actions, read_workflows
from tests.hosting.platform_files import RELEASE, WORKFLOW
from tests.support.documents import read
from tests.support.real_time import LIMIT
from tests.unit.queue_engine.workflows.labeled import CANDIDATE, LabeledWorkflows, labeled_cases, labeled_workflows

pytestmark = pytest.mark.process

FOLDER = Path(__file__).parents[2] / ".ci" / "actions"
STATUS: Mapping[str, bool | None] = {"always": True, "success": True, "failure": False, "cancelled": False}
_EXAMPLES = {r"refs/pull/\d+/merge": "refs/pull/7/merge", r"\d+/merge": "7/merge", r"\d+": "7", r"[^\[\]]+": "octocat"}


def opinion(conditions: list[Any], workflows: list[Any]) -> Any:
    """Ask the packages; skips where they are not installed."""
    node = shutil.which("node")
    if node is None or not (FOLDER / "node_modules").is_dir():
        pytest.skip("GitHub's packages for workflow files are missing: make actions (npm, Node.js 20)")
    asked = json.dumps({"conditions": conditions, "workflows": workflows})
    answered = subprocess.run(
        [node, str(FOLDER / "opinion.mjs")], input=asked, capture_output=True, text=True, timeout=LIMIT, check=True
    )
    return json.loads(answered.stdout)


def possible(value: Value) -> Value:
    """Return one of the values that an unknown one may be."""
    match value:
        case UnknownValue():
            return "unknown" if value.holds is not False else ""
        case PatternValue() if value.form in _EXAMPLES:
            return _EXAMPLES[value.form]
        case PatternValue():
            return "imq-of-octo[bot]" if value.suffix else "0" * 40
        case dict():
            return {str(key): possible(each) for key, each in value.items() if key != "*"}
        case list():
            return [possible(each) for each in value]
    return value


def contexts(event: WorkflowEvent) -> dict[str, Value]:
    """Return contexts of an event, as IMQ knows them."""
    more: dict[str, Value] = {"env": {"A": "a", "*": UnknownValue()}, "vars": UnknownValue(), "secrets": UnknownValue()}
    needs = {"test": {"result": "success", "outputs": {"src": "true"}}}
    return {**event_values(event, CANDIDATE, "CI"), **more, "needs": needs, "steps": UnknownValue()}


def conditions_of(value: object) -> Iterator[str]:
    """Yield the conditions anywhere in a file."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in parts:
        if key == "if" and isinstance(each, str) and (text := unwrapped(each)) is not None:
            yield text
        yield from conditions_of(each)


ATOMS = """
github.event_name github.ref github.head_ref github.base_ref github.event.action github.event.pull_request.draft
github.event.pull_request.head.ref github.event.pull_request.labels github.event.number github.actor github.missing
github.repository github['ref_name'] github.event.pull_request needs.test.result needs.*.result env.A 'push' '7' ''
'pull_request' 'main' 'refs/heads/imq/main/1' 0 1 0x7 -2.5 true false null 'It''s'
"""
FORMS = """
{} == {}; {} != {}; ({} && {}); ({} || {}); !({}); contains({}, {}); startsWith({}, {}); endsWith({}, {}); {} < {};
format('{{0}}-{{1}}', {}, {}); {} >= {}; always() && ({}); ({})
"""


def expression(made: random.Random, depth: int = 3) -> str:
    """Make up an expression."""
    if depth == 0 or made.random() < 0.2:
        return made.choice(ATOMS.split())
    return made.choice(FORMS.split(";")).strip().format(expression(made, depth - 1), expression(made, depth - 1))


def all_files() -> list[LabeledWorkflows]:
    return [*labeled_workflows(), *labeled_cases()]


def test_conditions_hold_as_githubs_own_package_evaluates_them() -> None:
    """P1: 6,000 made up ones, and those of all test files, by each event. What IMQ knows is never otherwise."""
    made = random.Random(29)
    texts = [expression(made) for _ in range(2_000)]
    for labeled in all_files():
        documents = [each.jobs for each in read_workflows(labeled.files).values()]
        texts += [text for each in (*documents, read_actions(labeled.files)) for text in conditions_of(each)]
    events = (WorkflowEvent.PUSH, WorkflowEvent.PULL_REQUEST, WorkflowEvent.PERSON)
    asked = [(text, contexts(event)) for text in texts for event in events]
    answers = [guard(text, ExpressionContext(values, STATUS)) for text, values in asked]
    theirs = opinion([{"text": text, "contexts": possible(values)} for text, values in asked], [])["conditions"]
    wrong = [
        (text, ours, their)
        for (text, _), ours, their in zip(asked, answers, theirs, strict=True)
        if ours is not None and ours is not their
    ]
    assert wrong == []
    known = [each for each in answers if each is not None]
    assert len(known) > 3_000


def test_workflows_that_are_called_proven_are_workflows_for_githubs_own_parser() -> None:
    """What GitHub refuses tests nothing; a proof of such a file would be none."""
    proven = [
        labeled
        for labeled in all_files()
        if choose_trigger(labeled.files, labeled.required, CANDIDATE, Candidates.AUTO).proven
    ]
    files = [
        {"name": path, "content": text}
        for labeled in proven
        for path, text in labeled.files.items()
        if path.startswith(".github/workflows/")
    ]
    errors = opinion([], files)["workflows"]
    refused = {file["content"]: each for file, each in zip(files, errors, strict=True) if each}
    assert refused == {}


def test_workflows_of_this_repository_are_workflows_for_githubs_own_parser() -> None:
    """A release is not the moment to learn that GitHub refuses its workflow; a fault is found."""
    names = (RELEASE, WORKFLOW)
    broken = read(RELEASE).replace("${{ github.ref }}", "${{ githob.ref }}")
    files = [*({"name": name, "content": read(name)} for name in names), {"name": RELEASE, "content": broken}]
    errors = opinion([], files)["workflows"]
    assert errors[:-1] == [[], []]
    assert errors[-1] != []
