"""Convert Mergify's conditions, `[-][#]attribute[operator value]`. Source: Mergify's documents, "Conditions"."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from bot.cli.convert.conversion import Branches, Conversion, Verdict
from queue_engine.config.document import Place

_CONDITION = re.compile(
    r"(?P<minus>-)?\s*(?P<count>#)?\s*(?P<attribute>[a-zA-Z][a-zA-Z0-9-]*)\s*"
    r"(?:(?P<operator>!=|≠|~=|\*=|>=|≥|<=|≤|=|:|<|>)\s*(?P<value>.*))?",
    re.DOTALL,
)
_SPELT = {"≠": "!=", "≥": ">=", "≤": "<=", ":": "="}


class Condition(NamedTuple):
    """One condition, read."""

    negated: bool
    counted: bool
    attribute: str
    operator: str
    value: str

    @property
    def is_none(self) -> bool:
        """Whether it asks that there is none of something."""
        none = self.operator in ("=", "<=") and self.value == "0"
        return (self.counted and not self.negated and (none or (self.operator == "<" and self.value == "1"))) or (
            not self.counted and self.negated and self.operator in ("", "~=")
        )


def parsed(text: object) -> Condition | None:
    """Read a condition; None if it is not one."""
    found = _CONDITION.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        return None
    operator = _SPELT.get(found["operator"] or "", found["operator"] or "")
    value = (found["value"] or "").strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    negated = bool(found["minus"]) != (operator == "!=")
    if value in ("false", "False") and operator == "=":
        negated, operator, value = not negated, "", ""
    elif value in ("true", "True") and operator == "=":
        operator, value = "", ""
    return Condition(negated, bool(found["count"]), found["attribute"], "=" if operator == "!=" else operator, value)


_ASKED = "Another rule asks for it. IMQ queues nothing with this label, unless you remove it from `blocking.labels`."
_CHOOSES = "The label chooses the method: `merge.method_labels`."
_EXACT = "IMQ blocks labels of exactly these names, and lets others in that the pattern keeps out."
_NARROWED = "The rule has further conditions"
_HELD = "Its queue, or a protection, has conditions"
_ONLY_SOME = (
    "IMQ's rules hold for all pull requests into a branch: a rule of GitHub, or a required check, may decide for some."
)
_WHOLE = "IMQ takes labels of exactly these names."
_OBEYED = "IMQ obeys the rules of GitHub."
_EVERY = "Where no check is required, IMQ waits for every check that reports, and each has to pass."
_SOME = "Where some checks are required, IMQ waits for these alone: list every check in `checks.required`."
_LABELER = "IMQ has no such condition. Have a workflow set the trigger label where it holds."
_OWNERS = "Name the people or teams in CODEOWNERS; GitHub's rule for pull requests then requires their review."

_STRICT = "IMQ has no alternatives: it requires this of every pull request, also where another alternative holds."

_REVIEWS = "IMQ counts approvals (`require.approvals`), and obeys the rules of GitHub; it has no such condition."
_NARROW = {
    "author": "Several rules let pull requests in, and `require.authors` would hold for all of them. Have Dependabot, "
    "Renovate or a workflow set the trigger label; `who_may_queue` says who may queue.",
    "files": "`require.files` names all files that a pull request may change, and `blocking.files` those that it may "
    "not: IMQ has no condition that one of them matches. Have a workflow set the trigger label.",
    "review-requested": "`require.reviews_done` waits for all requested reviews, in every rule.",
    "schedule": "`freeze.windows` names the times in which nothing lands.",
    "current-datetime": "`freeze.windows` names the times in which nothing lands.",
    "depends-on": "Base the pull request on the branch of the other: IMQ lands both, one after the other.",
    "queue-name": "IMQ has one queue for a base branch.",
    "queue-position": "`depth` limits the queue.",
}


class Conditions:
    """What conditions add to a conversion: rules for base branches, labels, checks, and rules of GitHub."""

    def __init__(self, made: Conversion) -> None:
        self._made = made
        self.alone = False
        """Whether no other rule lets pull requests in: then `require` and `blocking` may say what this one asks."""
        self.asked: set[str] = set()
        """Labels for which any rule or queue asks."""
        self.choosing: set[str] = set()
        """Labels that choose the method: a rule without them is for the others, and blocks none."""
        self._named: list[Branches] = []
        self._everywhere = False
        self.of_queues: Branches = ()
        """The base branches of all queues, where each queue names some: no other pull request lands."""
        self._has_label = False
        """Whether a rule that queues asks for a label, also for one that alone queues nothing."""
        self._narrows_all = False
        """Whether a rule that queues asks for no label, but for more than IMQ can."""
        self.requires = False
        """Whether any condition requires a check by its name: IMQ waits for such checks alone."""
        self._later: list[tuple[Place, list[str], Branches, bool, bool]] = []
        """Labels of queues: they queue if no rule for pull requests names a label. The last is whether it is alone."""

    def entrance(self, place: Place, conditions: Any, *, held: bool = False) -> None:
        """Convert the conditions of a rule that queues; `held`: its queue refuses what IMQ would queue."""
        leaves = list(_flat(place, conditions))
        branches = self._bases(leaves)
        if branches:
            self._named.append(branches)
        else:
            self._everywhere = True
        narrow = held or self.narrows(conditions)
        triggers = [(at, labels) for at, each in leaves if (labels := _labels(each))]
        for at, each in leaves:
            if not _labels(each):
                self._leaf(at, each, branches)
        self._has_label = self._has_label or bool(triggers)
        self._narrows_all = self._narrows_all or (narrow and not triggers)
        first, others = triggers[:1], triggers[1:]
        if self.alone and not narrow and not any(len(labels) > 1 for _, labels in others):
            for at, labels in others:
                self._made.put(at, "require.labels", labels, branches=branches)
            triggers = first
        for at, labels in triggers:
            if narrow or len(triggers) > 1:
                text = f"{_HELD if held else _NARROWED} that IMQ lacks, so this label alone queues nothing: "
                self._made.missing(at, text + "a workflow may set the trigger label where all of them hold.")
            else:
                self._trigger(at, labels, branches, whole=_is_whole(dict(leaves)[at]))
        if not triggers:
            text = (
                "Mergify queues by itself what meets the conditions; IMQ queues what gets a trigger label or `/queue`."
            )
            if not _has_values(conditions):
                self._made.find(place, Verdict.NEARLY, text)
            elif text not in self._made.notes:
                self._made.notes.append(text)

    def queue(self, place: Place, conditions: Any, *, by_itself: bool, narrow: bool = False) -> Branches:
        """Convert conditions of a queue, which is `narrow` by these or others; return the base branches they name."""
        leaves = list(_flat(place, conditions))
        branches = self._bases(leaves)
        if by_itself and branches:
            self._named.append(branches)
        elif by_itself:
            self._everywhere = True
        for at, each in leaves:
            if labels := _labels(each):
                self._later.append((at, [] if narrow else labels, branches, _is_whole(each), self.alone))
            else:
                self._leaf(at, each, branches)
        if not _has_values(conditions):
            self._made.same(place, "It has no condition.")
        return branches

    def protection(self, place: Place, rule: dict[str, Any]) -> None:
        """Convert what Mergify demands of every pull request into the branches that `if` names."""
        where = list(_flat((*place, "if"), rule.get("if")))
        branches = self._bases(where)
        if len(where) > bool(branches):
            self._made.missing(place, _ONLY_SOME)
            return
        self.alone = True
        for at, each in _flat((*place, "success_conditions"), rule.get("success_conditions")):
            if len(labels := _labels(each)) == 1 and _is_whole(each):
                self._made.put(at, "require.labels", labels, branches=branches)
            elif labels:
                self._made.missing(at, _LABELER)
            else:
                self._leaf(at, each, branches)

    def protects(self, rule: dict[str, Any]) -> bool:
        """Whether a protection of Mergify becomes one of IMQ as a whole."""
        trial = self._trial()
        trial.protection((), rule)
        return not trial.is_missing

    def narrows(self, conditions: Any) -> bool:
        """Whether conditions, apart from labels that have to be there, refuse what IMQ would queue."""
        trial, leaves = self._trial(), list(_flat((), conditions))
        branches = trial._bases(leaves)
        for at, each in leaves:
            if not _labels(each):
                trial._leaf(at, each, branches)
        return trial.is_missing

    def _trial(self) -> "Conditions":
        """Return conditions that change nothing here."""
        trial = Conditions(Conversion(self._made.source))
        trial.alone, trial.asked, trial.choosing, trial.requires = self.alone, self.asked, self.choosing, self.requires
        return trial

    @property
    def is_missing(self) -> bool:
        """Whether IMQ lacks any of what was converted."""
        return any(each.verdict is Verdict.NOT_THERE for each in self._made.findings)

    def finish(self) -> None:
        """Decide what could be decided only after all rules."""
        of_queue = Counter(at[:2] for at, *_ in self._later)
        of_all = len(of_queue) > 1 and ("defaults", "queue_rule") in of_queue
        for at, labels, branches, whole, alone in self._later:
            if self._has_label and alone and whole and len(labels) == 1:
                self._made.put(at, "require.labels", labels, branches=branches)
            elif self._has_label or self._narrows_all or not labels or of_all or of_queue[at[:2]] > 1:
                text = "IMQ queues by one label of several; another cannot be required beside it."
                self._made.missing(at, text)
            else:
                self._trigger(at, labels, branches, whole=whole)
        named = self._named if self._named and not self._everywhere else [self.of_queues] if self.of_queues else []
        if named:
            self._made.put((), "enabled", False)
            for branches in named:
                self._made.put((), "enabled", True, branches=branches)

    def triggers(self, conditions: Any) -> list[str]:
        """Return the labels that conditions ask for, each alone."""
        found = [_labels(each) for _, each in _flat((), conditions)]
        return [labels[0] for labels in found if len(labels) == 1]

    def ask(self, conditions: Any) -> None:
        """Note the labels for which these conditions ask."""
        for _, each in _flat((), conditions):
            self.asked.update(_labels(each))
            found = parsed(each)
            named = found is not None and not found.negated and not found.counted and found.operator == "="
            self.requires = self.requires or bool(_one_check(each) or _strict(each))
            self.requires = self.requires or (named and found is not None and found.attribute in _PASSING)

    def labels(self, conditions: Any) -> list[tuple[set[str], bool]]:
        """Return the labels of each condition that asks for one of some, and whether IMQ could require that."""
        found = [(_labels(each), _is_whole(each)) for _, each in _flat((), conditions)]
        return [({*labels}, is_whole and len(labels) == 1) for labels, is_whole in found if labels]

    def labels_alone(self, conditions: Any) -> list[str]:
        """Return the labels of conditions that ask for one of them and for nothing else."""
        leaves = [each for _, each in _flat((), conditions)]
        return _labels(leaves[0]) if len(leaves) == 1 else []

    def _trigger(self, at: Place, labels: list[str], branches: Branches, *, whole: bool) -> None:
        given = labels[:5]
        differs = "Five labels at most queue." if len(labels) > 5 else "" if whole else _WHOLE
        self._made.put(at, "trigger_labels", given, differs, branches)

    # Base branches.

    def _bases(self, leaves: list[tuple[Place, Any]]) -> Branches:
        """Return the base branches that conditions name; empty for any."""
        for at, each in leaves:
            globs = [glob for name in _alternatives(each, "base", ("=", "~=")) for glob in _globs(*name)]
            if globs and all(map(self._made.can_name, globs)):
                self._made.same(at, "The rules for this branch are under `branches`.")
                return tuple(dict.fromkeys(globs))
        return ()

    # Single conditions.

    def _leaf(self, at: Place, leaf: Any, branches: Branches) -> None:
        if isinstance(leaf, dict):
            self._alternative(at, leaf, branches)
            return
        found = parsed(leaf)
        if found is None:
            self._made.missing(at, "This is no condition that Mergify's documents name.")
            return
        self._one(at, found, branches)

    def _alternative(self, at: Place, leaf: dict[str, Any], branches: Branches) -> None:
        """Convert `or` and `not`."""
        if _alternatives(leaf, "base", ("=", "~=")):
            self._base(at)
        elif self.alone and (authors := _alternatives(leaf, "author", ("=",))):
            self._made.put(at, "require.authors", [name for _, name in authors], branches=branches)
        elif name := _one_check(leaf):
            self._made.put(at, "checks.required", [name], branches=branches)
        elif strict := _strict(leaf):
            for key, value in strict:
                self._made.put(at, key, value, _STRICT, branches, most=key == "require.approvals")
        elif "or" in leaf:
            text = "IMQ's rules hold all together: it has no alternatives. Have a workflow set the trigger label."
            self._made.missing(at, text)
        else:
            self._made.missing(at, "IMQ's rules hold all together, and none is turned round.")

    def _base(self, at: Place) -> None:
        if not any(each.place == at for each in self._made.findings):
            self._made.missing(at, "IMQ names base branches by wildcards: write them under `branches`.")

    def _one(self, at: Place, found: Condition, branches: Branches) -> None:
        made, negated, value = self._made, found.negated, found.value
        if self.alone and (required := _required(found, made)):
            made.put(at, *required, branches=branches)
            return
        match found.attribute:
            case "base" if negated and found.operator == "=" and made.can_name(value):
                made.branch_first(value)
                made.put(at, "enabled", False, branches=(value,))
            case "base":
                self._base(at)
            case "label" if negated and self.choosing.issuperset(_names(found) or [""]):
                made.same(at, _CHOOSES)
            case "label" if negated and (labels := _names(found) or _literals(found)):
                made.put(at, "blocking.labels", labels, _ASKED if self.asked & set(labels) else "", branches)
                if not _names(found):
                    made.missing(at, _EXACT)
            case "title" if negated and found.operator == "~=":
                made.put(at, "blocking.titles", [value], branches=branches)
            case "draft" | "conflict" | "merged" | "closed" | "locked" if negated:
                made.same(at, "IMQ queues none that is.")
            case "check-success" | "status-success" if not negated and found.operator == "=" and not found.counted:
                text = "A skipped or neutral check passes, too, as on GitHub. IMQ requires it of every pull request."
                if "merge_conditions" in at:
                    text += " If it runs in the queue alone, name it in `checks.queue_only`."
                made.put(at, "checks.required", [value], text, branches)
            case "check-success-or-neutral" | "check-neutral" | "check-skipped" if (
                not negated and found.operator == "=" and not found.counted
            ):
                text = "A successful, skipped or neutral check passes, as on GitHub."
                made.put(at, "checks.required", [value], text, branches)
            case "check-failure" | "status-failure" | "check-pending" | "check-timed-out" | "check-stale" | "check":
                self._checks(at, found)
            case "check-success" | "status-success" | "check-cancelled" | "check-skipped" | "check-neutral":
                self._checks(at, found)
            case "approved-reviews-by" | "changes-requested-reviews-by" | "review-threads-unresolved":
                self._reviews(at, found, branches)
            case "github-review-decision" | "branch-protection-review-decision" | "review-threads-resolved":
                made.same(at, _OBEYED)
            case "github-review-approved" | "commits-behind":
                made.same(at, _OBEYED if found.attribute != "commits-behind" else "IMQ tests on the newest base.")
            case "commits-unverified" if found.is_none:
                made.elsewhere(at, "required_signatures", "A rule of GitHub requires signatures; IMQ obeys it.")
            case "linear-history" if not negated:
                made.elsewhere(at, "required_linear_history", "A rule of GitHub requires it; IMQ obeys it.")
            case attribute:
                made.missing(at, _NARROW.get(attribute, _LABELER))

    def _checks(self, at: Place, found: Condition) -> None:
        counts = found.counted and not found.negated
        if found.is_none or (found.negated and found.attribute != "check-success") or counts:
            self._made.find(at, *((Verdict.NOT_THERE, _SOME) if self.requires else (Verdict.NEARLY, _EVERY)))
        elif found.negated or found.attribute not in _PASSING:
            self._made.missing(at, "IMQ lands what passes: it has no condition that a check fails, or has not ended.")
        else:
            self._made.missing(at, "IMQ requires checks by name, not by pattern: list each in `checks.required`.")

    def _reviews(self, at: Place, found: Condition, branches: Branches) -> None:
        made, rule = self._made, "pull_request"
        obeyed = "GitHub's rule for pull requests has it, and IMQ obeys that rule."
        if found.attribute == "review-threads-unresolved" and found.is_none:
            made.elsewhere(at, rule, obeyed, required_review_thread_resolution=True)
        elif (
            found.attribute == "changes-requested-reviews-by"
            and found.is_none
            and (made.has("require.approvals", branches) or made.has("require.approvals"))
        ):
            made.same(at, "Beside a required approval IMQ counts a request for changes, too.")
        elif found.attribute == "changes-requested-reviews-by" and found.is_none:
            text = "GitHub refuses a merge while a reviewer asks for changes, where its rule requires an approval."
            made.elsewhere(at, rule, text, required_approving_review_count=1)
        elif found.counted and not found.negated and found.value.isdecimal() and found.operator in (">=", ">", "="):
            least = int(found.value[:4]) + (found.operator == ">")
            if least and found.attribute == "approved-reviews-by":
                text = "" if self.alone else "IMQ requires it of every pull request."
                made.put(at, "require.approvals", min(least, 10), text, branches, most=True)
            elif least:
                made.missing(at, _REVIEWS)
            else:
                made.same(at, "No approval is required.")
        elif (
            found.negated and not found.counted and (found.attribute, found.value) == ("approved-reviews-by", "author")
        ):
            made.same(at, "On GitHub nobody approves a pull request of their own.")
        elif not found.counted and not found.negated and found.attribute == "approved-reviews-by":
            made.elsewhere(at, rule, _OWNERS, require_code_owner_review=True, required_approving_review_count=1)
        else:
            made.missing(at, _REVIEWS)


def _required(found: Condition, made: Conversion) -> tuple[str, Any] | None:
    """Return the key of IMQ that says the same as this condition, where no other rule lets pull requests in."""
    if found.attribute == "author" and (names := _names(found)):
        return ("blocking.authors" if found.negated else "require.authors"), names
    if found.attribute == "review-requested" and found.is_none and not found.value.strip("0"):
        return "require.reviews_done", True
    if found.attribute == "files" and found.negated and not found.counted:
        glob = _glob(found.operator, found.value)
        return ("blocking.files", [glob]) if glob and made.can_name(glob) else None
    return None


def _flat(place: Place, conditions: Any) -> Iterator[tuple[Place, Any]]:
    """Yield the conditions that hold together, also of nested `and`, with their places."""
    if isinstance(conditions, dict) and list(conditions) == ["and"]:
        yield from _flat((*place, "and"), conditions["and"])
    elif isinstance(conditions, list):
        for index, each in enumerate(conditions):
            yield from _flat((*place, index), each)
    elif (isinstance(conditions, dict) and conditions) or isinstance(conditions, str):
        yield place, conditions


def _has_values(conditions: Any) -> bool:
    return isinstance(conditions, list | dict) and bool(conditions)


def _names(found: Condition) -> list[str]:
    """Return the texts that a condition compares with: one, or those of a regular expression of literals."""
    if found.counted:
        return []
    whole = found.value.startswith("^") and found.value.endswith("$")
    return [found.value] if found.operator == "=" and found.value else _literals(found) if whole else []


_LITERALS = re.compile(r"\^?\(?(?:\?:)?((?:[\w /-]|\\[./-])+(?:\|(?:[\w /-]|\\[./-])+)*)\)?\$?")


def _literals(found: Condition) -> list[str]:
    """Return the alternatives of a regular expression that has nothing but literals."""
    whole = _LITERALS.fullmatch(found.value) if found.operator == "~=" and not found.counted else None
    return [each.replace("\\", "") for each in whole[1].split("|")] if whole else []


def _labels(leaf: Any) -> list[str]:
    """Return the labels of which a condition asks for one; none if it asks for something else."""
    if isinstance(leaf, dict):
        below = leaf.get("or") if list(leaf) == ["or"] else None
        found = [_labels(each) for each in below] if isinstance(below, list) and below else [[]]
        return [name for names in found for name in names] if all(found) else []
    one = parsed(leaf)
    return _names(one) or _literals(one) if one is not None and one.attribute == "label" and not one.negated else []


def _is_whole(leaf: Any) -> bool:
    """Whether a condition on labels compares with whole names."""
    found = parsed(leaf)
    return found is None or bool(_names(found))


def _alternatives(leaf: Any, attribute: str, operators: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return operator and value of each alternative, if all are about this attribute."""
    leaves = leaf.get("or") if isinstance(leaf, dict) and list(leaf) == ["or"] else [leaf]
    found = [parsed(each) for each in leaves] if isinstance(leaves, list) else [None]
    if all(each and each.attribute == attribute and not each.negated and each.operator in operators for each in found):
        return [(each.operator, each.value) for each in found if each]
    return []


