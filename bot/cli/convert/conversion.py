"""Convert another queue's configuration: the keys of IMQ that it becomes, and a finding for each of its values."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any

from queue_engine.config.document import ConfigError, Place, line_of, visible
from queue_engine.config.parse import read

Branches = tuple[str, ...]
"""Wildcards of the base branches that a rule is for; empty for the top level of the file."""


class Verdict(StrEnum):
    """What becomes of a value."""

    SAME = "same"
    NEARLY = "nearly"
    ELSEWHERE = "elsewhere"
    NOT_THERE = "not there"


@dataclass(frozen=True, slots=True)
class Finding:
    """What becomes of the value at a place, or of all values below it."""

    place: Place
    verdict: Verdict
    text: str
    """What differs, where it belongs, or what people do instead. May be empty for `SAME`."""
    key: str = ""
    """The key of IMQ's file that has it."""
    branches: Branches = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A configuration of another queue, read."""

    path: str
    product: str
    value: dict[str, Any]
    lines: Mapping[Place, int]

    def line(self, place: Place) -> int:
        """Return the line of this place."""
        return line_of(self.lines, place)

    def leaves(self) -> Iterator[tuple[Place, Any]]:
        """Yield every value that has none below it, with its place."""
        waiting: list[tuple[Place, Any]] = [((), self.value)]
        while waiting:
            place, value = waiting.pop()
            below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            if found := [((*place, key), each) for key, each in below]:
                waiting += reversed(found)
            else:
                yield place, value


@dataclass(slots=True)
class _Setting:
    value: Any
    origins: list[str]

    def add(self, value: Any, origins: Iterable[str]) -> None:
        """Add what a list or a mapping lacks."""
        if isinstance(value, list):
            present = {str(each).casefold() for each in self.value}
            self.value += [each for each in value if str(each).casefold() not in present]
        else:
            self.value |= {name: each for name, each in value.items() if name not in self.value}
        self.origins += origins

    def copy(self) -> "_Setting":
        """Return another one, whose list or mapping may change."""
        return _Setting(self.value.copy() if isinstance(self.value, list | dict) else self.value, [*self.origins])


_PULL_REQUEST_RULE = {
    "required_approving_review_count": 0,
    "dismiss_stale_reviews_on_push": False,
    "require_code_owner_review": False,
    "require_last_push_approval": False,
    "required_review_thread_resolution": False,
}
"""The parameters that GitHub demands of a rule `pull_request`, at their least."""

_SECTION = re.compile(r"(?:branches\[(\d+)\]\.?)?([a-z_]*)")


@dataclass(slots=True)
class Conversion:
    """The file of IMQ as far as it is converted, with the findings and the rules that belong on GitHub."""

    source: Source
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What people should know beside the values, a sentence each."""
    command: str = ""
    """A command that changes a rule on GitHub, if not one for `rules`."""
    _settings: dict[Branches, dict[str, _Setting]] = field(default_factory=lambda: {(): {}})
    _rules: dict[str, dict[str, Any]] = field(default_factory=dict)

    def find(self, place: Place, verdict: Verdict, text: str = "", key: str = "") -> None:
        """Record what becomes of a value."""
        self.findings.append(Finding(place, verdict, text, key))

    def same(self, place: Place, text: str) -> None:
        """Record that IMQ does the same without a key."""
        self.find(place, Verdict.SAME, text)

    def missing(self, place: Place, text: str) -> None:
        """Record that IMQ has no such thing, and what people do instead."""
        self.find(place, Verdict.NOT_THERE, text)

    def elsewhere(self, place: Place, rule: str, text: str, **parameters: Any) -> None:
        """Record that a rule of GitHub has this, and ask for that rule."""
        needed = self._rules.setdefault(rule, dict(_PULL_REQUEST_RULE) if rule == "pull_request" else {})
        needed |= {name: max(value, needed.get(name, value)) for name, value in parameters.items()}
        self.find(place, Verdict.ELSEWHERE, text)

    def put(
        self, place: Place, key: str, value: Any, differs: str = "", branches: Branches = (), *, most: bool = False
    ) -> bool:
        """Set a key, unless IMQ refuses the value or an earlier place set another one.

        `differs` says what IMQ does not do the same way. A list or a mapping is added to what the key has, and of two
        numbers the higher one counts with `most`. Without a place the key follows from several values.
        """
        if problem := _refusal(key, value):
            self.missing(place, f"IMQ refuses this value: its `{key}` {problem}.")
            return False
        verdict = Verdict.NEARLY if differs else Verdict.SAME
        for branch in _each(branches):
            if most and self.has(key, branch):
                value = max(value, self._settings[branch][key].value)
                self._settings[branch].pop(key)
            if kept := self._add(branch, key, value, shown_place(place)):
                verdict, differs = Verdict.NEARLY, kept
        if place:
            self.findings.append(Finding(place, verdict, differs, key, branches))
        return True

    def _add(self, branch: Branches, key: str, value: Any, origin: str) -> str:
        """Set a key for a branch, or add to it; return why an earlier value stays, if another one does."""
        rule = self._settings.setdefault(branch, {})
        given = rule.get(key)
        if given is None:
            rule[key] = _Setting(value, [origin] if origin else []).copy()
        elif isinstance(value, list | dict):
            given.add(value, [origin])
        elif given.value != value:
            whose = f" of {given.origins[0]}" if given.origins else ""
            return f"IMQ has one `{key}` for a base branch, and the file keeps the one{whose}."
        return ""

    def has(self, key: str, branches: Branches = ()) -> bool:
        """Return whether the key is set."""
        return key in self._settings.get(branches, {})

    def default(self, key: str, value: Any, why: str) -> None:
        """Set a key as the other queue does by default, unless the source sets it."""
        if not self.has(key) and not _refusal(key, value):
            self._settings[()][key] = _Setting(value, [why])

    def branch_first(self, branch: str) -> None:
        """Give this branch a rule before all others."""
        rule = self._settings.get((branch,), {})
        self._settings = {(): self._settings[()], (branch,): rule} | self._settings

    def refuses(self, key: str, value: Any) -> bool:
        """Return whether IMQ refuses this value for this key."""
        return bool(_refusal(key, value))

    def can_name(self, branch: str) -> bool:
        """Return whether IMQ's wildcards can be this."""
        return not _refusal("branches", [{"match": branch}])

    def _rules_of_branches(self) -> list[tuple[Branches, dict[str, _Setting]]]:
        """Return the rules of branches as the file has them: names before wildcards, equal neighbours together."""
        found: list[tuple[Branches, dict[str, _Setting]]] = []
        named = [(branch, self._with_lists_of_all(rule)) for branch, rule in self._settings.items() if branch and rule]
        for branch, rule in sorted(named, key=lambda each: any(mark in each[0][0] for mark in "*?[")):
            values = {key: setting.value for key, setting in rule.items()}
            if found and values == {key: setting.value for key, setting in found[-1][1].items()}:
                found[-1] = ((*found[-1][0], *branch), found[-1][1])
            else:
                found.append((branch, rule))
        return found

    def _with_lists_of_all(self, rule: Mapping[str, _Setting]) -> dict[str, _Setting]:
        """Add what holds for every branch to the lists of one, since these replace the lists of the top level."""
        found = {key: setting.copy() for key, setting in rule.items()}
        for key, setting in found.items():
            above = self._settings[()].get(key)
            if above is not None and isinstance(setting.value, list | dict):
                setting.add(above.value, above.origins)
        return found

    def text(self) -> str:
        """Write IMQ's file. What IMQ refuses of the whole is left out, and found so."""
        while True:
            written = _written(self._header(), self._settings[()], self._rules_of_branches())
            try:
                read(written)
            except ConfigError as error:
                self._leave_out(error)
            else:
                return written

    def _header(self) -> list[str]:
        lines = [f"IMQ's configuration, converted from {self.source.path} ({self.source.product}) by `imq convert`."]
        if self._rules:
            lines.append("Some of its conditions are rules of GitHub: the report has the command that sets them.")
        return [*lines, "Check it with `imq validate .github/imq.yml`."]

    def _leave_out(self, error: ConfigError) -> None:
        problem = error.problems[0]
        found = _SECTION.match(problem.place)
        index, section = (found[1], found[2]) if found else (None, "")
        rules = self._rules_of_branches()
        at_top = index is None or int(index) >= len(rules)
        branches, rule = ((), self._settings[()]) if at_top else rules[int(index or 0)]
        keys = [key for key in rule if key.split(".")[0] == section] or list(rule)
        if not keys:
            self._settings = {(): {}}
        for key in keys:
            for each in _each(branches):
                self._settings[each].pop(key, None)
        text = f"IMQ refuses it beside the others: {problem.place} {problem.sentence}."
        for number, finding in enumerate(self.findings):
            of_this_rule = bool(finding.branches) == bool(branches) and set(finding.branches) <= set(branches)
            if finding.key in keys and of_this_rule:
                self.findings[number] = replace(finding, verdict=Verdict.NOT_THERE, text=text, key="")

    def answers(self) -> list[tuple[Place, Any, Finding]]:
        """Return every value of the source with its finding: none is left out."""
        by_place: dict[Place, Finding] = {}
        for each in self.findings:
            # Of several findings for one value the least agreeable counts.
            if each.place not in by_place or _ORDER[each.verdict] > _ORDER[by_place[each.place].verdict]:
                by_place[each.place] = each
        found = []
        for place, value in self.source.leaves():
            around = next((place[:end] for end in range(len(place), -1, -1) if place[:end] in by_place), None)
            unknown = f"`imq convert` does not know this key of {self.source.product}, so nothing became of it."
            answer = Finding(place, Verdict.NOT_THERE, unknown) if around is None else by_place[around]
            found.append((place, value, answer))
        return found

    def rule_command(self) -> str:
        """Return the command that sets the rules that belong on GitHub; empty if there are none."""
        if not self._rules:
            return self.command
        rules = [
            {"type": kind, "parameters": given} if given else {"type": kind} for kind, given in self._rules.items()
        ]
        ruleset = {
            "name": f"Merging, as in {self.source.product}",
            "target": "branch",
            "enforcement": "active",
            "conditions": {"ref_name": {"include": ["~DEFAULT_BRANCH"], "exclude": []}},
            "rules": rules,
        }
        return gh_api("POST", "repos/{owner}/{repo}/rulesets", ruleset)


