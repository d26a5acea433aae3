"""Prove that the steps of a job do on a candidate what they do on an author's own pull request.

A step is the same if nothing in it is marked (`event_marks.py`), and neither its script nor its action may look at the
event by itself. A job all of whose steps are the same has the verdict that its tree deserves.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from posixpath import normpath
from typing import Any, NamedTuple

from queue_engine.workflows.event_context import BRANCH_EVENTS, CandidateContext, WorkflowEvent
from queue_engine.workflows.event_marks import EventViews
from queue_engine.workflows.known_actions import (
    CACHES,
    CHECKOUT,
    CHECKOUT_REF,
    NUMBERED,
    NUMBERS,
    REPORTS,
    SAME,
    SCRIPT,
    STORES,
    reads_pull_request,
)
from queue_engine.workflows.repository_scripts import RepositoryScripts, runs_within
from queue_engine.workflows.script_reads import event_reads, prints_only, reads_context
from queue_engine.workflows.values import UNKNOWN

_DEEPEST = 10
"""Composite actions use each other to this depth (docs: "Metadata syntax")."""
ACTION_FILES = ("action.yml", "action.yaml")
"""Metadata of an action, in its folder."""
_LOCAL = re.compile(r"\buses[\"']?:\s*[\"']?([.$]/[^\s\"'#,}\]]*)")
_JUDGED = frozenset({"name", "id", "if", "uses", "run", "with", "env"})
"""Keys of a step that are judged one by one. Its name is only shown, and its id takes no expression."""
_PRINTED = frozenset({"name", "id", "if", "run", "env"})
_SHOWN = frozenset({"name", "id", "if", "uses"})
"""Keys without commands."""


class LimitError(Exception):
    """The workflow files mean more work than IMQ does for one repository."""


@dataclass(slots=True)
class Budget:
    """How much may still be looked at."""

    jobs: int = 2_000
    steps: int = 20_000

    def spend_job(self) -> None:
        """Raises LimitError."""
        self.jobs -= 1
        if self.jobs < 0:
            raise LimitError

    def spend_step(self) -> None:
        """Raises LimitError."""
        self.steps -= 1
        if self.steps < 0:
            raise LimitError


@dataclass(frozen=True, slots=True)
class StepScope:
    """What the steps of one job need beside their contexts."""

    event: WorkflowEvent
    candidate: CandidateContext
    actions: Mapping[str, Any]
    """The local actions that were read, by their paths; None for one that cannot be read."""
    budget: Budget
    scripts: RepositoryScripts = field(default_factory=RepositoryScripts)
    """What commands run, as far as it was read."""
    moved: bool = False
    """Whether a step checks another repository out, or into another folder: `./` may be that one's."""
    brought: tuple[str, ...] = ()
    """Folders into which steps check other repositories out; IMQ does not read those."""
    folder: object = None
    """Where steps run commands that name no folder of their own."""
    beside: str = "."
    """The folder of the local action."""
    takes_files: bool = False
    """Whether a job of the repository takes files that others stored."""
    depth: int = 0

    @property
    def is_branch(self) -> bool:
        """Whether the candidate's event is none of a pull request."""
        return self.event in BRANCH_EVENTS


class StepOutcome(NamedTuple):
    """What a step, or the steps of a job, do otherwise on a candidate."""

    why: str
    """"" where that is nothing."""
    views: EventViews
    """Those after the steps."""
    is_skipped: bool = False
    """Whether a step surely runs for an author, and not on a candidate."""


def difference(steps: object, views: EventViews, scope: StepScope) -> StepOutcome:
    """Judge steps: a skipped one counts before other differences, the first of which counts."""
    listed = steps if isinstance(steps, list) else []
    brought = (_brought(each, views, scope) for each in listed if _moves(each))
    scope = replace(
        scope,
        moved=scope.moved or any(map(_moves, listed)),
        brought=(*scope.brought, *filter(None, brought)),
    )
    worst = ""
    for step in listed:
        scope.budget.spend_step()
        if not isinstance(step, dict):
            return StepOutcome("has a step that cannot be read", views)
        why, views, is_skipped = _step(step, views, scope)
        why = f"has a step that {why}: `{_shown(step)}`" if why else ""
        if is_skipped:
            return StepOutcome(why, views, is_skipped=True)
        worst = worst or why
    return StepOutcome(worst, views)


