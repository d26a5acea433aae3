"""Convert a ruleset of GitHub with a merge queue. Source: GitHub's REST reference, "repos/rules"."""

import re
from typing import Any

from bot.cli.convert.conversion import Conversion, Source, Verdict, duration, gh_api
from queue_engine.config.document import Place

_QUEUE = "merge_queue"
_CHECKS = "required_status_checks"
_WAITS = "GitHub waits for the least number of pull requests, IMQ until the train is full."
_NOTES = (
    "GitHub's own queue and IMQ exclude each other: turn GitHub's off by the report's command when you switch.",
    "`merge_group` starts no workflow for IMQ: `imq validate --workflows` says what does.",
)
_NO_QUEUE = "The ruleset has no merge queue, so the file sets nothing: IMQ's defaults count, and IMQ obeys the rules."
_NO_ID = "The export has no id: `gh api '{rulesets}'` lists the ids, one of which replaces RULESET_ID in the command."
_SHARED = "The ruleset is the organisation's: the command changes the rules of all repositories that it names."
_OFF = "GitHub's queue is off with its ruleset. The file switches IMQ's on: `enabled: false` keeps it off."
_OBEYED = "It stays on GitHub, and IMQ obeys it."
_OF_OTHERS = re.compile(r"Mergify Merge (?:Protections|Queue)|kodiakhq: status")
"""Checks of other products. Sources: repositories that require Mergify's, and Kodiak's code (`CHECK_RUN_NAME`)."""
_FOREIGN = "Another merge queue reports this check, and nothing does without it. The report's command removes it."
_OF_TAGS = "It stays on GitHub, and concerns tags alone: IMQ makes none."
_CLOSED = "It stays on GitHub, and lets IMQ land nothing, unless `bypass_actors` names IMQ's App."


def convert(source: Source) -> Conversion:
    """Convert an exported ruleset."""
    value = source.value
    made = Conversion(source)
    for name in value:
        if name not in ("rules", "conditions", "bypass_actors"):
            made.same((name,), "It describes the ruleset, which stays on GitHub.")
    rules = value["rules"]
    queues = [each for each in rules if _kind(each) == _QUEUE]
    if queues and value.get("enforcement") == "disabled":
        made.find(("enforcement",), Verdict.NEARLY, _OFF)
    if value.get("bypass_actors"):
        text = "It stays on GitHub. IMQ obeys the rules; `imq doctor` says whether its App needs a bypass for trains."
        made.find(("bypass_actors",), Verdict.NEARLY, text)
    elif "bypass_actors" in value:
        made.same(("bypass_actors",), "It stays on GitHub.")
    _branches(made, value.get("conditions"), bool(queues))
    for index, rule in enumerate(rules):
        place: Place = ("rules", index)
        if _kind(rule) == _QUEUE:
            made.find((*place, "type"), Verdict.ELSEWHERE, "GitHub's queue is turned off by the command of the report.")
            _queue(made, (*place, "parameters"), rule.get("parameters"))
        elif _kind(rule) == "update" and value.get("target", "branch") == "branch":
            made.find(place, Verdict.NEARLY, _CLOSED)
        else:
            made.same(place, _OF_TAGS if value.get("target") == "tag" else _OBEYED)
            for at in _foreign(rule):
                made.find((*place, "parameters", _CHECKS, at), Verdict.ELSEWHERE, _FOREIGN)
    if not rules:
        made.same(("rules",), "It has no rule.")
    if queues:
        made.notes += _NOTES
    else:
        made.notes.append(_NO_QUEUE)
    if queues or any(map(_foreign, rules)):
        _replace_rules(made, [each for each in map(_without_foreign, rules) if _kind(each) not in (_QUEUE, None)])
    return made


def _foreign(rule: object) -> list[int]:
    """Return which of the checks that a rule requires are those of another merge queue."""
    parameters = rule.get("parameters") if isinstance(rule, dict) else None
    checks = parameters.get(_CHECKS) if isinstance(parameters, dict) else None
    names = [each.get("context") if isinstance(each, dict) else None for each in checks or ()]
    return [at for at, name in enumerate(names) if isinstance(name, str) and _OF_OTHERS.fullmatch(name)]


def _without_foreign(rule: Any) -> Any:
    """Return a rule without the checks of other merge queues; None if it requires no others."""
    if not (foreign := _foreign(rule)):
        return rule
    checks = [each for at, each in enumerate(rule["parameters"][_CHECKS]) if at not in foreign]
    return rule | {"parameters": rule["parameters"] | {_CHECKS: checks}} if checks else None


