"""Convert `.mergify.yml`. Sources: Mergify's documents and its published JSON Schema.

Mergify has many queues with conditions; IMQ has one queue for a base branch. So what a rule says counts for its base
branches, and what narrows a rule further queues nothing by itself: a conversion never lets more in than Mergify did.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from bot.cli.convert.conditions import Conditions
from bot.cli.convert.conversion import Conversion, Source, Verdict, duration, literal_template
from queue_engine.config.document import Place

_NOTES = (
    "`@mergifyio queue` becomes `/queue`, `@mergifyio dequeue` becomes `/unqueue`; or use the trigger label.",
    "IMQ does no work outside its queue: rules that label, comment, backport or assign become workflows.",
)

_ACTIONS = {
    "assign": "A workflow may do it: `gh pr edit --add-assignee`.",
    "backport": "A workflow may do it, such as the action korthout/backport-action.",
    "close": "A workflow may do it: `gh pr close`.",
    "comment": "A workflow may do it: `gh pr comment`.",
    "copy": "A workflow may do it: cherry-pick onto a branch, and `gh pr create`.",
    "edit": "A workflow may do it: `gh pr ready`, or `gh pr ready --undo`.",
    "github_actions": "Let the workflow start by GitHub's own events.",
    "label": "A workflow may do it: `gh pr edit --add-label`, or the action actions/labeler.",
    "post_check": "A job of a workflow is a check.",
    "rebase": "IMQ updates the pull request at the front itself; `gh pr update-branch --rebase` rebases another.",
    "request_reviews": "A file CODEOWNERS has GitHub request reviews.",
    "review": "IMQ never approves. A workflow may: `gh pr review --approve`.",
    "squash": "`merge.method: squash` squashes when a pull request lands.",
    "update": "IMQ updates the pull request at the front itself, and those with the label that `update_label` names.",
}
_SECTIONS = {
    "extends": "IMQ has one shared file, `.github/imq.yml` in the owner's repository `.github`; convert that one, too.",
    "commands_restrictions": "`who_may_queue` says who may use IMQ's commands.",
    "merge_protections_settings": "Rules of GitHub decide what may merge, and IMQ obeys them. It queues what gets a "
    "trigger label or `/queue`: a workflow may set the label where the conditions of an automatic merge hold.",
    "scopes": "IMQ has one queue for a base branch. Trains test many pull requests together, whatever they change.",
    "partition_rules": "IMQ has one queue for a base branch, also in a repository of many projects.",
}
_CONDITIONS = ("conditions", "queue_conditions", "merge_conditions", "routing_conditions")
_METHODS = {"merge": "merge", "squash": "squash", "rebase": "rebase", "fast-forward": "rebase", "merge-batch": "merge"}
_ONE_METHOD = "Other rules land by another method; IMQ has one for all, beside `merge.method_labels`."
_AT_ONCE = "Mergify's action `merge` merges at once; IMQ queues, and tests on the newest base first."
_ACCOUNT = "IMQ acts as its App, and never as a person."
_IN_PLACE = "IMQ tests one pull request on its own branch, and several on a branch of IMQ's."
_OPTIONS = {
    "allow_checks_interruption": "`preempts` of a label in `priority.labels` lets it interrupt checks.",
    "allow_inplace_checks": _IN_PLACE,
    "allow_inplace_speculative_checks": _IN_PLACE,
    "allow_merging_configuration_change": "A change of IMQ's file lands like any other; its rules count from then on.",
    "allow_queue_branch_edit": "A push to a branch of IMQ's ends its run, and IMQ builds another.",
    "autoqueue": "IMQ queues what a person asks for, by the label or `/queue`.",
    "autosquash": "`merge.method: squash` squashes when a pull request lands.",
    "batch_max_failure_resolution_attempts": "IMQ bisects a failed run until it knows the cause.",
    "disallow_checks_interruption_from_queues": "`preempts` of a label in `priority.labels` is off unless you set it.",
    "draft_bot_account": _ACCOUNT,
    "merge_bot_account": _ACCOUNT,
    "update_bot_account": _ACCOUNT,
    "bot_account": _ACCOUNT,
    "queue_branch_prefix": "IMQ's branches are `imq/<base>/<id>`.",
    "queued_label": "IMQ sets no label for it: the trigger label, its check run and comment show it.",
    "rebase_fallback": "IMQ merges by one method; `merge.method_labels` chooses another by label.",
    "priority": "IMQ gives priority by label: `priority.labels`.",
    "strict_method": "IMQ brings a branch up to date by a merge of its base.",
}
_EMPTY = {
    **dict.fromkeys(("merge_method", "method"), "IMQ takes the first method that is allowed, too."),
    **dict.fromkeys(
        ("commit_message_template", "commit_message_format"), "Without a template GitHub's own text counts."
    ),
    **dict.fromkeys(("checking_label", "queued_label", "dequeued_label"), "IMQ sets no such label."),
}
"""Options that may be there without a value."""


def convert(source: Source) -> Conversion:
    """Convert a file of Mergify."""
    return _Mergify(source).convert()


class _Mergify:
    def __init__(self, source: Source) -> None:
        self.value = source.value
        self.made = Conversion(source, notes=list(_NOTES))
        self.conditions = Conditions(self.made)
        self._labels: list[str] = []
        """The labels of the present rule that choose its method, where rules land by several."""
        rules = self.value.get("queue_rules")
        self._rules_of_queues = rules if isinstance(rules, list) else []
        self._queues = {
            str(each.get("name")): ("queue_rules", index, "merge_method")
            for index, each in enumerate(self._rules_of_queues)
            if isinstance(each, dict) and str(each.get("merge_method")) in _METHODS
        }
        """The place of the method of each queue that has one."""
        self._of_label: set[Place] = set()
        """Methods of queues that labels of `merge.method_labels` choose."""
        self._many_queues = len(self._rules_of_queues) > 1
        defaults = self.value.get("defaults")
        self._defaults_of = {
            name: each if isinstance(defaults, dict) and isinstance(each := defaults.get(name), dict) else {}
            for name in ("queue_rule", "actions")
        }
        queues = [each for each in self._rules_of_queues if isinstance(each, dict)]
        for conditions in (
            each.get(name) for each in (*queues, self._defaults_of["queue_rule"]) for name in _CONDITIONS
        ):
            self.conditions.ask(conditions)
        for conditions, _ in self._entrances():
            self.conditions.ask(conditions)
        self.conditions.choosing = {name for name, methods in self._methods_of_labels().items() if len(methods) == 1}
        found = self.value.get("merge_protections")
        self._protections = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        for each in self._protections:
            self.conditions.ask(each.get("success_conditions"))
        self.conditions.alone = not self._many_queues
        self._narrow = {str(each.get("name")): self._narrows(each) for each in queues or [{}]}
        """Whether each queue, or a protection, refuses what IMQ would queue."""

    def _entrances(self, names: tuple[str, ...] = ("queue", "merge")) -> list[tuple[Any, Any]]:
        """Return conditions and options of each action that lets pull requests into a queue, or merges at once."""
        found = self.value.get("pull_request_rules")
        rules = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        actions = [(each.get("conditions"), each.get("actions")) for each in rules]
        landing = [(when, each) for when, each in actions if isinstance(each, dict)]
        return [(when, each[name]) for when, each in landing for name in names if name in each]

    def _narrows(self, queue: dict[str, Any]) -> bool:
        """Whether IMQ cannot follow what a queue asks for, apart from a label."""
        asked = [each.get(name) for each in (queue, self._defaults_of["queue_rule"]) for name in _CONDITIONS]
        return any(map(self.conditions.narrows, asked)) or not self._is_protected

    @property
    def _is_protected(self) -> bool:
        """Whether IMQ has all protections of Mergify."""
        return all(map(self.conditions.protects, self._protections))

    def _is_held(self, options: Any, conditions: Any) -> bool:
        """Whether each queue that a rule may use refuses what the label of the rule would queue."""
        wanted = (options if isinstance(options, dict) else {}).get("name", self._queue_by_default)
        queues = [each for each in self._rules_of_queues if isinstance(each, dict)] or [{}]
        used = [each for each in queues if wanted is None or not each or each.get("name") == wanted]
        labels = {label for found, _ in self.conditions.labels(conditions) for label in found}
        return bool(used) and all(self._narrow[str(each.get("name"))] or self._asks_more(each, labels) for each in used)

    def _asks_more(self, queue: dict[str, Any], labels: set[str]) -> bool:
        """Whether a queue asks for another label, which IMQ can require where it is the only queue."""
        rules = (queue, self._defaults_of["queue_rule"])
        asked = [found for each in rules for name in _CONDITIONS for found in self.conditions.labels(each.get(name))]
        return any(not labels <= found and (self._many_queues or not required) for found, required in asked)

    @property
    def _queue_by_default(self) -> Any:
        """Return the name of the queue that a rule uses which names none; None: any."""
        options = self._defaults_of["actions"].get("queue")
        return options.get("name") if isinstance(options, dict) else None

    def _method(self, options: Any) -> str:
        """Return the method by which a rule lands: its own, or that of the queue that it names."""
        options = options if isinstance(options, dict) else {}
        queue = self._queues.get(str(options.get("name", "default")))
        of_queue = None if queue is None else self.value["queue_rules"][queue[1]]["merge_method"]
        return str(options.get("method", options.get("merge_method", of_queue)))

    def _methods_of_labels(self) -> dict[str, set[str]]:
        """Return the methods of the rules that ask for a label; empty if all rules land by one method."""
        found: dict[str, set[str]] = {}
        for conditions, options in self._entrances():
            for label in self.conditions.triggers(conditions):
                found.setdefault(label, set()).add(self._method(options))
        return found if len({self._method(options) for _, options in self._entrances()}) > 1 else {}

    def convert(self) -> Conversion:
        handlers = {
            "pull_request_rules": self._pull_request_rules,
            "queue_rules": self._queue_rules,
            "merge_queue": self._merge_queue,
            "merge_protections": self._merge_protections,
            "commands_restrictions": self._commands_restrictions,
            "priority_rules": self._priority_rules,
            "defaults": self._defaults,
        }
        for name, handle in handlers.items():
            if name in self.value:
                handle((name,), self.value[name])
        self.conditions.finish()
        for name in self.value:
            if name in _SECTIONS:
                self.made.missing((name,), _SECTIONS[name])
            elif name == "$schema":
                self.made.same((name,), "IMQ's own schema is docs/imq.schema.json.")
            elif name == "shared":
                self.made.same((name,), "It counts where an alias names it.")
        return self.made

    # Pull request rules.

    def _pull_request_rules(self, place: Place, rules: Any) -> None:
        for index, rule in enumerate(rules if isinstance(rules, list) else ()):
            if isinstance(rule, dict):
                self._pull_request_rule((*place, index), rule)

    def _pull_request_rule(self, place: Place, rule: dict[str, Any]) -> None:
        actions = rule.get("actions")
        actions = actions if isinstance(actions, dict) else {}
        lands = [name for name in actions if name in ("queue", "merge")]
        others = [name for name in actions if name not in lands]
        if rule.get("disabled") not in (None, False):
            self.made.missing(place, "The rule is disabled.")
            return
        if not lands and others == ["delete_head_branch"] and _after_merging(rule.get("conditions")):
            self.made.same(place, "It deletes branches after landing.")
            self._delete_branch((*place, "actions", "delete_head_branch"), actions["delete_head_branch"])
            return
        for name in others:
            self._other_action((*place, "actions", name), name, actions[name], landing=bool(lands))
        if not lands:
            text = " ".join(dict.fromkeys(_ACTIONS[name] for name in others if name in _ACTIONS))
            self.made.missing(place, f"The rule queues nothing. {text}".strip())
            return
        for word in ("name", "description"):
            if word in rule:
                self.made.same((*place, word), "It describes the rule.")
        methods = self._methods_of_labels()
        of_rule = self.conditions.triggers(rule.get("conditions"))
        self._labels = [label for label in of_rule if len(methods.get(label, ())) == 1]
        for name in lands:
            self._landing_action((*place, "actions", name), name, actions[name])
        self.conditions.alone = len(self._entrances()) == 1 and not self._many_queues
        conditions = rule.get("conditions")
        held = not self._is_protected or ("queue" in lands and self._is_held(actions["queue"], conditions))
        self.conditions.entrance((*place, "conditions"), conditions, held=held)

    def _landing_action(self, place: Place, name: str, options: Any) -> None:
        options = options if isinstance(options, dict) else {}
        if not options:
            self.made.same(place, "IMQ queues.")
        if name == "merge" and options.get("strict") in (None, False) and _AT_ONCE not in self.made.notes:
            self.made.notes.append(_AT_ONCE)
        queue = self._queues.get(str(options.get("name", "default"))) if name == "queue" else None
        if queue is not None and self._labels and not {"method", "merge_method"} & set(options):
            method = _METHODS[self._method(options)]
            self.made.put(queue, "merge.method_labels", dict.fromkeys(self._labels, method))
            self._of_label.add(queue)
        self._options(place, options)

    def _other_action(self, place: Place, name: str, options: Any, *, landing: bool) -> None:
        if name == "delete_head_branch" and landing:
            self._delete_branch(place, options)
        elif name == "dismiss_reviews":
            text = "GitHub's rule for pull requests has it as `dismiss_stale_reviews_on_push`; IMQ obeys that rule."
            self.made.elsewhere(place, "pull_request", text, dismiss_stale_reviews_on_push=True)
        elif name in _ACTIONS:
            self.made.missing(place, _ACTIONS[name])
        elif name == "delete_head_branch":
            text = "IMQ deletes the branch of what it landed (`merge.delete_branch`), and no other."
            self.made.missing(place, text)

    def _delete_branch(self, place: Place, options: Any) -> None:
        force = isinstance(options, dict) and options.get("force") is True
        kept = "IMQ keeps a branch on which another open pull request is based." if force else ""
        self.made.put(place, "merge.delete_branch", True, kept)

    # Queues.

    def _queue_rules(self, place: Place, rules: Any) -> None:
        found = [(i, each) for i, each in enumerate(rules if isinstance(rules, list) else ()) if isinstance(each, dict)]
        self.conditions.alone = len(found) == 1
        named: list[set[str]] = []
        # The first value of a key counts, and most pull requests go to the queue `default`.
        for index, rule in sorted(found, key=lambda each: each[1].get("name") != "default"):
            here = (*place, index)
            self._options(here, {name: each for name, each in rule.items() if name not in _CONDITIONS})
            by_itself = rule.get("autoqueue") is True
            asked = [name for name in _CONDITIONS if name in rule]
            narrow = self._narrow[str(rule.get("name"))]
            bases = [
                self.conditions.queue((*here, name), rule[name], by_itself=by_itself, narrow=narrow) for name in asked
            ]
            named.append({branch for each in bases for branch in each})
        if all(named) and not self._entrances(("merge",)):
            self.conditions.of_queues = tuple(sorted(set().union(*named)))

    def _merge_protections(self, place: Place, rules: Any) -> None:
        for index, rule in enumerate(rules if isinstance(rules, list) else ()):
            if isinstance(rule, dict):
                for word in ("name", "description"):
                    if word in rule:
                        self.made.same((*place, index, word), "It describes the rule.")
                self.conditions.protection((*place, index), rule)

    def _commands_restrictions(self, place: Place, value: Any) -> None:
        rule = value.get("queue") if isinstance(value, dict) else None
        asked = rule.get("conditions") if isinstance(rule, dict) else None
        least = _PERMISSION.fullmatch(str(asked[0])) if isinstance(asked, list) and len(asked) == 1 else None
        if least:
            text = "It holds for the trigger label, too."
            self.made.put((*place, "queue", "conditions", 0), "who_may_queue.permission", least[1], text)

    def _merge_queue(self, place: Place, options: Any) -> None:
        self._options(place, options)

    def _defaults(self, place: Place, value: Any) -> None:
        if not isinstance(value, dict):
            return
        if "queue_rule" in value:
            self.conditions.alone = not self._many_queues
            rule = value["queue_rule"]
            if isinstance(rule, dict):
                here = (*place, "queue_rule")
                self._options(here, {name: each for name, each in rule.items() if not name.endswith("conditions")})
                for name in rule:
                    if name.endswith("conditions"):
                        self.conditions.queue((*here, name), rule[name], by_itself=False)
        actions = value.get("actions")
        for name, options in actions.items() if isinstance(actions, dict) else ():
            here = (*place, "actions", name)
            if name in ("queue", "merge"):
                self._options(here, options)
            else:
                self._other_action(here, name, options, landing=False)

    def _options(self, place: Place, options: Any) -> None:
        for name, value in options.items() if isinstance(options, dict) else ():
            self._option((*place, name), name, value)

    def _option(self, place: Place, name: str, value: Any) -> None:
        made = self.made
        whole = isinstance(value, int) and not isinstance(value, bool)
        match name:
            case _ if value is None and name in _EMPTY:
                made.same(place, _EMPTY[name])
            case "name" if place[0] == "queue_rules" or place[-2] == "queue":
                if self._many_queues:
                    made.find(place, Verdict.NEARLY, "IMQ has one queue for a base branch; labels give priority in it.")
                else:
                    made.same(place, "IMQ has one queue for a base branch.")
            case "merge_method" | "method":
                self._merge_method(place, value)
            case "queue_branch_merge_method" if value == "fast-forward":
                made.find(place, Verdict.NEARLY, "A train lands by moving the base branch where rules allow it.")
            case "update_method" if value == "rebase":
                text = "IMQ brings a branch up to date by a merge of its base; squash to keep the history linear."
                made.find(place, Verdict.NEARLY, text)
            case "update_method":
                made.same(place, "IMQ merges the base into the branch.")
            case "batch_size" if whole or isinstance(value, dict):
                self._batch(place, value)
            case "speculative_checks" | "max_parallel_checks" if whole:
                self._runs(place, value)
            case "checks_timeout":
                self._timeout(place, value)
            case "max_checks_retries" if whole:
                text = "IMQ reruns the failed jobs on the same commit, five times at most."
                made.put(place, "checks.reruns", min(value, 5), text)
            case "commit_message_template" if isinstance(value, str):
                self._template(place, value)
            case "commit_message":
                self._message(place, value)
            case "commit_message_format" if isinstance(value, dict):
                self._format(place, value)
            case "strict":
                made.same(place, "IMQ tests on the newest base.")
            case "require_branch_protection" | "branch_protection_injection_mode":
                self._protection(place, value)
            case "reset_on_external_merge":
                made.find(place, Verdict.NEARLY, "IMQ always tests again after somebody else's push to the base.")
            case "status_comments" if value in ("all", "outcomes", "none"):
                made.put(place, "comments.level", value)
            case "checking_label":
                made.put(
                    place, "checks.testing_label", value, "IMQ sets the label only if `checks.queue_only` has checks."
                )
            case "dequeued_label":
                made.put(place, "labels.failed", value, "IMQ sets it if the pull request left because of a fault.")
            case "batch_max_wait_time" if (seconds := _seconds(value)) is not None:
                self._fill_wait(place, seconds)
            case "mode" | "skip_intermediate_results" | "queue_controls_comment":
                self._mode(place, name, value)
            case _ if name in _OPTIONS:
                made.missing(place, _OPTIONS[name])

    def _merge_method(self, place: Place, value: Any) -> None:
        differs = {
            "fast-forward": "IMQ lands a rebase by GitHub's own method, which rewrites the commits.",
            "merge-batch": "Each pull request of a train has its own merge commit.",
        }
        if place in self._of_label:
            return
        if (method := _METHODS.get(str(value))) is None:
            self.made.missing(place, "Mergify has no such method, and refuses the file.")
        elif self._labels and place[0] == "pull_request_rules":
            labels = dict.fromkeys(self._labels, method)
            self.made.put(place, "merge.method_labels", labels, differs.get(value, ""))
        else:
            others = place[0] == "pull_request_rules" and len({self._method(each) for _, each in self._entrances()}) > 1
            self.made.put(place, "merge.method", method, differs.get(value, _ONE_METHOD if others else ""))

    def _mode(self, place: Place, name: str, value: Any) -> None:
        if name == "mode" and value == "serial":
            self.made.same(place, "A train tests pull requests on top of each other.")
        elif name == "mode":
            self.made.missing(place, _SECTIONS["scopes"])
        elif name == "skip_intermediate_results":
            self.made.find(
                place, Verdict.NEARLY, "IMQ tests the tip of a train, and parts of it after a failure alone."
            )
        else:
            self.made.find(place, Verdict.NEARLY, "IMQ's comment has no boxes; `/queue` queues again.")

    def _protection(self, place: Place, value: Any) -> None:
        if value in (False, "none"):
            self.made.find(place, Verdict.NEARLY, "IMQ always obeys the rules of GitHub.")
        else:
            self.made.same(place, "IMQ obeys the rules of GitHub.")

    def _batch(self, place: Place, value: Any) -> None:
        size = value.get("max") if isinstance(value, dict) else value
        if not isinstance(size, int) or isinstance(size, bool):
            return
        if size <= 1:
            self.made.same(place, "Without trains IMQ tests one pull request at a time.")
            return
        differs = "A train has 32 pull requests at most." if size > 32 else ""
        at = (*place, "max") if isinstance(value, dict) else place
        if isinstance(value, dict) and "min" in value:
            text = "IMQ waits for the most, not for the least: `trains.fill_wait` says how long."
            self.made.find((*place, "min"), Verdict.NEARLY, text)
        if self.made.put(at, "trains.max_size", min(size, 32), differs):
            self.made.default("trains.candidates", "auto", "a train has several pull requests")

    def _fill_wait(self, place: Place, seconds: int) -> None:
        if seconds:
            differs = "An hour is the longest." if seconds > 3600 else ""
            self.made.put(place, "trains.fill_wait", duration(min(seconds, 3600)), differs)
        else:
            self.made.same(place, "Without a wait IMQ starts a run as soon as one may start.")

    def _runs(self, place: Place, count: int) -> None:
        if count <= 1:
            self.made.same(place, "Without trains IMQ tests one pull request at a time.")
            return
        text = "IMQ runs CI for trains, Mergify for each pull request or batch." + (
            " There are 32 runs at most." if count > 32 else ""
        )
        if self.made.put(place, "trains.runs", min(count, 32), text):
            self.made.default("trains.candidates", "auto", "several runs are active at once")

    def _timeout(self, place: Place, value: Any) -> None:
        if value == "auto":
            self.made.put(place, "checks.timeout", "auto", "`auto` is three times the usual time of a check.")
        elif value is None:
            text = "IMQ always has a limit: `auto` is three times the usual time of a check."
            self.made.find(place, Verdict.NEARLY, text)
        elif (seconds := _seconds(value)) is not None:
            longest = 7 * 24 * 3600
            differs = "A week is the longest." if seconds > longest else ""
            self.made.put(place, "checks.timeout", duration(min(seconds, longest)), differs)
        else:
            self.made.missing(place, "This is no duration that Mergify's documents name.")

    # Messages of commits.

    def _template(self, place: Place, template: str) -> None:
        title, _, body = template.strip().partition("\n")
        made = [_placeholders(part.strip()) for part in (title, body)]
        if None in made or not made[0]:
            text = "IMQ's templates have no expressions: write `merge.title` and `merge.body` with its placeholders."
            self.made.missing(place, text)
            return
        text = "IMQ quotes trailers that name people, and mentions nobody, in text from a description."
        if self.made.put(place, "merge.title", made[0], text):
            self.made.put(place, "merge.body", made[1], text)

    def _message(self, place: Place, value: Any) -> None:
        if value in ("default", None):
            self.made.same(place, "Without a template GitHub's own text counts.")
        elif value in ("title+body", "title"):
            self.made.put(place, "merge.title", "{title} (#{number})")
            self.made.put(place, "merge.body", "{body}" if value == "title+body" else "")
        else:
            self.made.missing(place, "Mergify has no such value: write `merge.title` and `merge.body`.")

    def _format(self, place: Place, value: dict[str, Any]) -> None:
        title, body, trailers = value.get("title"), value.get("body"), value.get("trailers")
        trailers = trailers if isinstance(trailers, list) else []
        names = "co-authored-by" in trailers
        for name, each in (("title", title), ("body", body)):
            if each == "inherit":
                self.made.same((*place, name), "Without a template GitHub's own text counts.")
        if title == "pr-title":
            self.made.put((*place, "title"), "merge.title", "{title} (#{number})")
        if body in ("pr-body", "empty"):
            text = "{body}" if body == "pr-body" else ""
            text += "\n\n{co_authors}" if names and text else "{co_authors}" if names else ""
            self.made.put((*place, "body"), "merge.body", text)
        for index, each in enumerate(trailers):
            here = (*place, "trailers", index)
            if each == "co-authored-by" and body in ("pr-body", "empty"):
                self.made.same(here, "The body has it.")
            else:
                self.made.missing(here, "IMQ's templates have `{co_authors}`, after a body of their own.")

    # Priorities.

    def _priority_rules(self, place: Place, rules: Any) -> None:
        listed = rules if isinstance(rules, list) else ()
        given = {(*place, index): rule for index, rule in enumerate(listed) if isinstance(rule, dict)}
        points = (_points(rule) for rule in given.values())
        priorities = _priorities({each for each in points if each is not None})
        for here, rule in given.items():
            self._priority_rule(here, rule, priorities)

    def _priority_rule(self, place: Place, rule: dict[str, Any], priorities: Mapping[int, int]) -> None:
        labels = self.conditions.labels_alone(rule.get("conditions"))
        if not labels:
            self.made.missing(place, "IMQ gives priority by label alone: have a workflow set one.")
            return
        points = _points(rule)
        if points is None:
            self.made.missing(place, "This is no priority that Mergify's documents name.")
            return
        priority: Any = priorities[points]
        text = "Mergify's medium is 2000, IMQ's is 0; a point overtakes an hour of waiting (`priority.ageing`)."
        if priority != points - _MEDIUM:
            text += f" IMQ's end at {_MOST_POINTS}: the labels keep their order, and not their distances."
        if rule.get("allow_checks_interruption") is True:
            priority = {"priority": priority, "preempts": True}
        self.made.put(place, "priority.labels", dict.fromkeys(labels, priority), text)


_MEDIUM, _MOST_POINTS = 2000, 1000
"""Mergify's usual priority, and the bound of IMQ's, whose usual one is 0."""


def _points(rule: Mapping[str, Any]) -> int | None:
    given = rule.get("priority", "medium")
    points = {"low": 1000, "medium": _MEDIUM, "high": 3000}.get(given) if isinstance(given, str) else given
    return points if isinstance(points, int) and not isinstance(points, bool) else None


def _priorities(points: Collection[int]) -> dict[int, int]:
    """Return IMQ's priorities in the same order: a side with some beyond its bound is spread evenly."""
    ours = {each: each - _MEDIUM for each in points}
    for sign in (1, -1):
        side = sorted((each for each in points if sign * ours[each] > 0), key=lambda each: sign * each)
        if side and abs(ours[side[-1]]) > _MOST_POINTS:
            ours |= {each: sign * (_MOST_POINTS * rank // len(side)) for rank, each in enumerate(side, 1)}
    return ours


_PERMISSION = re.compile(r"sender-permission\s*(?:>=|≥)\s*(write|maintain|admin)")


def _after_merging(conditions: Any) -> bool:
    return (
        isinstance(conditions, list) and bool(conditions) and all(each in ("merged", "closed") for each in conditions)
    )


_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"\s*(\d{1,6})\s*(d|h|m|s)[a-z]*\s*,?", re.IGNORECASE)


def _seconds(text: object) -> int | None:
    """Read a duration such as `1 day 2 hours`; None if it is not one."""
    if not isinstance(text, str) or not (found := _DURATION.findall(text)) or _DURATION.sub("", text).strip():
        return None
    return sum(int(number) * _UNITS[unit.lower()] for number, unit in found)


_TOKEN = re.compile(r"\{\{-?\s*([a-z_-]+)\s*(?:\|\s*trim\s*)?-?\}\}")
"""GitHub trims a message itself."""
_PLACEHOLDERS = {
    "title": "title",
    "number": "number",
    "body": "body",
    "author": "author",
    "base": "base",
    "head": "head",
}


def _placeholders(template: str) -> str | None:
    """Write a template of Jinja2 with IMQ's placeholders; None if it has more than variables that IMQ has."""
    parts, end = [], 0
    for found in _TOKEN.finditer(template):
        if found[1] not in _PLACEHOLDERS:
            return None
        parts += [literal_template(template[end : found.start()]), f"{{{_PLACEHOLDERS[found[1]]}}}"]
        end = found.end()
    rest = literal_template(template[end:])
    parts.append(rest)
    if any(mark in template for mark in ("{%", "{#")) or "{{" in _TOKEN.sub("", template):
        return None
    return "".join(parts)
