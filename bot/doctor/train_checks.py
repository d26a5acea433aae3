"""Check whether trains can run on a base branch: what starts CI, which rules refuse branches or landings. Pure."""

from collections.abc import Iterator, Sequence

from bot.api.finding import Finding
from bot.doctor.doctor_facts import RepositoryFacts, TrainFacts
from bot.gateway.rules.branch_rules import RulesetBypass
from queue_engine.domain.facts import BranchRules, MergeMethod
from queue_engine.domain.policy import TrainForks
from queue_engine.domain.run import CandidateTrigger
from queue_engine.workflows.trigger_choice import TriggerReport
from queue_engine.workflows.trigger_lines import WorkflowLines

_CI_PAGE, _RULES_PAGE = "docs/trains.md#what-starts-ci", "docs/trains.md#rules-and-bypasses"
_FORKS_PAGE = "docs/trains.md#pull-requests-of-forks"
_OF_CI = frozenset({"trains_without_ci", "trains_unproven", "trains_builds_start_ci"})
_ONE_BY_ONE = "IMQ tests and lands one pull request after the other."
_HARMLESS = frozenset({"non_fast_forward", "tag_name_pattern", "copilot_code_review"})
"""Rules that no step of a train violates."""
_OF_TESTED_COMMITS = frozenset({"required_status_checks", "creation", "deletion", "branch_name_pattern"})
"""Rules of the base that a tested candidate fulfils, or that do not concern its landing."""
_ALWAYS, _EXEMPT = "always", "exempt"
_STARTS = {
    CandidateTrigger.PUSH: "a push of its branch starts CI",
    CandidateTrigger.PULL_REQUEST: "a draft pull request of its branch starts CI, which costs notifications",
    CandidateTrigger.DISPATCH: "`workflow_dispatch` starts CI on its branch",
}


_FORKS = {
    TrainForks.OFF: "tested alone",
    TrainForks.REVIEWED: "tested alone until somebody with write access approves their head",
    TrainForks.ON: "tested with others, by the label alone",
}


def described(facts: RepositoryFacts) -> str:
    """Name what starts CI on a train of the repository and why, and the lines for a trigger that costs less."""
    assert facts.trains is not None, "the repository has trains"
    choice = facts.trains.choice
    if choice.trigger is None:
        return f"off: nothing surely tests every required check of {facts.branch} on a train's branch"
    better = _earlier(choice.answers, choice.trigger)
    why = [f"not by {each.trigger.value.replace('_', ' ')}: {'; '.join(each.reasons)}" for each in better]
    if better and choice.lines:
        why.append(f"for a push, add to {'; '.join(map(_joined, choice.lines))}")
    if choice.pull_request_checks:
        why.append(
            f"from the head of each pull request: {', '.join(f'`{each.name}`' for each in choice.pull_request_checks)}"
        )
    why.append(f"pull requests of forks: {_FORKS[facts.policy.trains.forks]}")
    sure = "every required check runs" if choice.proven else "the first train has to show that every check runs"
    return "; ".join([f"{_STARTS[choice.trigger]}, and {sure}", *why])


def train_findings(facts: RepositoryFacts) -> Iterator[Finding]:
    """Yield what keeps trains from running, or from landing by one push."""
    if facts.trains is None:
        return
    if facts.policy.trains.forks is TrainForks.ON:
        yield _finding(
            facts,
            "trains_forks_unreviewed",
            "`trains.forks` is on: a train tests pull requests of forks on a branch of this repository.",
            "The label alone runs code of strangers with the secrets of CI.",
            "Use `trains.forks: reviewed`, the default, unless CI has no secrets.",
        )
    yield from _trigger(facts, facts.trains)
    yield from _builds(facts, facts.trains)
    yield from _candidate_rules(facts, facts.trains)
    yield from _landing(facts, facts.trains)
    yield from _left(facts, facts.trains)


def _trigger(facts: RepositoryFacts, trains: TrainFacts) -> Iterator[Finding]:
    choice = trains.choice
    lines = "; ".join(map(_joined, choice.lines))
    reasons = "; ".join(dict.fromkeys(reason for each in choice.answers for reason in each.reasons))
    remedy = f"Add to {lines}." if lines else "Let CI run on pushes to the branches `imq/**`."
    if choice.trigger is None:
        usable = {each.trigger for each in choice.answers if each.runs or each.can_be_tried}
        if not lines and CandidateTrigger.PULL_REQUEST in usable:
            remedy = "Use `trains.candidates: auto`: a draft pull request starts these checks. Or change what is named."
        yield _finding(
            facts,
            "trains_without_ci",
            f"Nothing surely tests every required check of {facts.branch} on a train's branch: {reasons}.",
            _ONE_BY_ONE,
            remedy,
        )
    elif not choice.proven:
        answer = next(each for each in choice.answers if each.trigger is choice.trigger)
        yield _finding(
            facts,
            "trains_unproven",
            f"The workflow files do not show that every required check runs on a train: {'; '.join(answer.reasons)}.",
            "The first train shows it. If a check does not report, IMQ lands one pull request after the other.",
            remedy,
        )


def _builds(facts: RepositoryFacts, trains: TrainFacts) -> Iterator[Finding]:
    """Find workflows that run on each push to the branch on which IMQ merges the members."""
    if not trains.choice.on_builds:
        return
    found = trains.choice.on_builds
    yield _finding(
        facts,
        "trains_builds_start_ci",
        f"On pushes to the branches on which IMQ builds trains, CI runs: {', '.join(each.path for each in found)}.",
        "CI runs once more for each pull request of a train. These runs decide nothing.",
        f"Add to {'; '.join(_joined(each) for each in found)}.",
    )


