"""Workflow files written for these tests, each labeled with what GitHub does for a candidate.

`corpus` has one repository a file, for triggers, filters and names. `cases` has many a file, for what a job does once
it runs. Their headers are `=== name | required checks | push pull_request dispatch`, and they run on
`[push, pull_request]` where nothing else is said.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from queue_engine.domain.facts import RequiredCheck
from queue_engine.domain.run import UNPROVEN, CandidateTrigger
from queue_engine.workflows.event_context import CandidateContext

CORPUS = Path(__file__).parent / "corpus"
CASES = Path(__file__).parent / "cases"
CANDIDATE = CandidateContext("octo/garden", "main", "imq/main/1", "main")

ANSWERS: Mapping[str, bool | None] = {"yes": True, "no": False, "depends": None}


@dataclass(frozen=True, slots=True)
class LabeledWorkflows:
    """The workflow files of one repository, and which triggers test its required checks on a candidate."""

    name: str
    files: Mapping[str, str]
    required: frozenset[RequiredCheck]
    tested: Mapping[CandidateTrigger, bool | None]
    """None: it depends on what the files do not say."""

    @property
    def trigger(self) -> CandidateTrigger | None:
        """The right trigger: the first that tests, or else the first that may."""
        sure = next((trigger for trigger, tested in self.tested.items() if tested), None)
        return sure or next((trigger for trigger in UNPROVEN if self.tested[trigger] is None), None)


def labeled_workflows() -> list[LabeledWorkflows]:
    """Read the corpus."""
    return [_read(path) for path in sorted(CORPUS.glob("*.yml"))]


def labeled_cases() -> list[LabeledWorkflows]:
    """Read the cases."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(CASES.glob("*.txt")))
    return [_case(each) for text in texts for each in text.removeprefix("=== ").split("\n=== ")]


def _case(text: str) -> LabeledWorkflows:
    header, _, body = text.partition("\n")
    name, required, answers = map(str.strip, header.split("|"))
    first = body.partition("#@ ")[0]
    start = "" if first.startswith("on:") or "\non:" in first else "on: [push, pull_request]\n"
    return _labeled(name, required, dict(zip(CandidateTrigger, answers.split(), strict=True)), f"{start}{body}\n")


def _read(path: Path) -> LabeledWorkflows:
    text = path.read_text(encoding="utf-8")
    header = dict(line[2:].split(":", 1) for line in text.splitlines()[:4])
    return _labeled(
        path.stem, header["required"], {each: header[each.value].strip() for each in CandidateTrigger}, text
    )


def _labeled(name: str, required: str, answers: Mapping[CandidateTrigger, str], text: str) -> LabeledWorkflows:
    first, *others = text.split("#@ ")
    files = {".github/workflows/ci.yml": first}
    for each in others:
        path, _, body = each.partition("\n")
        files[path] = body
    names = [each.strip() for each in required.split(";") if each.strip()]
    checks = frozenset(RequiredCheck(each, 15368) for each in names)
    return LabeledWorkflows(name, files, checks, {trigger: ANSWERS[answer] for trigger, answer in answers.items()})
