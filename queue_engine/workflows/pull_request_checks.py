"""Find the required checks that judge the pull request itself: its title, body, labels, number, author or commits.

On a candidate such a check would judge IMQ's own draft (winglang/wing #3432, Mergifyio/mergify #3582). Without a pull
request it finds no title (awslabs/automated-security-helper #302, ytanikin/pr-conventional-commits #55). It is one only
if nothing in its job, and in the jobs that it needs, can bring the tree: no checkout, no download, no program that is
not known. What is not certain is none.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from queue_engine.domain.facts import RequiredCheck
from queue_engine.workflows.event_context import CandidateContext
from queue_engine.workflows.expressions import ExpressionContext, Path, read, split, unwrapped
from queue_engine.workflows.job_checks import JobCheck, called_workflow, needed_jobs
from queue_engine.workflows.known_actions import JUDGES, SCRIPT, WITHOUT_TREE
from queue_engine.workflows.script_commands import ScriptError, script_commands
from queue_engine.workflows.step_proof import action_of
from queue_engine.workflows.workflow_file import WorkflowFile


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LONGEST = 20_000
"""Characters of a program; a longer one is not read."""
_MOST_JOBS = 100
"""Jobs that one check may depend on; with more it is unknown."""
_OF_JOB = _names(
    "name if needs permissions runs-on timeout-minutes concurrency continue-on-error env outputs strategy steps"
    " defaults uses with secrets"
)
"""A container or a service may have the tree; an environment has rules of its own."""
_OF_STEP = _names("name id if uses run with env shell timeout-minutes continue-on-error working-directory")
_SHELLS = frozenset({None, "bash", "sh"})
_OTHER_FIELDS = _names("base id node_id merge_commit_sha merged state")
"""Of a pull request: what IMQ's draft has like each other one."""
_OTHER_OF_HEAD = frozenset({"sha", "repo"})
_OF_EVENT = frozenset(
    {("github", name) for name in ("head_ref", "actor", "actor_id", "triggering_actor")}
    | {("github", "event", name) for name in ("number", "label", "sender")}
)
_COMMANDS = _names(
    "[ [[ test true : false echo printf exit return set export local declare readonly read shift break continue for"
    " grep egrep fgrep sed awk tr cut wc head tail sort uniq cat tee jq date sleep"
)
"""They see what the job has: without a tree, only texts and the event."""
_VIEWED = _names(
    "assignees author baseRefName body comments commits createdAt headRefName id isCrossRepository isDraft labels"
    " latestReviews milestone number reviewDecision reviewRequests reviews state title updatedAt url"
)
"""What `gh pr view --json` may show of a pull request besides its files and checks (cli/cli `api/query_builder.go`)."""
_ASKED = re.compile(r"/?repos(?:/[^/\s]+){1,2}/(?:pulls/[^/\s]+(?:/(?:commits|reviews))?|issues/[^/\s]+(?:/labels)?)")
_DOWNLOADS = re.compile(r"/dev/(?:tcp|udp)/|\b(?:system|getline)\b")
"""By bash and by `awk`."""
_READ_BY_SCRIPT = re.compile(r"\bGITHUB_(?:EVENT_PATH|HEAD_REF|ACTOR)\b")
_READ_BY_PROGRAM = re.compile(r"\bcontext\b(?!\s*\.\s*(?!payload\b|issue\b|actor\b))")
_PROGRAMS = re.compile(
    r"\b(?:require|fetch|import|eval|Function|getOctokit)\s*[(;,)=]|(?<![.\w])(?:exec|glob|io)\b|\bimport\s"
    r"|\b(?:octokit|globalThis|WebSocket|XMLHttpRequest|mediaType|headers|__original_require__)\b"
    r"|\bprocess\b(?!\s*\.\s*env\b)"
)
"""What lets a script of `actions/github-script` get anything else than the API's answers (its README)."""
_CALLS = re.compile(r"(?<![\w$/.@-])github\b(?!\.com\b|/)")
_HARMLESS_CALLS = re.compile(
    r"\s*\.\s*(?:(?:rest\s*\.\s*)?(?:(?:pulls\s*\.\s*(?!listFiles\b)|(?:issues|users|orgs|teams)\s*\.\s*)\w+"
    r"|repos\s*\.\s*getCollaboratorPermissionLevel\b)|paginate\s*(?:\.\s*iterator\s*)?\(\s*(?=github\b))"
)


