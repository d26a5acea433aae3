"""Parse a workflow file: the events that start it, with their filters, and its jobs as they are written."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from queue_engine.config.document import ConfigError, parse

_PATH = re.compile(r"\.github/workflows/[^/]+\.ya?ml")
_ACTION = re.compile(r"(?:.+/)?action\.ya?ml")
_LONGEST = 512 * 1024
"""Characters of a file; GitHub shows no more of one (`isTruncated`). Files over 64 KiB exist (deno, ghostty)."""
_MOST_VALUES = 100_000
_LONGEST_TOGETHER = 4 * 1024 * 1024
"""Characters of all files of a repository; what is beyond is not read."""
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
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of a call."""


@dataclass(frozen=True, slots=True)
class WorkflowFile:
    """One file in `.github/workflows`."""

    path: str
    name: str
    events: Mapping[str, EventRules]
    jobs: Mapping[str, Mapping[str, Any]]
    concurrency: object = None
    variables: object = None
    defaults: object = None
    fault: str | None = None
    """Why the file cannot be read; then it has neither events nor jobs."""


def read_workflows(files: Mapping[str, str]) -> dict[str, WorkflowFile]:
    """Parse the workflow files among these, by path."""
    found: dict[str, WorkflowFile] = {}
    left = _LONGEST_TOGETHER
    for path, text in sorted(files.items()):
        if _PATH.fullmatch(path):
            left -= len(text)
            found[path] = (
                _faulty(path, "the workflow files together are too long") if left < 0 else read_workflow(path, text)
            )
    return found


def read_actions(files: Mapping[str, str]) -> dict[str, Any]:
    """Parse the metadata files of local actions among these, by path; None for what cannot be read."""
    return {path: _mapping(text)[0] for path, text in files.items() if _ACTION.fullmatch(path)}


def read_workflow(path: str, text: str) -> WorkflowFile:
    """Parse one file; what GitHub would refuse has a fault."""
    value, fault = _mapping(text)
    if value is None:
        return _faulty(path, fault)
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
    return WorkflowFile(path, shown, events, jobs, value.get("concurrency"), value.get("env"), value.get("defaults"))


def _mapping(text: str) -> tuple[dict[str, Any] | None, str]:
    """Parse a text; without a value, the second is why."""
    try:
        document = parse(text, longest=_LONGEST, most_values=_MOST_VALUES)
    except ConfigError as error:
        return None, str(error.problems[0])
    if document.problems:
        return None, str(document.problems[0])
    if not isinstance(document.value, dict):
        return None, "it is no mapping" if text.strip() else "it is empty, or GitHub shows no complete text of it"
    return document.value, ""


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
    outputs = filters.get("outputs")
    outputs = outputs if isinstance(outputs, dict) else {}
    return EventRules(
        branches=read.get("branches"),
        branches_ignore=read.get("branches-ignore"),
        tags=bool({"tags", "tags-ignore"} & filters.keys()),
        paths=bool({"paths", "paths-ignore"} & filters.keys()),
        types=read.get("types"),
        inputs={name: each or {} for name, each in inputs.items()},
        outputs={name: each if isinstance(each, dict) else {} for name, each in outputs.items()},
    )


def _texts(value: object) -> tuple[str, ...] | None:
    """Read one text, or a list of texts and numbers; None if it is something else."""
    values: Sequence[object] = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(each, str | int | float) and not isinstance(each, bool) for each in values):
        return None
    return tuple(str(each) for each in values)