def _each(branches: Branches) -> list[Branches]:
    """Return the branches one by one, or the top level of the file."""
    return [(each,) for each in branches] or [()]


_ORDER = {verdict: order for order, verdict in enumerate(Verdict)}


def gh_api(method: str, path: str, body: object) -> str:
    """Write a command of GitHub's command line: it fills in the owner and name of the clone's repository."""
    return f"gh api --method {method} '{path}' --input - <<'JSON'\n{json.dumps(body)}\nJSON"


def shown_place(place: Place) -> str:
    """Format a place for people: `queue_rules[0].merge_method`."""
    text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in place)
    return visible(text.removeprefix("."))


def shown_value(value: object) -> str:
    """Format a value of the source on one line, at most 80 characters."""
    text = visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= 80 else f"{text[:77]}..."


def texts(value: object) -> list[str]:
    """Return the texts of a list, or of a single text."""
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str) and each]


def duration(seconds: int) -> str:
    """Write a duration as IMQ's file has it."""
    return next(f"{seconds // unit}{name}" for unit, name in ((3600, "h"), (60, "m"), (1, "s")) if seconds % unit == 0)


def literal_template(text: str) -> str:
    """Write text as IMQ's templates have it: braces twice."""
    return text.replace("{", "{{").replace("}", "}}")