def local_actions(texts: Iterable[str]) -> list[str]:
    """Return the paths at which the local actions may be that these files use."""
    folders = {local_path(found[1]) for text in texts for found in _LOCAL.finditer(text)}
    return [_file(each, name) for each in sorted(folders - {None}, key=str) for name in ACTION_FILES]


def local_path(uses: str) -> str | None:
    """Return the folder of a local action: `./` is the checked-out one, `$/` that of the workflow's own commit."""
    if not uses.startswith(("./", "$/")):
        return None
    folder = normpath(uses[2:])
    return None if folder.startswith(("..", "/")) else folder


def _shown(step: Mapping[str, Any]) -> str:
    shown = step.get("name") or step.get("id") or step.get("uses") or step.get("if") or step.get("run")
    return str(shown).strip().partition("\n")[0][:100]


def _moves(step: object) -> bool:
    given = step.get("with") if isinstance(step, dict) and action_of(step) == CHECKOUT else None
    return isinstance(given, dict) and bool({"path", "repository"} & given.keys())


def _brought(step: Mapping[str, Any], views: EventViews, scope: StepScope) -> str:
    """Return the folder into which a checkout brings another repository; "" for this one's."""
    given = step["with"]
    is_own = "repository" not in given or _is_candidate("repository", given["repository"], views, scope)
    return "" if is_own else normpath(str(given.get("path") or "."))


def action_of(step: Mapping[str, Any]) -> str:
    """Return the action that a step uses, without its version, in lower case; "" for none."""
    return str(step.get("uses") or "").partition("@")[0].lower()


def _step(step: Mapping[str, Any], outer: EventViews, scope: StepScope) -> StepOutcome:
    action = action_of(step)
    views = outer.with_variables(step.get("env"))
    here, there, same = views.condition(step.get("if"))
    if here is False and there is False:
        return StepOutcome("", outer)
    if not same:
        # A later step may ask whether this one ran.
        outer = _marking_outputs(step, outer)
    if action in REPORTS and not (scope.takes_files and action in STORES):
        if scope.is_branch and here is not False and _misses_number(step, views):
            return StepOutcome("needs the number of a pull request", outer)
        return StepOutcome("", outer if views.same(step) else _marking_outputs(step, outer))
    if set(step) <= _PRINTED and prints_only(str(step.get("run"))):
        return StepOutcome("", outer)
    if here is False:
        return StepOutcome("is skipped there", outer, is_skipped=there is True)
    if not same:
        return StepOutcome("has a condition that depends on the event", outer)
    if changed := next((key for key in step if key not in _JUDGED and not views.same(step[key])), None):
        return StepOutcome(f"has `{changed}` by the event", outer)
    if scope.is_branch and (found := event_reads({key: value for key, value in step.items() if key not in _SHOWN})):
        return StepOutcome(f"reads {found}, which depends on the event", outer)
    if scope.is_branch and (found := scope.scripts.of_step(step, scope.folder, scope.beside)):
        return StepOutcome(f"runs {found}", outer)
    if scope.is_branch and (found := runs_within(step, scope.folder, scope.brought)):
        return StepOutcome(f"runs what another repository brings: `{found}`", outer)
    # What a checkout brings does not depend on the environment.
    if action != CHECKOUT and (variables := views.variables):
        return StepOutcome(f"has the environment variable `{variables[0]}`, which depends on the event", outer)
    if "run" in step:
        return StepOutcome("" if views.same(step["run"]) else "reads a value that depends on the event", outer)
    if local_path(str(step.get("uses"))) is not None:
        return _local(step, views, outer, scope)
    why = _foreign(action, step.get("with"), views, scope)
    if action == CHECKOUT and scope.is_branch:
        return StepOutcome(why, _marking_outputs(step, outer, "outputs", CHECKOUT_REF))
    marks = action in CACHES and not views.same(step.get("with"))
    return StepOutcome(why, _marking_outputs(step, outer) if marks else outer)


def _marking_outputs(step: Mapping[str, Any], views: EventViews, *names: str) -> EventViews:
    """Mark what later steps read of this one; with names, that part alone."""
    name = step.get("id")
    return views if name is None else views.marking([("steps", str(name).lower(), *names)])


def _misses_number(step: Mapping[str, Any], views: EventViews) -> bool:
    """Whether a step comments on a pull request whose number a branch does not have, and fails for it."""
    given = step.get("with")
    inputs = given if isinstance(given, dict) else {}
    known = any(name in NUMBERS and views.same(value) for name, value in inputs.items())
    return action_of(step) in NUMBERED and not known and step.get("continue-on-error") is not True