def pull_request_checks(
    files: Mapping[str, WorkflowFile],
    jobs: Collection[JobCheck],
    required: Iterable[RequiredCheck],
    candidate: CandidateContext,
) -> frozenset[RequiredCheck]:
    """Return those of the required checks that judge the pull request, and cannot judge the tree.

    `jobs` are those for an author's pull request, and for a push: each that may have the name counts.
    """
    reader = _Reader(files, candidate)
    running = [each for each in jobs if each.runs is not False]
    return frozenset(check for check in required if _is_one(reader, check.name, running))


def _is_one(reader: "_Reader", name: str, running: Iterable[JobCheck]) -> bool:
    possible = [each for each in running if each.name.may_be(name)]
    return any(each.name.known == name for each in possible) and all(map(reader.judges, possible))


class _Reader:
    """Reads jobs; an answer is whether something reads the pull request, and None where it may bring the tree."""

    def __init__(self, files: Mapping[str, WorkflowFile], candidate: CandidateContext) -> None:
        self._files = files
        self._events = {"pull_request"}
        if candidate.base_branch == candidate.default_branch:
            # Since 2025-12-08 its files are those of the default branch (GitHub's changelog; vyos/vyatta-bash #21).
            self._events.add("pull_request_target")
        self._known: dict[tuple[str, str], bool | None] = {}
        self._checks: dict[tuple[str, str], bool] = {}

    def judges(self, check: JobCheck) -> bool:
        """Whether the job of this check judges the pull request, with all jobs that it depends on."""
        key = check.path, check.job
        if key not in self._checks:
            self._checks[key] = self._read(check)
        return self._checks[key]

    def _read(self, check: JobCheck) -> bool:
        workflow = self._files.get(check.path)
        if workflow is None or not self._events & workflow.events.keys():
            return False
        todo: list[tuple[WorkflowFile | None, str]] = []
        *callers, job_id = check.job.split(" / ")
        for caller in callers:
            todo.append((workflow, caller))
            workflow = None if workflow is None else called_workflow(self._files, workflow.jobs.get(caller, {}))
        todo.append((workflow, job_id))
        whole = {(workflow.path, job_id)} if workflow is not None else set()
        visited: dict[tuple[str, str], bool | None] = {}
        while todo:
            of, job_id = todo.pop()
            if of is None or len(visited) >= _MOST_JOBS:
                return False
            key = of.path, job_id
            if key in visited:
                continue
            visited[key] = self._job(of, job_id)
            if visited[key] is None:
                return False
            job = of.jobs[job_id]
            needed = needed_jobs(job)
            whole |= {(of.path, each) for each in needed}
            todo += [(of, each) for each in needed]
            if key in whole and "uses" in job:
                called = called_workflow(self._files, job)
                jobs = [] if called is None else list(called.jobs)
                whole |= {(called.path, each) for each in jobs} if called is not None else set()
                todo += [(called, each) for each in jobs] or [(None, "")]
        return any(visited.values())

    def _job(self, workflow: WorkflowFile, job_id: str) -> bool | None:
        key = workflow.path, job_id
        if key not in self._known:
            job = workflow.jobs.get(job_id)
            self._known[key] = None if job is None else _job(workflow, job)
        return self._known[key]


def _job(workflow: WorkflowFile, job: Mapping[str, Any]) -> bool | None:
    steps = job.get("steps")
    if job.keys() - _OF_JOB or not (isinstance(steps, list) or "uses" in job):
        return None
    if not {_shell(workflow.defaults), _shell(job.get("defaults"))} <= _SHELLS:
        return None
    read_before = [_expressions(workflow.variables), _condition(job.get("if"))]
    read_before += [_expressions(job.get(key)) for key in ("env", "with", "strategy", "outputs")]
    return _either([*read_before, *map(_step, steps or [])])