def _joined(found: WorkflowLines) -> str:
    return f"{found.path}: {' / '.join(map(str.strip, found.lines))}"


def _candidate_rules(facts: RepositoryFacts, trains: TrainFacts) -> Iterator[Finding]:
    for ruleset, types in _refusing(facts, trains.candidates.rules, _HARMLESS):
        yield _finding(
            facts,
            "trains_branches_restricted",
            f"{_named(ruleset)} covers the branches of trains: {_words(types)}.",
            f"GitHub refuses these branches to IMQ. {_ONE_BY_ONE}",
            "Exclude `imq/**/*` and `imq-build/**/*` from the ruleset, or add IMQ's App to its bypass list as Exempt.",
        )


def _landing(facts: RepositoryFacts, trains: TrainFacts) -> Iterator[Finding]:
    if _method(facts) is not MergeMethod.MERGE:
        if facts.rules is not None and _refuses_outdated(facts, facts.rules):
            yield _finding(
                facts,
                "trains_need_bypass",
                f"{facts.branch} requires up-to-date branches, and a train lands its members by {_method(facts)}.",
                f"GitHub would refuse the members after the first one, which moves the base. {_ONE_BY_ONE}",
                "Choose `merge.method: merge`, untick up-to-date branches, or let IMQ's App bypass that as Exempt.",
            )
        return
    for ruleset, types in _refusing(facts, trains.base.rules, _HARMLESS | _OF_TESTED_COMMITS):
        yield _finding(
            facts,
            "trains_need_bypass",
            f"{_named(ruleset)} lets IMQ land no train by one push to {facts.branch}: {_words(types)}.",
            "IMQ lands the members one by one, where up-to-date branches are not required.",
            "Add IMQ's App to the bypass list of the ruleset as Exempt, and require checks in another ruleset.",
        )
    if trains.base.classic:
        yield _finding(
            facts,
            "trains_need_bypass",
            f"The protection of {facts.branch} lets IMQ land no train by one push: {', '.join(trains.base.classic)}.",
            "IMQ lands the members one by one, where up-to-date branches are not required.",
            "Add IMQ's App to those who may bypass required pull requests, and to those who may push.",
        )


def _left(facts: RepositoryFacts, trains: TrainFacts) -> Iterator[Finding]:
    """Find branches that a restored database may have lost, and that IMQ does not delete by their names."""
    if trains.unproved:
        names = ", ".join(f"`{each}`" for each in trains.unproved)
        yield _finding(
            facts,
            "trains_branches_left",
            f"GitHub does not show that IMQ alone made and moved {names}.",
            "IMQ never deletes a branch by its name alone. Unless a train runs on them, they stay.",
            "Delete them if no one needs them.",
        )


def _refuses_outdated(facts: RepositoryFacts, rules: BranchRules) -> bool:
    """Whether GitHub refuses IMQ's merge of a head without the base's tip; bypass lists count for merges."""
    bypassed = {each.id for each in facts.rulesets if each.bypass not in (None, "never")}
    return bool(rules.up_to_date_by - bypassed)


def _refusing(
    facts: RepositoryFacts, rules: Sequence[tuple[int, str]], harmless: frozenset[str]
) -> list[tuple[RulesetBypass, list[str]]]:
    """Return the rulesets that may refuse a push of IMQ's, with those rules: only `exempt` is certain to bypass."""
    known = {each.id: each for each in facts.rulesets}
    found: dict[int, list[str]] = {}
    for ruleset, kind in rules:
        if kind not in harmless:
            found.setdefault(ruleset, []).append(kind)
    listed = [
        (known.get(each, RulesetBypass(f"number {each}", False, None, each)), types) for each, types in found.items()
    ]
    return [(ruleset, types) for ruleset, types in listed if ruleset.bypass not in (_ALWAYS, _EXEMPT)]


def _method(facts: RepositoryFacts) -> MergeMethod:
    """Return the configured merge method, or the first one that repository and rules allow."""
    if facts.policy.merge.method is not None or facts.rules is None:
        return facts.policy.merge.method or MergeMethod.MERGE
    allowed = facts.methods if facts.rules.methods is None else facts.methods & facts.rules.methods
    if facts.rules.linear_history:
        allowed -= {MergeMethod.MERGE}
    return next((method for method in MergeMethod if method in allowed), MergeMethod.MERGE)


def _earlier(answers: Sequence[TriggerReport], chosen: CandidateTrigger) -> Sequence[TriggerReport]:
    """Return the answers of preferred triggers that were not chosen."""
    return [each for each in answers[: [one.trigger for one in answers].index(chosen)] if each.reasons]


def _named(ruleset: RulesetBypass) -> str:
    return f"The organisation's ruleset {ruleset.name}" if ruleset.organisation else f"The ruleset {ruleset.name}"


def _words(types: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(kind.replace("_", " ") for kind in types))


def _finding(facts: RepositoryFacts, code: str, finding: str, impact: str, remedy: str) -> Finding:
    page = _FORKS_PAGE if code == "trains_forks_unreviewed" else _CI_PAGE if code in _OF_CI else _RULES_PAGE
    return Finding(code, facts.repository.full_name, finding, impact, remedy, page)
