"""Choose what starts CI on candidates: the first trigger for which every required check runs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from queue_engine.domain.facts import GITHUB_ACTIONS, RequiredCheck
from queue_engine.domain.policy import Candidates
from queue_engine.domain.run import UNPROVEN, CandidateTrigger
from queue_engine.workflows.event_context import CandidateContext, WorkflowEvent
from queue_engine.workflows.job_checks import JobCheck, job_checks
from queue_engine.workflows.pull_request_checks import pull_request_checks
from queue_engine.workflows.repository_scripts import RepositoryFiles, RepositoryScripts, folders_of
from queue_engine.workflows.trigger_lines import WorkflowLines, lines_against_builds, lines_to_add
from queue_engine.workflows.values import all_of
from queue_engine.workflows.workflow_file import read_actions, read_workflows

_EVENTS = {
    CandidateTrigger.PUSH: WorkflowEvent.PUSH,
    CandidateTrigger.PULL_REQUEST: WorkflowEvent.PULL_REQUEST,
    CandidateTrigger.DISPATCH: WorkflowEvent.DISPATCH,
}


_NAMED = 3


@dataclass(frozen=True, slots=True)
class TriggerReport:
    """Whether every required check runs on a candidate by one trigger."""

    trigger: CandidateTrigger
    runs: bool | None
    """None: unknown."""
    reasons: tuple[str, ...] = ()
    """Why checks do not run, or may not: a sentence without its full stop, once for all checks with the same reason."""
    workflows: tuple[str, ...] = ()
    """The files with the required checks, for a dispatch; those that may have them where no file surely has."""
    doubtful: bool = False
    """Whether a check may pass there without its test, which no try shows: then IMQ does not use this trigger."""

    @property
    def rests_on_scripts(self) -> bool:
        """Whether it is proven, as far as the scripts that its steps name read nothing of the event."""
        return bool(self.runs) and self.trigger is not CandidateTrigger.PULL_REQUEST

    @property
    def can_be_tried(self) -> bool:
        """Whether a train may show what the files do not."""
        return self.runs is None and not self.doubtful


@dataclass(frozen=True, slots=True)
class TriggerChoice:
    """The trigger for candidates of one base branch, and why."""

    trigger: CandidateTrigger | None
    """None: no trigger runs every required check."""
    proven: bool
    """Whether the files prove that every required check runs; otherwise the first train has to show it."""
    answers: tuple[TriggerReport, ...]
    """Of each trigger, in the order in which they are preferred."""
    lines: tuple[WorkflowLines, ...]
    """What to change, so that every required check runs on a push."""
    on_builds: tuple[WorkflowLines, ...] = ()
    """What to change, so that no workflow runs for each member while IMQ builds a candidate."""
    pull_request_checks: tuple[RequiredCheck, ...] = ()
    """Checks that judge the pull request, not the tree: they count from the members' own heads."""

    @property
    def workflows(self) -> tuple[str, ...]:
        """The files to dispatch."""
        return next((each.workflows for each in self.answers if each.trigger is self.trigger), ())


def choose_trigger(
    texts: Mapping[str, str],
    required: Iterable[RequiredCheck],
    candidate: CandidateContext,
    wanted: Candidates,
    listed: RepositoryFiles | None = None,
) -> TriggerChoice:
    """Choose among the triggers that the configuration allows, by the workflow files at the base's tip.

    `listed` are all files of that commit; those in `texts`, if it is left out.
    """
    files, actions = read_workflows(texts), read_actions(texts)
    named = {path: text for path, text in texts.items() if path not in files and path not in actions}
    scripts = RepositoryScripts(named, folders_of(texts), listed or RepositoryFiles(named))
    author = job_checks(files, WorkflowEvent.AUTHOR, candidate)
    needed = sorted(set(required), key=lambda each: (each.name, each.app_id or 0))
    person = [] if needed else job_checks(files, WorkflowEvent.PERSON, candidate)
    unrequired, unread, needed = not needed, _unread(person), needed or _every_check(person)
    checks = {trigger: job_checks(files, event, candidate, actions, scripts) for trigger, event in _EVENTS.items()}
    of_actions = [each for each in needed if each.app_id in (None, GITHUB_ACTIONS)]
    judging = pull_request_checks(files, (*author, *checks[CandidateTrigger.PUSH]), of_actions, candidate)
    # Without another check, nothing would test the tree.
    apart = [each for each in needed if each in judging and len(judging) < len(needed)]
    perhaps = {each.name.known for each in person if each.runs is None} - {
        each.name.known for each in person if each.runs
    }
    tested = [each for each in needed if each not in apart]
    answers = tuple(
        _answer(trigger, tested, found, author, (unrequired, unread, perhaps)) for trigger, found in checks.items()
    )
    allowed = {each.trigger: each for each in answers if wanted in (Candidates.AUTO, each.trigger.value)}
    chosen = next((each for each in allowed.values() if each.runs), None)
    unproven = (allowed[each] for each in UNPROVEN if each in allowed and allowed[each].can_be_tried)
    chosen = chosen or next(unproven, None)
    tree_checks = [each for each in needed if each not in judging]
    lines = lines_to_add(files, _of_required(tree_checks, checks[CandidateTrigger.PUSH], author), candidate)
    return TriggerChoice(
        trigger=None if chosen is None else chosen.trigger,
        proven=chosen is not None and chosen.runs is True,
        answers=answers,
        lines=lines,
        on_builds=lines_against_builds(files, candidate),
        pull_request_checks=tuple(apart),
    )