_PASSING = frozenset({"check-success", "check-neutral", "check-skipped", "status-success", "check-success-or-neutral"})


def _one_check(leaf: Any) -> str:
    """Return the name of a check, if each alternative is that it passes, as GitHub counts it."""
    leaves = leaf.get("or") if isinstance(leaf, dict) and list(leaf) == ["or"] else None
    found = [parsed(each) for each in leaves] if isinstance(leaves, list) and leaves else [None]
    names = {
        each.value if each and each.attribute in _PASSING and each.operator == "=" and not each.negated else ""
        for each in found
    }
    return names.pop() if len(names) == 1 else ""


def _strict(leaf: Any) -> list[tuple[str, Any]]:
    """Return the checks and approvals that one of several alternatives asks for, and nothing beside them.

    They are required of every pull request, so that none lands without what Mergify asked for. Where another
    alternative is about checks, too, both may never hold.
    """
    parts = leaf.get("or") if isinstance(leaf, dict) and list(leaf) == ["or"] else None
    read = [[parsed(each) for _, each in _flat((), part)] for part in parts] if isinstance(parts, list) else []
    asked = [[_demand(each) for each in part] for part in read]
    strict = [[each for each in part if each] for part in asked if part and all(part)]
    others = [each for part, demands in zip(read, asked, strict=True) if not all(demands) for each in part]
    of_checks = any(each is None or each.attribute.startswith(("check", "status-")) for each in others)
    return strict[0] if len(strict) == 1 and not of_checks else []