def _replace_rules(made: Conversion, kept: list[Any]) -> None:
    """Write the command that leaves the ruleset these rules, or deletes it if there are none."""
    value = made.source.value
    conditions, number = value.get("conditions"), value.get("id")
    names = set(conditions) if isinstance(conditions, dict) else set()
    shared = value.get("source_type") == "Organization" or bool(names - {"ref_name"})
    rulesets = "orgs/{owner}/rulesets" if shared else "repos/{owner}/{repo}/rulesets"
    path = f"{rulesets}/{number if isinstance(number, int) else 'RULESET_ID'}"
    made.notes += [_SHARED] * shared + [_NO_ID.format(rulesets=rulesets)] * (not isinstance(number, int))
    # GitHub's answer has what its request takes, beside much that it refuses.
    body = {name: value[name] for name in ("name", "target", "enforcement", "conditions") if name in value}
    made.command = gh_api("PUT", path, body | {"rules": kept}) if kept else f"gh api --method DELETE '{path}'"


def _kind(rule: object) -> object:
    return rule.get("type") if isinstance(rule, dict) else None


def _branches(made: Conversion, conditions: object, has_queue: bool) -> None:
    """Give the branches of the ruleset a queue, and others none, if it names them."""
    names = conditions.get("ref_name") if isinstance(conditions, dict) else None
    included = names.get("include") if isinstance(names, dict) else None
    wanted = [each for each in included if isinstance(each, str)] if isinstance(included, list) else []
    place: Place = ("conditions",)
    if not has_queue or conditions is None:
        made.same(place, "It says where the rules hold, which stay on GitHub.")
        return
    made.missing(place, "IMQ's file names base branches, by wildcards under `branches`.")
    at = (*place, "ref_name", "include")
    branches = tuple(each.removeprefix("refs/heads/") for each in wanted if not each.startswith("~"))
    if wanted and len(branches) == len(wanted) and all(map(made.can_name, branches)):
        made.put((), "enabled", False)
        made.put(at, "enabled", True, branches=branches)
    elif "~DEFAULT_BRANCH" in wanted:
        text = "IMQ's file has no word for the default branch: the queue is there for every base branch."
        made.find(at, Verdict.NEARLY, text)
    elif "~ALL" in wanted:
        made.same(at, "IMQ has a queue for every base branch.")
    excluded = names.get("exclude") if isinstance(names, dict) else None
    if excluded == []:
        made.same((*place, "ref_name", "exclude"), "It excludes no branch.")
    for index, each in enumerate(excluded if isinstance(excluded, list) else ()):
        name = each.removeprefix("refs/heads/") if isinstance(each, str) else ""
        if name and not name.startswith("~") and made.can_name(name):
            made.branch_first(name)
            made.put((*place, "ref_name", "exclude", index), "enabled", False, branches=(name,))


def _queue(made: Conversion, place: Place, parameters: object) -> None:
    if not isinstance(parameters, dict):
        return
    for name, value in parameters.items():
        least = parameters.get("min_entries_to_merge")
        _parameter(made, (*place, name), name, value, fills=isinstance(least, int) and least > 1)
    made.default("trains.candidates", "auto", "GitHub's queue tests several pull requests together")


def _parameter(made: Conversion, place: Place, name: str, value: Any, *, fills: bool) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    match name:
        case "check_response_timeout_minutes" if whole:
            made.put(place, "checks.timeout", duration(60 * value))
        case "grouping_strategy":
            text = "IMQ tests the tip of a train. If it fails, IMQ tests parts, and a part that passed may land."
            made.find(place, Verdict.NEARLY, text)
        case "max_entries_to_build" if whole and value > 0:
            differs = "GitHub runs CI for each entry, IMQ for each train: it may need fewer." if value > 1 else ""
            made.put(place, "trains.runs", min(value, 32), differs)
        case "max_entries_to_merge" if whole and value > 0:
            differs = "" if value <= 32 else "A train has 32 pull requests at most."
            made.put(place, "trains.max_size", min(value, 32), differs)
        case "merge_method":
            made.put(place, "merge.method", str(value).lower())
        case "min_entries_to_merge" if whole:
            if value > 1:
                made.find(place, Verdict.NEARLY, _WAITS)
            else:
                made.same(place, "IMQ starts a run as soon as one may start.")
        case "min_entries_to_merge_wait_minutes" if whole:
            if value and fills:
                text = _WAITS + (" An hour is the longest." if value > 60 else "")
                made.put(place, "trains.fill_wait", duration(60 * min(value, 60)), text)
            else:
                made.same(place, "GitHub waits for no second pull request, and neither does IMQ.")
        case _:
            made.missing(place, "GitHub's reference has no such parameter of a merge queue, or not of this type.")