def _shell(defaults: object) -> object:
    run = defaults.get("run") if isinstance(defaults, dict) else None
    shell = run.get("shell") if isinstance(run, dict) else None
    return shell if shell is None or isinstance(shell, str) else ""


def _either(answers: Sequence[bool | None]) -> bool | None:
    return None if None in answers else True in answers


def _step(step: object) -> bool | None:
    if not isinstance(step, dict) or step.keys() - _OF_STEP or step.get("shell") not in _SHELLS:
        return None
    own = [_condition(step.get("if")), _expressions(step.get("env")), _expressions(step.get("with"))]
    if "run" in step:
        return _either([*own, _expressions(step["run"]), _script(str(step["run"]))])
    action = action_of(step)
    if action == SCRIPT:
        given = step.get("with")
        script = given.get("script") if isinstance(given, dict) else None
        return _either([*own, None if script is None else _program(str(script))])
    return _either([*own, True if action in JUDGES else False if action in WITHOUT_TREE else None])


def _condition(written: object) -> bool | None:
    text = unwrapped(written) if isinstance(written, str) else None
    return _expressions(written if text is None else f"${{{{ {text} }}}}")


def _expressions(value: object) -> bool | None:
    """Whether an expression in a value of the file reads the pull request; None if one cannot be read."""
    if isinstance(value, dict | list):
        return _either([_expressions(each) for each in (value.values() if isinstance(value, dict) else value)])
    if not isinstance(value, str):
        return False
    found = [read(each, ExpressionContext({}, {}))[1] for each in split(value)[1::2]]
    return _either([None if paths is None else any(map(_of_pull_request, paths)) for paths in found])


def _of_pull_request(path: Path) -> bool:
    if path[:3] != ("github", "event", "pull_request"):
        return any(path[: len(each)] == each or each[: len(path)] == path for each in _OF_EVENT)
    field = path[3:5]
    return not field or (field[0] not in _OTHER_FIELDS and not (field[0] == "head" and {*field[1:]} & _OTHER_OF_HEAD))


def _without_expressions(text: str) -> str:
    return "".join("x" if place % 2 else part for place, part in enumerate(split(text)))


def _script(script: str) -> bool | None:
    text = _without_expressions(script)
    try:
        asks = [_command(words) for words in script_commands(text)]
    except ScriptError:
        return None
    return None if _DOWNLOADS.search(text) else _either([*asks, _READ_BY_SCRIPT.search(text) is not None])


def _command(words: Sequence[str]) -> bool | None:
    if words[0] in _COMMANDS:
        return False
    if words[:3] == ["gh", "pr", "view"]:
        options = [each.removeprefix("--json=") for each in words if each.startswith("--json=")]
        options += [after for before, after in pairwise(words) if before == "--json"]
        return True if {name for each in options for name in each.split(",")} <= _VIEWED else None
    if words[:2] == ["gh", "api"]:
        # With a header of its own the answer may be a diff.
        paths = [each for each in words[2:] if each.lstrip("/").startswith("repos/") or each.startswith(("-H", "--h"))]
        return True if len(paths) == 1 and _ASKED.fullmatch(paths[0].partition("?")[0]) else None
    return False if words[:3] in (["gh", "pr", "comment"], ["gh", "pr", "edit"]) else None


def _program(script: str) -> bool | None:
    """Judge a script of `actions/github-script`."""
    text = _without_expressions(script)
    calls = [_HARMLESS_CALLS.match(text, each.end()) is not None for each in _CALLS.finditer(text)]
    if len(text) > _LONGEST or _PROGRAMS.search(text) or not all(calls):
        return None
    return bool(calls) or _READ_BY_PROGRAM.search(text) is not None or _expressions(script)
