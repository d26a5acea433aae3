"""The contexts that expressions read, for each event that may start CI on a candidate."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from queue_engine.workflows.values import UNKNOWN, PatternValue, Value


class WorkflowEvent(StrEnum):
    """An event that starts workflows."""

    PUSH = "push"
    """Of the candidate's branch."""
    PULL_REQUEST = "pull_request"
    """IMQ opens a draft pull request of that branch."""
    DISPATCH = "workflow_dispatch"
    """IMQ dispatches the workflow on that branch."""
    AUTHOR = "author"
    """For comparison: a person opens a pull request into the base branch."""


@dataclass(frozen=True, slots=True)
class CandidateContext:
    """What is known of a candidate before it exists."""

    repository: str
    base_branch: str
    branch: str
    """The candidate's branch, such as `imq/main/1`."""
    default_branch: str
    """That of the repository; "" if it is not known."""
    drafts: bool = True
    """Whether the repository has draft pull requests."""


_OTHER_APPS = frozenset(
    f"{name}[bot]" for name in ("dependabot", "dependabot-preview", "renovate", "github-actions", "mergify", "kodiakhq")
)
_OWN_LOGIN = PatternValue(suffix="[bot]", form=r"[a-z0-9-]+\[bot\]", others=_OTHER_APPS, identity="actor")
_NULL_IN_EVENTS: Mapping[str, Value] = dict.fromkeys(
    ("issue", "comment", "review", "release", "workflow_run", "merge_group", "label", "schedule", "client_payload")
)


def event_values(event: WorkflowEvent, candidate: CandidateContext, workflow: str) -> dict[str, Value]:
    """Return the contexts `github` and, of those without secrets and settings, the ones that are known."""
    common: dict[str, Value] = {
        "repository": candidate.repository,
        "repository_owner": candidate.repository.partition("/")[0],
        "workflow": workflow,
        "ref_type": "branch",
        "actor": _OWN_LOGIN,
        "triggering_actor": _OWN_LOGIN,
        "head_ref": "",
        "base_ref": "",
        "run_id": PatternValue(form=r"\d+", identity=f"run of {candidate.branch}"),
        "run_number": PatternValue(form=r"\d+", identity=f"run of {candidate.branch}"),
        "run_attempt": UNKNOWN,
        "sha": PatternValue(form=r"[0-9a-f]{40,64}", identity=f"commit of {candidate.branch}"),
        "*": UNKNOWN,
    }
    github = common | _OF_EVENT[event](candidate)
    return {"github": github, "inputs": {}}


def _repository(candidate: CandidateContext) -> Value:
    owner, _, name = candidate.repository.partition("/")
    return {
        "full_name": candidate.repository,
        "name": name,
        "owner": {"login": owner, "*": UNKNOWN},
        "default_branch": candidate.default_branch or UNKNOWN,
        "*": UNKNOWN,
    }


def _on_branch(candidate: CandidateContext, name: str, payload: Mapping[str, Value]) -> dict[str, Value]:
    ref = f"refs/heads/{candidate.branch}"
    event = {
        "ref": ref,
        "repository": _repository(candidate),
        "sender": {"login": _OWN_LOGIN, "type": "Bot", "*": UNKNOWN},
        **_NULL_IN_EVENTS,
        **payload,
        "*": UNKNOWN,
    }
    return {"event_name": name, "ref": ref, "ref_name": candidate.branch, "event": event}


def _push(candidate: CandidateContext) -> dict[str, Value]:
    payload: dict[str, Value] = {"pull_request": None, "action": None, "number": None, "inputs": None, "deleted": False}
    return _on_branch(candidate, "push", payload)


def _dispatch(candidate: CandidateContext) -> dict[str, Value]:
    payload: dict[str, Value] = {"pull_request": None, "action": None, "number": None, "head_commit": None}
    return _on_branch(candidate, "workflow_dispatch", payload)


def _pull_request(candidate: CandidateContext) -> dict[str, Value]:
    pull: dict[str, Value] = {
        "draft": candidate.drafts,
        "labels": [],
        "assignees": [],
        "requested_reviewers": [],
        "milestone": None,
        "state": "open",
        "merged": False,
        "user": {"login": _OWN_LOGIN, "type": "Bot", "*": UNKNOWN},
        "head": {
            "ref": candidate.branch,
            "repo": _repository(candidate),
            "sha": PatternValue(form=r"[0-9a-f]{40,64}", identity=f"commit of {candidate.branch}"),
            "*": UNKNOWN,
        },
        "number": PatternValue(form=r"\d+", identity=f"number of {candidate.branch}"),
        "base": {"ref": candidate.base_branch, "repo": _repository(candidate), "*": UNKNOWN},
        "*": UNKNOWN,
    }
    event = {
        "action": "opened",
        "number": pull["number"],
        "pull_request": pull,
        "repository": _repository(candidate),
        "sender": pull["user"],
        **_NULL_IN_EVENTS,
        "inputs": None,
        "*": UNKNOWN,
    }
    return _of_pull_request(candidate, candidate.branch, event)


def _author(candidate: CandidateContext) -> dict[str, Value]:
    base = {"ref": candidate.base_branch, "repo": _repository(candidate), "*": UNKNOWN}
    pull: dict[str, Value] = {"draft": False, "state": "open", "merged": False, "base": base, "*": UNKNOWN}
    event = {
        "pull_request": pull,
        "repository": _repository(candidate),
        **_NULL_IN_EVENTS,
        "action": UNKNOWN,
        "inputs": None,
        "*": UNKNOWN,
    }
    changes: dict[str, Value] = {"actor": UNKNOWN, "triggering_actor": UNKNOWN, "sha": UNKNOWN}
    return _of_pull_request(candidate, UNKNOWN, event) | changes


def _of_pull_request(candidate: CandidateContext, head: Value, event: Value) -> dict[str, Value]:
    identity = f"number of {candidate.branch}"
    return {
        "event_name": "pull_request",
        "head_ref": head,
        "base_ref": candidate.base_branch,
        "ref": PatternValue("refs/pull/", "/merge", r"refs/pull/\d+/merge", identity=identity),
        "ref_name": PatternValue("", "/merge", r"\d+/merge", identity=identity),
        "event": event,
    }


_OF_EVENT = {
    WorkflowEvent.PUSH: _push,
    WorkflowEvent.PULL_REQUEST: _pull_request,
    WorkflowEvent.DISPATCH: _dispatch,
    WorkflowEvent.AUTHOR: _author,
}
