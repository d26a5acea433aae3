"""The keys about trains."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from queue_engine.config.kinds import AutoRuns, ConfigModel, Timeout
from queue_engine.domain.train_policy import MOST_MEMBERS

CandidatesName = Literal["off", "auto", "push", "pull_request", "dispatch"]


def _off_or_auto(value: object) -> object:
    """Accept `on`, and truth values in place of both words."""
    words = {True: "auto", False: "off", "on": "auto"}
    return words.get(value, value) if isinstance(value, str | bool) else value


def _off_or_on(value: object) -> object:
    """Accept truth values: YAML 1.1 reads both words as such."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


class TrainRules(ConfigModel):
    """Whether IMQ tests several pull requests in one CI run, and how."""

    candidates: Annotated[CandidatesName, BeforeValidator(_off_or_auto)] | None = Field(
        None,
        description="What starts CI on a branch with several pull requests; `trains: auto` is short for "
        "`candidates: auto`.",
    )
    runs: AutoRuns | None = Field(
        None,
        description="How many CI runs may be active at once; `auto` is one more than CI ran at once before, up to 16.",
    )
    max_size: int | None = Field(None, ge=1, le=MOST_MEMBERS, description="How many pull requests one CI run may test.")
    first_report: Timeout | None = Field(
        None,
        description="How long a required check may take to start on a train's branch, before IMQ tests one pull "
        "request at a time.",
    )
    split: Literal["bisect", "single"] | None = Field(
        None,
        description="Whether IMQ bisects a run that failed, or tests each of its pull requests alone.",
    )
    forks: Annotated[Literal["off", "reviewed", "on"], BeforeValidator(_off_or_on)] | None = Field(
        None,
        description="Which pull requests of forks a train may test: CI has the repository's secrets there. "
        "`reviewed` are those whose queued head somebody with write access has approved. Others are tested alone, by "
        "their own heads, and so is each that changes workflow files or local actions.",
    )


def _choice_or_trains(value: object) -> object:
    return {"candidates": value} if isinstance(value, str | bool) else value


Trains = Annotated[
    TrainRules,
    BeforeValidator(_choice_or_trains, json_schema_input_type=CandidatesName | TrainRules),
]
"""A section, or the value of its key `candidates`."""
