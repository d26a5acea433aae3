"""Workflow files written for these tests, each labeled with what GitHub does for a candidate."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from queue_engine.domain.candidate_run import CandidateTrigger
from queue_engine.domain.facts import RequiredCheck
from queue_engine.workflows.event_context import CandidateContext

CORPUS = Path(__file__).parent / "corpus"
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
        return sure or next((trigger for trigger, tested in self.tested.items() if tested is None), None)


def labeled_workflows() -> list[LabeledWorkflows]:
    """Read the corpus."""
    return [_read(path) for path in sorted(CORPUS.glob("*.yml"))]


def _read(path: Path) -> LabeledWorkflows:
    text = path.read_text(encoding="utf-8")
    header = dict(line[2:].split(":", 1) for line in text.splitlines()[:4])
    first, *others = text.split("#@ ")
    files = {".github/workflows/ci.yml": first}
    for each in others:
        name, _, body = each.partition("\n")
        files[name] = body
    names = [name.strip() for name in header["required"].split(";") if name.strip()]
    return LabeledWorkflows(
        path.stem,
        files,
        frozenset(RequiredCheck(name, 15368) for name in names),
        {trigger: ANSWERS[header[trigger.value].strip()] for trigger in CandidateTrigger},
    )