def _every_check(person: Sequence[JobCheck]) -> list[RequiredCheck]:
    """Return the checks that report on a pull request: where no check is required, each of them has to pass."""
    names = {each.name.known for each in person if each.runs is not False}
    return [RequiredCheck(name, None) for name in sorted(filter(None, names))]


def _unread(person: Sequence[JobCheck]) -> str:
    """Return why there may be checks on a pull request whose names are not known, or ""."""
    unread = (each for each in person if each.name.known is None and each.runs is not False)
    return next((each.why or f"`{each.path}` computes the name of job `{each.job}`" for each in unread), "")


def _answer(
    trigger: CandidateTrigger,
    needed: Sequence[RequiredCheck],
    found: Sequence[JobCheck],
    author: Sequence[JobCheck],
    nothing_required: tuple[bool, str, Collection[str | None]],
) -> TriggerReport:
    """Judge one trigger. The last: whether nothing is required, why then checks may be missing, which may not come."""
    unrequired, unread, perhaps = nothing_required
    answers: list[bool | None] = [None] if unread else []
    missing: dict[str, list[str]] = {}
    workflows: list[str] = []
    # Where nothing is required, nobody misses a check that does not start.
    unshown = unrequired and trigger is not CandidateTrigger.PULL_REQUEST
    doubtful = unshown and bool(unread)
    for check in needed:
        runs, why = _check(check, found, author)
        runs = None if runs is False and check.name in perhaps else runs
        doubtful |= runs is None and any(
            _hides(each, check, author) or (unshown and each.name.may_be(check.name)) for each in found
        )
        answers.append(runs)
        workflows += _files(check, found)
        if not runs:
            missing.setdefault(why, []).append(f"`{check.name}`")
    reasons = [unread] if unread else []
    reasons += [f"{_listed(names)}: {why}" for why, names in missing.items()]
    if not needed:
        reasons.append("no workflow of this repository is known to report a check on a pull request")
        answers.append(None)
    texts = tuple(dict.fromkeys(reasons)), tuple(dict.fromkeys(workflows))
    return TriggerReport(trigger, all_of(answers), *texts, doubtful)


def _listed(names: Sequence[str]) -> str:
    """Name the first checks, since a matrix has dozens."""
    found = list(dict.fromkeys(names))
    more = len(found) - _NAMED
    return ", ".join(found[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _hides(job: JobCheck, check: RequiredCheck, author: Sequence[JobCheck]) -> bool:
    """Whether a check may pass although this job of its name tests nothing: other jobs of that name may pass."""
    if check.app_id not in (None, GITHUB_ACTIONS) or not job.name.may_be(check.name):
        return False
    if job.untested is None or job.runs is not False or job.name.known is None:
        return job.untested is None
    return any(each.runs is not False and _key(each) == _key(job) for each in author)


def _files(check: RequiredCheck, found: Sequence[JobCheck]) -> list[str]:
    """Return the files whose job of this name runs, or else may run."""
    named = [each for each in found if each.name.may_be(check.name) and each.runs is not False]
    sure = [each for each in named if each.runs and each.name.known == check.name]
    return [each.path for each in sure or named]


def _check(check: RequiredCheck, found: Sequence[JobCheck], author: Sequence[JobCheck]) -> tuple[bool | None, str]:
    """Whether a required check runs: one job of its name at least, and each that runs on an author's pull request."""
    if check.app_id not in (None, GITHUB_ACTIONS):
        return None, "another App reports it, and IMQ cannot read that App's rules"
    named = [each for each in found if each.name.known == check.name]
    possible = [each for each in found if each.name.known is None and each.name.may_be(check.name)]
    runs_for_author = {_key(each): each.runs for each in author}
    if not named:
        return _computed(possible)
    relevant = [each for each in named if runs_for_author.get(_key(each)) is not False] or named
    why = next((each.why for each in relevant if not each.runs), "")
    if all(each.runs is False for each in named):
        return False, why
    if not all(each.runs for each in relevant):
        return None, why or "another job of this name does not run"
    # A job whose name may be this one counts as well, and so does a file that was not read.
    for each in possible:
        if each.runs is None or (each.runs is False and runs_for_author.get(_key(each)) is not False):
            return None, each.why
    return True, ""


def _computed(possible: Sequence[JobCheck]) -> tuple[bool | None, str]:
    """Judge a check by the jobs whose names may be its own: a name that may be any is no evidence."""
    running = next((each for each in possible if each.runs is not False), None)
    if running is not None:
        return None, running.why or "its name is computed"
    if evidence := next((each for each in possible if any(part and part.strip() for part in each.name.parts)), None):
        return False, evidence.why
    return None, "no workflow of this repository has a job of this name: another App or a status reports it"


def _key(check: JobCheck) -> tuple[str, str, str | None]:
    return check.path, check.job, check.name.known


def _of_required(
    needed: Sequence[RequiredCheck], found: Sequence[JobCheck], author: Sequence[JobCheck]
) -> list[JobCheck]:
    """Return the jobs of required checks that run on an author's pull request and do not on a push."""
    names = {each.name for each in needed}
    expected = {_key(each) for each in author if each.runs is not False}
    return [each for each in found if each.name.known in names and each.runs is not True and _key(each) in expected]