def _demand(found: Condition | None) -> tuple[str, Any] | None:
    """Return the key of IMQ that requires a check, or a number of approvals."""
    if found is None or found.negated:
        return None
    if found.attribute in _PASSING and found.operator == "=" and not found.counted:
        return "checks.required", [found.value]
    least = int(found.value[:4]) if found.operator == ">=" and found.value.isdecimal() else 0
    return ("require.approvals", min(least, 10)) if found.attribute == "approved-reviews-by" and least else None


_GLOB = re.compile(r"\.[*+]|\\d\+?|\[0-9\]\+?|\\[./-]|[\w/-]")
_GLOBS = {".*": "**", ".+": "**", "\\d": "*", "\\d+": "*", "[0-9]": "*", "[0-9]+": "*"}


def _globs(operator: str, value: str) -> list[str]:
    """Write wildcards for a branch, for a regular expression that is hardly more, or for one of names alone."""
    glob = _glob(operator, value)
    return [glob] if glob else _names(Condition(False, False, "base", operator, value)) or [""]


def _glob(operator: str, value: str) -> str:
    """Write wildcards for a branch, or for a regular expression that is hardly more; empty if it is more."""
    if operator == "=":
        return value
    inner = value.removeprefix("^").removesuffix("$")
    parts = _GLOB.findall(inner)
    if not inner or "".join(parts) != inner:
        return ""
    glob = "".join(_GLOBS.get(part, part.replace("\\", "")) for part in parts)
    return f"{'' if value.startswith('^') else '**'}{glob}{'' if value.endswith('$') else '**'}".replace("****", "**")