def _refusal(key: str, value: Any) -> str:
    """Return why IMQ refuses this value for this key, or an empty text."""
    return _problem(_written([], {key: _Setting(value, [])}, []))


@cache
def _problem(text: str) -> str:
    """Return the first problem of a file; a conversion asks the same of many places."""
    try:
        read(text)
    except ConfigError as error:
        return error.problems[0].sentence
    return ""


def _written(
    header: Iterable[str], top: Mapping[str, _Setting], rules: Sequence[tuple[Branches, Mapping[str, _Setting]]]
) -> str:
    """Write the file: each key with the places that it comes from."""
    lines = [f"# {visible(each)}" for each in header]
    lines += ["", *_keys(top, "")] if top else []
    lines += ["", "branches:"] if rules else []
    for branches, rule in rules:
        lines += [f"  - match: {_flow(list(branches))}", *_keys(rule, "    ")]
    return "\n".join([*lines, ""])


def _keys(rule: Mapping[str, _Setting], indent: str) -> Iterator[str]:
    sections: dict[str, dict[str, _Setting]] = {}
    for key, setting in rule.items():
        section, _, last = key.rpartition(".")
        sections.setdefault(section, {})[last] = setting
    for section, keys in sorted(sections.items(), key=lambda each: bool(each[0])):
        if section:
            yield f"{indent}{section}:"
        for key, setting in keys.items():
            yield from _key(key, setting, f"{indent}  " if section else indent)


def _key(key: str, setting: _Setting, indent: str) -> Iterator[str]:
    origins = list(dict.fromkeys(setting.origins))
    more = f" and {len(origins) - 2} more" if len(origins) > 2 else ""
    comment = f"  # {', '.join(origins[:2])}{more}" if origins else ""
    value = setting.value
    if isinstance(value, str) and "\n" in value and _is_block(value):
        yield f"{indent}{key}: |-{comment}"
        yield from (f"{indent}  {line}" if line else "" for line in value.split("\n"))
        return
    yield f"{indent}{key}: {_flow(value)}{comment}"


def _is_block(value: str) -> bool:
    """Whether a text can be written as lines, as it is."""
    lines = value.split("\n")
    return value == value.strip() and all(line.isprintable() and line == line.rstrip() for line in lines)


_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./()-]+)*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def _flow(value: Any) -> str:
    """Write a value on one line of YAML."""
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_flow(key)}: {_flow(each)}' for key, each in value.items())}}}"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.casefold() not in _WORDS:
        return value
    return _DELETE.sub(lambda found: f"\\x{ord(found[0]):02x}", json.dumps(value, ensure_ascii=False))


_DELETE = re.compile(r"[\x7f-\x84\x86-\x9f\ufeff]")
"""Characters that YAML does not allow as they are, and JSON does."""
