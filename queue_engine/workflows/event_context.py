"""The contexts that expressions read, for each event that may start CI on a candidate."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from queue_engine.workflows.expressions import Path
from queue_engine.workflows.values import UNKNOWN, PatternValue, Value


class WorkflowEvent(StrEnum):
    PUSH = "push"
    """Of the candidate's branch."""
    PULL_REQUEST = "pull_request"
    """IMQ opens a draft pull request of that branch."""
    DISPATCH = "workflow_dispatch"
    """IMQ dispatches the workflow on that branch."""
    AUTHOR = "author"
    """For comparison: somebody opens a pull request into the base branch, or pushes to it."""
    PERSON = "person"
    """The same by an ordinary person, on a pull request without labels."""


BRANCH_EVENTS = frozenset({WorkflowEvent.PUSH, WorkflowEvent.DISPATCH})
"""Events of a branch, which have no pull request."""
AUTHORS = frozenset({WorkflowEvent.AUTHOR, WorkflowEvent.PERSON})
"""Events that candidates are compared with."""


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


_A_PERSON = PatternValue(form=r"[^\[\]]+", identity="")
_COMMIT = r"[0-9a-f]{40,64}"


def _commit(candidate: CandidateContext) -> PatternValue:
    return PatternValue(form=_COMMIT, identity=f"commit of {candidate.branch}")


def _under(root: Path, names: str) -> frozenset[Path]:
    return frozenset((*root, name) for name in names.split())


_REPOSITORY = ("github", "event", "repository")
_FREE = (
    _under(
        ("github",),
        "action action_path action_ref action_repository action_status api_url artifact_cache_size_limit env"
        " graphql_url job output path ref_type repository repository_id repository_owner repository_owner_id"
        " repository_visibility repositoryurl retention_days run_attempt run_id run_number server_url sha state"
        " step_summary token workflow workspace",
    )
    | _under(("github", "event"), "enterprise installation organization")
    | _under(
        _REPOSITORY, "archived default_branch description fork full_name html_url id name node_id private visibility"
    )
    | _under((*_REPOSITORY, "owner"), "id login node_id type")
)
"""What of `github` is the same for each event. `sha` is the commit under test, whichever it is.

The repository of a push has more (`master_branch`, `stargazers`), less (`allow_merge_commit`) and other values (`url`,
`created_at`) than that of a pull request (githubkit's models of both payloads; examples in docs: "Webhook events").
"""
_FREE_OF_DRAFTS = (
    _FREE
    | {_REPOSITORY}
    | _under(("github",), "base_ref event_name event_path ref ref_name ref_protected workflow_ref workflow_sha")
    | _under(("github", "event"), "number")
    | _under(("github", "event", "pull_request"), "base id merge_commit_sha merged node_id number state url")
    | _under(("github", "event", "pull_request", "head"), "sha")
    | _under(("github", "event", "pull_request", "head", "repo"), "full_name id name node_id owner")
)
"""What IMQ's draft has like each pull request, or like each one from a branch of the repository."""


def free_paths(event: WorkflowEvent) -> frozenset[Path]:
    """Return what of the context `github` is of the same kind on a candidate and on an author's pull request."""
    return _FREE if event in BRANCH_EVENTS else _FREE_OF_DRAFTS


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
        "sha": _commit(candidate),
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
    return _on_branch(candidate, "push", payload | {"after": _commit(candidate)})


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
            "sha": _commit(candidate),
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
        "label": UNKNOWN,
        "action": UNKNOWN,
        "inputs": None,
        "*": UNKNOWN,
    }
    changes: dict[str, Value] = {"actor": UNKNOWN, "triggering_actor": UNKNOWN}
    return _of_pull_request(candidate, PatternValue(), event) | changes


def _person(candidate: CandidateContext) -> dict[str, Value]:
    made = _author(candidate)
    event = made["event"]
    assert isinstance(event, dict)
    user = {"login": _A_PERSON, "type": "User", "*": UNKNOWN}
    lists: dict[str, Value] = {"labels": [], "assignees": [], "milestone": None}
    pull = {**event["pull_request"], "user": user, **lists}
    more = {"event": {**event, "pull_request": pull, "sender": user, "label": None}}
    return made | {"actor": _A_PERSON, "triggering_actor": _A_PERSON} | more


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
    WorkflowEvent.PERSON: _person,
}