def _foreign(action: str, given: object, views: EventViews, scope: StepScope) -> str:
    """Return why an action of another repository may not do the same, or ""."""
    inputs = given if isinstance(given, dict) else {}
    if scope.is_branch and action not in SAME and action != SCRIPT:
        return f"uses `{action}`, whose result may depend on the event"
    for name, value in inputs.items():
        if action in CACHES or (action == CHECKOUT and _is_candidate(name, value, views, scope)):
            continue
        if not views.same(value):
            return f"has the input `{name}`, which depends on the event"
        if not scope.is_branch:
            continue
        if action == SCRIPT and (found := reads_context(str(value))):
            return f"reads {found}, which depends on the event"
        if reads_pull_request(action, name, value):
            return f"has the input `{name}`, which looks at the pull request"
    return ""


def _is_candidate(name: str, written: object, views: EventViews, scope: StepScope) -> bool:
    """Whether an input of a checkout names the candidate itself: then it brings the very tree that is to be tested."""
    value = views.value(written)[0]
    if name == "repository":
        return value in (None, "", scope.candidate.repository)
    if name != "ref":
        return False
    own = views.here.values["github"]
    assert isinstance(own, dict)
    branch = scope.candidate.branch
    return value in (own["sha"], own["ref"], own["ref_name"], None, "", branch, f"refs/heads/{branch}")


def _local(step: Mapping[str, Any], views: EventViews, outer: EventViews, scope: StepScope) -> StepOutcome:
    """Judge the steps of a composite action of the repository; others are programs, which IMQ does not read."""
    uses = str(step["uses"])
    folder = local_path(uses)
    paths = [_file(folder, name) for name in ACTION_FILES]
    found = next((scope.actions[path] for path in paths if path in scope.actions), None)
    runs = found.get("runs") if isinstance(found, dict) else None
    is_read = isinstance(runs, dict) and str(runs.get("using")).lower() == "composite"
    if scope.depth >= _DEEPEST:
        return StepOutcome("uses actions of the repository that use each other without end", outer)
    if not is_read or (scope.moved and uses.startswith("./")):
        # On a draft it runs as on each pull request, whatever it reads.
        why = "uses an action of the repository that IMQ cannot read" if scope.is_branch else ""
        return StepOutcome(why, outer)
    assert isinstance(found, dict)
    assert isinstance(runs, dict)
    defaults = default_values(found.get("inputs"))
    if scope.is_branch and (read := event_reads(defaults) or scope.scripts.reads(defaults)):
        return StepOutcome(f"uses `{uses}`, which reads {read}", outer)
    inner = _with_inputs(views, found.get("inputs"), step.get("with")).giving("steps", UNKNOWN, UNKNOWN)
    why, inner, is_skipped = difference(
        runs.get("steps"), inner, replace(scope, depth=scope.depth + 1, folder=None, beside=folder or ".")
    )
    if why:
        return StepOutcome(f"uses `{uses}`, which {why}", outer, is_skipped)
    outputs = found.get("outputs")
    values = (
        [each.get("value") for each in outputs.values() if isinstance(each, dict)] if isinstance(outputs, dict) else []
    )
    return StepOutcome("", outer if inner.same(values) else _marking_outputs(step, outer))


def default_values(declared: object) -> list[object]:
    """Return the values of inputs that are left out."""
    inputs = declared.values() if isinstance(declared, Mapping) else ()
    return [each.get("default") for each in inputs if isinstance(each, Mapping)]


def _file(folder: str | None, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"


def _with_inputs(views: EventViews, declared: object, given: object) -> EventViews:
    """Return views with the inputs of an action; all of them are texts."""
    inputs = {
        str(name).lower(): each.get("default") if isinstance(each, dict) else None
        for name, each in (declared.items() if isinstance(declared, dict) else ())
    }
    inputs |= {str(name).lower(): value for name, value in (given.items() if isinstance(given, dict) else ())}
    texts = {name: views.text(written) for name, written in inputs.items()}
    here, there = ({name: each[side] for name, each in texts.items()} for side in (0, 1))
    marked = [("inputs", name) for name, written in inputs.items() if not views.same(written)]
    return views.giving("inputs", here, there, marked)
