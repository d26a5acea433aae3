"""Parse a workflow file: the events that start it, with their filters, and its jobs as they are written."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from queue_engine.config.document import parse
from queue_engine.config.problems import ConfigError

_PATH = re.compile(r"\.github/workflows/[^/]+\.ya?ml")
_JOB = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class EventRules:
    """The filters of one event; None filters nothing."""

    branches: tuple[str, ...] | None = None
    branches_ignore: tuple[str, ...] | None = None
    tags: bool = False
    """Whether a filter of tags is there: with it alone, no branch starts the workflow."""
    paths: bool = False
    """Whether changed files decide."""
    types: tuple[str, ...] | None = None
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of a dispatch or a call."""


@dataclass(frozen=True, slots=True)
class WorkflowFile:
    """One file in `.github/workflows`."""

    path: str
    name: str
    events: Mapping[str, EventRules]
    jobs: Mapping[str, Mapping[str, Any]]
    concurrency: object = None
    variables: object = None
    """Its `env`."""
    fault: str | None = None
    """Why the file cannot be read; then it has neither events nor jobs."""


def read_workflows(files: Mapping[str, str]) -> dict[str, WorkflowFile]:
    """Parse the workflow files among these, by path."""
    return {path: read_workflow(path, text) for path, text in sorted(files.items()) if _PATH.fullmatch(path)}


def read_workflow(path: str, text: str) -> WorkflowFile:
    """Parse one file; what GitHub would refuse has a fault."""
    try:
        document = parse(text)
    except ConfigError as error:
        return _faulty(path, str(error.problems[0]))
    if document.problems:
        return _faulty(path, str(document.problems[0]))
    value = document.value
    if not isinstance(value, dict):
        return _faulty(path, "it is no mapping")
    events, jobs = _events(value.get("on")), value.get("jobs")
    if events is None:
        return _faulty(path, "`on` cannot be read")
    well_formed = isinstance(jobs, dict) and all(
        isinstance(job, dict) and _JOB.fullmatch(str(name)) for name, job in jobs.items()
    )
    if not jobs or not well_formed:
        return _faulty(path, "`jobs` cannot be read")
    name = value.get("name")
    shown = name if isinstance(name, str) and name else path
    return WorkflowFile(path, shown, events, jobs, value.get("concurrency"), value.get("env"))


def _faulty(path: str, fault: str) -> WorkflowFile:
    return WorkflowFile(path, path, {}, {}, fault=fault)


def _events(value: object) -> dict[str, EventRules] | None:
    """Read `on`: a name, a list of names, or a mapping with filters."""
    if isinstance(value, str):
        return {value: EventRules()}
    if isinstance(value, list):
        return {name: EventRules() for name in value} if all(isinstance(each, str) for each in value) else None
    if not isinstance(value, dict) or not value:
        return None
    events: dict[str, EventRules] = {}
    for name, filters in value.items():
        rules = EventRules() if filters is None or name == "schedule" else _rules(filters)
        if rules is None:
            return None
        events[name] = rules
    return events


def _rules(filters: object) -> EventRules | None:
    if not isinstance(filters, dict):
        return None
    read = {name: _texts(filters[name]) for name in ("branches", "branches-ignore", "types") if name in filters}
    if None in read.values() or {"branches", "branches-ignore"} <= filters.keys():
        return None
    inputs = filters.get("inputs") or {}
    if not isinstance(inputs, dict) or not all(each is None or isinstance(each, dict) for each in inputs.values()):
        return None
    return EventRules(
        branches=read.get("branches"),
        branches_ignore=read.get("branches-ignore"),
        tags=bool({"tags", "tags-ignore"} & filters.keys()),
        paths=bool({"paths", "paths-ignore"} & filters.keys()),
        types=read.get("types"),
        inputs={name: each or {} for name, each in inputs.items()},
    )


def _texts(value: object) -> tuple[str, ...] | None:
    """Read one text, or a list of texts and numbers; None if it is something else."""
    values: Sequence[object] = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(each, str | int | float) and not isinstance(each, bool) for each in values):
        return None
    return tuple(str(each) for each in values)
