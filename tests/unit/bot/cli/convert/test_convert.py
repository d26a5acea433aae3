"""`imq convert`: whole files of other queues, what becomes of each value, and files that cannot be converted."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bot.cli import main
from queue_engine.config.document import parse
from queue_engine.config.file import followed
from queue_engine.config.model import Policy
from queue_engine.config.parse import read

Convert = Callable[..., Result]

MERGIFY = r"""
shared:
  reviewed: &reviewed
    - "#approved-reviews-by>=2"
    - "#changes-requested-reviews-by=0"
defaults:
  queue_rule:
    update_method: rebase
  actions:
    queue:
      name: default
queue_rules:
  - name: urgent
    merge_method: rebase
    merge_conditions: *reviewed
  - name: default
    merge_method: squash
    batch_size: {min: 1, max: 64}
    batch_max_wait_time: 5 min
    checks_timeout: 1 day 2 hours
    queue_conditions:
      - and:
          - -draft
          - or: [check-success=lint, check-neutral=lint, check-skipped=lint]
          - "#check-failure=0"
    commit_message_template: |
      {{ title }} (#{{ number }})

      {{ body }}
merge_queue:
  max_parallel_checks: 3
  mode: serial
  dequeued_label: out
priority_rules:
  - name: hotfixes
    conditions: [label=hotfix]
    priority: high
    allow_checks_interruption: true
  - name: bots
    conditions: [author=renovate]
    priority: low
pull_request_rules:
  - name: land
    conditions:
      - or: [base=main, "base~=^release/v\\d+$"]
      - label=ready
      - label!=wip
      - -label~=^(blocked|on hold)$
      - -title~=^WIP
      - check-success=test
      - check-success~=^e2e
      - "#review-threads-unresolved=0"
      - approved-reviews-by=@core
    actions: &queued
      queue:
        name: default
      delete_head_branch: {}
  - name: bots land
    conditions: [author=renovate, label=dependencies, base=main, files~=lock$]
    actions:
      <<: *queued
      label: {add: [queued]}
  - name: backports
    conditions: [merged, label=backport]
    actions:
      backport: {branches: [stable]}
novelty: {of: 2030}
"""

KODIAK = """
version = 1
disable_bot_label = "kodiak:off"
[merge]
automerge_label = ["ship it", "automerge"]
require_automerge_label = false
blocking_labels = ["wip"]
method = "rebase_fast_forward"
delete_branch_on_merge = true
block_on_reviews_requested = false
dont_wait_on_status_checks = ["deploy"]
priority_merge_label = "urgent"
notify_on_conflict = true
do_not_merge = false
automerge_dependencies = {versions = ["minor"], usernames = ["renovate"]}
[merge.message]
title = "pull_request_title"
body = "pull_request_body"
include_pr_number = true
strip_html_comments = true
include_coauthors = true
include_pull_request_url = true
cut_body_before = "-----"
body_type = "plain_text"
[update]
always = true
autoupdate_label = "fresh"
ignored_usernames = []
[approve]
auto_approve_usernames = ["dependabot"]
"""

BORS = """
status = ["test", "ci/%"]
pr-status = ["lint"]
block_labels = ["S-blocked"]
timeout_sec = 5400
required_approvals = 1
up_to_date_approvals = true
use_codeowners = true
cut_body_after = "---"
delete_merged_branches = true
use_squash_merge = true
max_batch_size = 50
commit_title = "Land {all} ${PR_REFS}"
committer = {name = "Bors", email = "bors@example.com"}
"""

RULESET: dict[str, Any] = {
    "id": 42,
    "name": "main",
    "target": "branch",
    "enforcement": "active",
    "source": "acme/rocket",
    "bypass_actors": [],
    "conditions": {"ref_name": {"include": ["refs/heads/main", "refs/heads/lts/*"], "exclude": ["refs/heads/lts/1"]}},
    "rules": [
        {"type": "non_fast_forward"},
        {
            "type": "merge_queue",
            "parameters": {
                "check_response_timeout_minutes": 90,
                "grouping_strategy": "ALLGREEN",
                "max_entries_to_build": 5,
                "max_entries_to_merge": 40,
                "merge_method": "SQUASH",
                "min_entries_to_merge": 1,
                "min_entries_to_merge_wait_minutes": 5,
                "novelty": True,
            },
        },
    ],
}


@pytest.fixture
def convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Convert:
    """Runs the command in an empty clone, in which a file has this content."""
    monkeypatch.chdir(tmp_path)

    def run(name: str, content: str | bytes, *arguments: str) -> Result:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return CliRunner().invoke(main.main, ["convert", *arguments], catch_exceptions=False)

    return run


def verdicts(result: Result) -> dict[str, tuple[str, str]]:
    """Return verdict and key of each place of a report in JSON."""
    return {each["place"]: (each["verdict"], each["key"]) for each in json.loads(result.stdout)["values"]}


def test_convert_of_mergify_lets_nothing_in_that_mergify_kept_out(convert: Convert) -> None:
    """Branches, labels, checks, trains and templates carry over; a label beside other conditions queues nothing."""
    result = convert(".mergify.yml", MERGIFY, "--json")
    written = parse(Path(".github/imq.yml").read_text()).value
    assert written == {
        "enabled": False,
        "checks": {"timeout": "26h", "required": ["lint"]},
        "merge": {
            "delete_branch": True,
            "method": "squash",
            "title": "{title} (#{number})",
            "body": "{body}",
        },
        "trains": {"max_size": 32, "candidates": "auto", "fill_wait": "5m", "runs": 3},
        "require": {"approvals": 2},
        "labels": {"failed": "out"},
        "priority": {"labels": {"hotfix": {"priority": 1000, "preempts": True}}},
        "branches": [
            {
                "match": ["main", "release/v*"],
                "enabled": True,
                "blocking": {"labels": ["wip", "blocked", "on hold"], "titles": ["^WIP"]},
                "checks": {"required": ["test", "lint"]},
            },
        ],
    }
    found = verdicts(result)
    # Checks by pattern, and that none failed: the label queues by itself once neither is asked for.
    followed = [line for line in MERGIFY.splitlines() if "^e2e" not in line and "check-failure" not in line]
    convert(".mergify.yml", "\n".join(followed), "--force")
    assert parse(Path(".github/imq.yml").read_text()).value["branches"][0]["trigger_labels"] == ["ready"]
    assert found["queue_rules[0].merge_method"] == ("nearly", "merge.method")
    assert found["defaults.queue_rule.update_method"] == ("nearly", "")
    assert found["queue_rules[1].batch_size.max"] == ("nearly", "trains.max_size")
    assert found["pull_request_rules[0].conditions[7]"] == ("elsewhere", "")
    for place in ("[0].conditions[6]", "[1].conditions[1]", "[1].actions.label.add[0]", "[2].conditions[0]"):
        assert found[f"pull_request_rules{place}"][0] == "not there"
    assert found["novelty.of"] == ("not there", "")
    command = json.loads(result.stdout)["command"].splitlines()
    assert command[0] == "gh api --method POST 'repos/{owner}/{repo}/rulesets' --input - <<'JSON'"
    assert json.loads(command[1])["rules"] == [
        {
            "type": "pull_request",
            "parameters": {
                "required_approving_review_count": 1,
                "dismiss_stale_reviews_on_push": False,
                "require_code_owner_review": True,
                "require_last_push_approval": False,
                "required_review_thread_resolution": True,
            },
        }
    ]


def test_convert_of_too_many_labels_for_a_branch_leaves_out_its_own_alone(convert: Convert) -> None:
    """The five labels for all branches stay, and the report says so."""
    rules = [f"- {{conditions: [label=l{number}], actions: {{queue: {{}}}}}}" for number in range(5)]
    rules.append("- {conditions: [base=main, label=late], actions: {queue: {}}}")
    result = convert(".mergify.yml", "pull_request_rules:\n" + "\n".join(rules), "--json")
    assert parse(Path(".github/imq.yml").read_text()).value == {"trigger_labels": [f"l{each}" for each in range(5)]}
    found = verdicts(result)
    assert found["pull_request_rules[4].conditions[0]"] == ("same", "trigger_labels")
    assert found["pull_request_rules[5].conditions[1]"] == ("not there", "")


def test_convert_of_rules_that_land_by_several_methods_names_each_by_its_label(convert: Convert) -> None:
    """A label that is part of a word names no other; a count of checks is no check."""
    rules = "".join(
        f"- conditions: [label={label}, base=main, '#check-neutral=0']\n  actions: {{merge: {{method: {method}}}}}\n"
        for label, method in (("land", "merge"), ("shrink", "squash"))
    )
    convert(".mergify.yml", f"pull_request_rules:\n{rules}")
    written = parse(Path(".github/imq.yml").read_text()).value
    assert written == {
        "enabled": False,
        "merge": {"method_labels": {"land": "merge", "shrink": "squash"}},
        "branches": [{"match": ["main"], "trigger_labels": ["land", "shrink"], "enabled": True}],
    }


def test_convert_of_rules_that_name_queues_takes_the_method_of_each_queue(convert: Convert) -> None:
    """A label that is in rules of both methods chooses neither; names of branches in a pattern are branches."""
    queues = "queue_rules: [{name: a, merge_method: merge}, {name: b, merge_method: squash}]\npull_request_rules:\n"
    rules = "".join(
        f"- conditions: [{labels}, 'base~=^(dev|next)$']\n  actions: {{queue: {{name: {name}}}}}\n"
        for labels, name in (("label=land", "a"), ("label=shrink", "b"), ("label=shrink, label=now", "b"))
    )
    rules += "- conditions: [label=now, label=land, 'base~=^(dev|next)$']\n  actions: {queue: {name: a}}\n"
    found = verdicts(convert(".mergify.yml", queues + rules, "--json"))
    assert parse(Path(".github/imq.yml").read_text()).value == {
        "enabled": False,
        "merge": {"method_labels": {"land": "merge", "shrink": "squash"}},
        "branches": [{"match": ["dev", "next"], "trigger_labels": ["land", "shrink"], "enabled": True}],
    }
    assert found["queue_rules[1].merge_method"] == ("same", "merge.method_labels")


def test_convert_of_rules_with_and_without_a_label_has_it_choose_the_method(convert: Convert) -> None:
    """The rule without it is for the other pull requests: it blocks none. GitHub trims a message itself."""
    rules = "pull_request_rules:\n- conditions: [label=go, label!=keep, label!=wait]\n"
    rules += "  actions: {merge: {method: squash}}\n"
    rules += "- conditions: [label=go, label=keep]\n  actions: {queue: {method: merge}}\n"
    rules += "queue_rules: [{name: default, commit_message_template: '{{ title }}\n\n\n  {{ body | trim }}'}]\n"
    found = verdicts(convert(".mergify.yml", rules, "--json"))
    written = parse(Path(".github/imq.yml").read_text()).value
    assert written["blocking"] == {"labels": ["wait"]}
    assert written["merge"] == {
        "method": "squash",
        "method_labels": {"keep": "merge"},
        "title": "{title}",
        "body": "{body}",
    }
    assert found["pull_request_rules[0].conditions[1]"] == ("same", "")


def test_convert_makes_no_trigger_of_a_queues_label_beside_a_rule_that_asks_for_more(convert: Convert) -> None:
    """By itself the label queued nothing. One that another rule excludes is blocked, and the report says so."""
    queues = "queue_rules: [{name: a, queue_conditions: [label!=odd]}, {name: b, queue_conditions: [label=odd]}]\n"
    rules = "pull_request_rules: [{conditions: [label=go, label=odd], actions: {queue: {name: b}}}]\n"
    report = json.loads(convert(".mergify.yml", queues + rules, "--json").stdout)
    assert parse(Path(".github/imq.yml").read_text()).value == {"blocking": {"labels": ["odd"]}}
    (text,) = (each["text"] for each in report["values"] if each["key"] == "blocking.labels")
    assert text.startswith("Another rule asks for it.")


def test_convert_of_priorities_beyond_imqs_bounds_keeps_their_order(convert: Convert) -> None:
    """Mergify's reach from 1 to 10000; P0 stays before P5, and the usual priority between high and low ones."""
    rules = {"P0": 10000, "P1": 9999, "P5": 2500, "usual": 2000, "slow": 1500, "last": 1}
    given = "".join(f"  - {{name: {each}, conditions: [label={each}], priority: {rules[each]}}}\n" for each in rules)
    result = convert(".mergify.yml", f"priority_rules:\n{given}", "--output", "-")
    assert "labels: {P0: 1000, P1: 666, P5: 333, usual: 0, slow: -500, last: -1000}" in result.stdout
    assert "IMQ's end at 1000: the labels keep their order, and not their distances." in result.stderr
    near = given.replace("10000", "high").replace("9999", "2999").replace("priority: 1}", "priority: low}")
    result = convert(".mergify.yml", f"priority_rules:\n{near}", "--output", "-")
    assert "labels: {P0: 1000, P1: 999, P5: 500, usual: 0, slow: -500, last: -1000}" in result.stdout
    assert "IMQ's end at" not in result.stderr


def test_convert_of_an_action_that_merges_at_once_says_that_imq_queues(convert: Convert) -> None:
    """Also beside options; a check of the merge alone may be one of the queue alone."""
    text = "pull_request_rules: [{conditions: [label=x], actions: {merge: {method: squash}}}]\n"
    text += "queue_rules: [{name: default, merge_conditions: [check-success=full], queue_conditions: []}]\n"
    report = json.loads(convert(".mergify.yml", text, "--json").stdout)
    assert any("merges at once" in note for note in report["notes"])
    (full,) = (each["text"] for each in report["values"] if each["place"].endswith("merge_conditions[0]"))
    assert "`checks.queue_only`" in full


def test_convert_of_the_only_rule_makes_its_conditions_entrance_rules(convert: Convert) -> None:
    """Author, files, requested reviews and a second label; of one of several rules none, which would hold for all."""
    conditions = "[label~=ready|go, label=qa, author=mona, -files~=^docs/, '#review-requested=0']"
    rule = f"- conditions: {conditions}\n  actions: {{queue: {{}}}}\n"
    convert(".mergify.yml", f"pull_request_rules:\n{rule}")
    assert parse(Path(".github/imq.yml").read_text()).value == {
        "trigger_labels": ["ready", "go"],
        "require": {"labels": ["qa"], "authors": ["mona"], "reviews_done": True},
        "blocking": {"files": ["docs/**"]},
    }
    convert(
        ".mergify.yml", f"pull_request_rules:\n{rule}- conditions: [label=x]\n  actions: {{queue: {{}}}}\n", "--force"
    )
    assert parse(Path(".github/imq.yml").read_text()).value == {"trigger_labels": ["x"]}


def test_convert_of_kodiak_writes_its_defaults_too(convert: Convert) -> None:
    """Kodiak's default label and blocked titles, and its messages as templates."""
    result = convert(".github/.kodiak.toml", KODIAK, "--json")
    assert parse(Path(".github/imq.yml").read_text()).value == {
        "trigger_labels": ["ship it", "automerge"],
        "enabled": True,
        "update_label": "fresh",
        "blocking": {"labels": ["kodiak:off", "wip"], "titles": ["^WIP:.*"]},
        "merge": {
            "method": "rebase",
            "delete_branch": True,
            "title": "{title} (#{number})",
            "body": "{body_text}\n\nPR-URL: {url}\n\n{co_authors}",
        },
        "checks": {"ignored": ["deploy"]},
        "priority": {"labels": {"urgent": {"hotfix": True}}},
    }
    found = {place: verdict for place, (verdict, _) in verdicts(result).items()}
    assert [place for place, verdict in found.items() if verdict == "not there"] == [
        "merge.require_automerge_label",
        "merge.automerge_dependencies.versions[0]",
        "merge.automerge_dependencies.usernames[0]",
        "merge.message.body_type",
        "update.always",
        "approve.auto_approve_usernames[0]",
    ]


def test_convert_of_kodiak_keeps_those_with_the_label_up_to_date_and_names_misplaced_keys(convert: Convert) -> None:
    """`update.always` becomes the label's; trailers follow an empty body, and a key is no key below another header."""
    text = """
        merge.automerge_label = "land"
        merge.optimistic_updates = true
        merge.blacklist_title_regex = "^old"
        merge.blocking_title_regex = ""
        [merge.automerge_dependencies]
        method = "squash"
        [merge.message]
        body = "empty"
        strip_html_comments = true
        include_coauthors = true
        include_pull_request_url = true
        [update]
        always = true
        ignored_usernames = ["dependabot"]
    """
    result = convert(".kodiak.toml", text, "--json")
    assert parse(Path(".github/imq.yml").read_text()).value == {
        "trigger_labels": "land",
        "update_label": "land",
        "merge": {"body": "PR-URL: {url}\n\n{co_authors}"},
    }
    found = verdicts(result)
    assert found["update.always"] == ("nearly", "update_label")
    assert found["merge.optimistic_updates"] == ("same", "")
    answers = {each["place"]: each["text"] for each in json.loads(result.stdout)["values"]}
    assert "has `merge.method`" in answers["merge.automerge_dependencies.method"]
    assert answers["merge.blacklist_title_regex"] == "It has no effect beside `merge.blocking_title_regex`."
    assert answers["merge.message.strip_html_comments"] == "It has no effect here."
    convert(".kodiak.toml", "[update]\nalways = true\nrequire_automerge_label = false\n", "--force")
    assert "update_label" not in Path(".github/imq.yml").read_text()


def test_convert_of_bors_tests_pull_requests_together_as_bors_did(convert: Convert) -> None:
    """Trains are on, approvals are required, and the queue is off until people list the checks of a pattern."""
    result = convert("bors.toml", BORS, "--json")
    assert parse(Path(".github/imq.yml").read_text()).value == {
        "enabled": False,
        "checks": {"required": ["test", "lint"], "timeout": "90m"},
        "blocking": {"labels": ["S-blocked"]},
        "merge": {"delete_branch": True, "method": "squash", "title": "Land {{all}} #{number}"},
        "trains": {"max_size": 32, "candidates": "auto"},
        "require": {"approvals": 1},
    }
    found = verdicts(result)
    assert found["status[1]"] == ("not there", "")
    assert found["required_approvals"] == ("same", "require.approvals")
    for name in ("up_to_date_approvals", "use_codeowners"):
        assert found[name] == ("elsewhere", "")
    (rule,) = json.loads(json.loads(result.stdout)["command"].splitlines()[1])["rules"]
    assert rule["parameters"]["required_approving_review_count"] == 1
    assert rule["parameters"]["dismiss_stale_reviews_on_push"] is True


def test_convert_of_a_ruleset_removes_githubs_queue_and_keeps_its_other_rules(convert: Convert) -> None:
    """The queue has the ruleset's branches; the command replaces the ruleset by one without a queue."""
    result = convert("rules.json", json.dumps(RULESET, indent="\t"), "rules.json", "--json")
    assert parse(Path(".github/imq.yml").read_text()).value == {
        "enabled": False,
        "checks": {"timeout": "90m"},
        "trains": {"runs": 5, "max_size": 32, "candidates": "auto"},
        "merge": {"method": "squash"},
        "branches": [
            {"match": ["lts/1"], "enabled": False},
            {"match": ["main", "lts/*"], "enabled": True},
        ],
    }
    found = verdicts(result)
    assert found["rules[0].type"] == ("same", "")
    assert found["rules[1].type"] == ("elsewhere", "")
    assert found["rules[1].parameters.novelty"] == ("not there", "")
    command, body, _ = json.loads(result.stdout)["command"].splitlines()
    assert command.startswith("gh api --method PUT 'repos/{owner}/{repo}/rulesets/42'")
    kept = {name: RULESET[name] for name in ("name", "target", "enforcement", "conditions")}
    assert json.loads(body) == kept | {"rules": [{"type": "non_fast_forward"}]}


@pytest.mark.parametrize("case", ["switched off", "no queue", "of an organisation", "closed branch", "tags"])
def test_convert_of_a_ruleset_says_what_is_peculiar_to_it(convert: Convert, case: str) -> None:
    """A queue that is off keeps its branches; whose ruleset it is decides the command; `update` closes a branch."""
    cases: dict[str, dict[str, Any]] = {
        "switched off": {"enforcement": "disabled"},
        "no queue": {"rules": [{"type": "deletion"}], "conditions": None},
        "of an organisation": {"id": None, "source_type": "Organization"},
        "closed branch": {"rules": [{"type": "update"}]},
        "tags": {"rules": [{"type": "update"}], "target": "tag"},
    }
    given = RULESET | cases[case]
    result = convert("rules.json", json.dumps(given), "rules.json", "--json")
    report, found = json.loads(result.stdout), verdicts(result)
    queues = case in {"switched off", "of an organisation"}
    assert ("enabled" in Path(".github/imq.yml").read_text()) is queues
    assert ("sets nothing" in " ".join(report["notes"])) is not queues
    assert found["enforcement"] == ("nearly" if case == "switched off" else "same", "")
    assert ("orgs/{owner}/rulesets/RULESET_ID'" in report["command"]) is (case == "of an organisation")
    assert ("lists the ids" in " ".join(report["notes"])) is (case == "of an organisation")
    assert (found.get("rules[0].type") == ("nearly", "")) is (case == "closed branch")
    assert any("tags alone" in each["text"] for each in report["values"]) is (case == "tags")


ALTERNATIVES = r"""
pull_request_rules:
  - name: land
    conditions:
      - label=ready
      - "#approved-reviews-by>=1"
      - or: [check-success=integration, label=skip integration]
      - or:
          - label=trusted
          - and: ["#approved-reviews-by>=2", check-success=review]
      - or: [check-success=fast, check-success=slow]
      - or: [check-success=docs, check-pending=docs]
      - -check-success=broken
    actions: {queue: {}}
"""


def test_convert_requires_the_checks_and_approvals_that_a_label_may_replace(convert: Convert) -> None:
    """A conversion never lands what Mergify kept out: of alternatives, IMQ requires what people cannot set by hand."""
    result = convert(".mergify.yml", ALTERNATIVES, "--json")
    file = parse(Path(".github/imq.yml").read_text()).value
    assert file["checks"]["required"] == ["integration", "review"]
    assert file["require"]["approvals"] == 2
    found = verdicts(result)
    conditions = "pull_request_rules[0].conditions"
    assert found[f"{conditions}[2].or[1]"] == ("nearly", "checks.required")
    assert found[f"{conditions}[3].or[0]"][0] == "nearly"
    # Two checks of which one suffices may never report both, and nothing waits for a check to fail.
    assert found[f"{conditions}[4].or[0]"] == found[f"{conditions}[5].or[0]"] == ("not there", "")
    texts = {each["place"]: each["text"] for each in json.loads(result.stdout)["values"]}
    assert "lands what passes" in texts[f"{conditions}[6]"]
    # The other alternatives keep the label from queueing: IMQ cannot follow them.
    assert "trigger_labels" not in file
    followed = "\n".join(
        line for line in ALTERNATIVES.splitlines() if not {"fast", "docs", "broken"} & {*re.split(r"\W", line)}
    )
    convert(".mergify.yml", followed, "--force")
    assert parse(Path(".github/imq.yml").read_text()).value["trigger_labels"] == ["ready"]


@pytest.mark.parametrize(
    ("action", "bases", "enabled"),
    [("queue", ("main", "base~=^v"), False), ("queue", ("main", ""), True), ("merge", ("main", "lts"), True)],
    ids=["all queues name bases", "one queue has any", "merges beside the queues"],
)
def test_convert_switches_off_the_branches_that_no_queue_takes(
    convert: Convert, action: str, bases: tuple[str, str], enabled: bool
) -> None:
    """A rule without a base admits what its queue may land: no pull request to any other branch."""
    named = [base if "=" in base else f"base={base}" for base in bases if base]
    queues = [{"name": f"q{at}", "queue_conditions": [each]} for at, each in enumerate(named)]
    queues += [{"name": "any"}] * (len(named) < len(bases))
    rules = [{"name": "land", "conditions": ["label=go"], "actions": {action: {}}}]
    convert(".mergify.yml", json.dumps({"queue_rules": queues, "pull_request_rules": rules}))
    file = parse(Path(".github/imq.yml").read_text()).value
    assert file.get("enabled", True) is enabled
    taken = {name for each in file.get("branches", []) if each.get("enabled") for name in each["match"]}
    assert taken == (set() if enabled else {"main", "v**"})


@pytest.mark.parametrize("others", [[{"context": "build"}], []], ids=["beside others", "alone"])
def test_convert_of_a_ruleset_removes_the_check_of_a_merge_queue_that_goes(
    convert: Convert, others: list[dict[str, str]]
) -> None:
    """Mergify's or Kodiak's own check reports no more; the command leaves the ruleset what else it requires."""
    foreign = [{"context": "Mergify Merge Protections", "integration_id": 10562}, {"context": "kodiakhq: status"}]
    checks = {"type": "required_status_checks", "parameters": {"required_status_checks": [*others, *foreign]}}
    rules = RULESET | {"rules": [{"type": "deletion"}, checks]}
    result = convert("rules.json", json.dumps(rules), "rules.json", "--json")
    found, at = verdicts(result), "rules[1].parameters.required_status_checks"
    assert [found[f"{at}[{len(others) + each}].context"] for each in (0, 1)] == [("elsewhere", "")] * 2
    left: list[dict[str, Any]] = [{"type": "deletion"}]
    if others:
        assert found[f"{at}[0].context"] == ("same", "")
        left.append({"type": "required_status_checks", "parameters": {"required_status_checks": others}})
    assert json.loads(json.loads(result.stdout)["command"].splitlines()[1])["rules"] == left


def leaves(value: Any) -> int:
    """Count the values that have none below them."""
    below = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return sum(map(leaves, below)) or 1


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        # The two values of the merge key are written once, and read twice.
        (".mergify.yml", MERGIFY, leaves(parse(MERGIFY).value)),
        (".kodiak.toml", KODIAK, 27),
        ("bors.toml", BORS, 15),
        ("rules.json", json.dumps(RULESET), leaves(RULESET)),
    ],
    ids=["mergify", "kodiak", "bors", "ruleset"],
)
def test_convert_reports_every_value_once(convert: Convert, name: str, content: str, expected: int) -> None:
    """None is dropped in silence, and none is said to be the same without a key or a reason."""
    values = json.loads(convert(name, content, name, "--json").stdout)["values"]
    assert len({each["place"] for each in values}) == len(values) == expected
    assert all(each["key"] or each["text"] for each in values)
    report = convert(name, content, name, "--output", "-").stderr
    for each in values:
        assert f": {each['place']} = " in report


def test_convert_finds_the_file_and_replaces_none(convert: Convert) -> None:
    """A second run needs `--force`; with two products somebody has to choose, and without one the help is a list."""
    first = convert(".kodiak.toml", "version = 1\n")
    assert first.exit_code == 0
    assert first.stdout.startswith(".kodiak.toml (Kodiak) became .github/imq.yml: 1 same, 0 nearly,")
    Path(".github/imq.yml").write_text("depth: 3\n")
    refused = convert(".kodiak.toml", "version = 1\n")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "Error: .github/imq.yml is there: replace it with --force, or print with `--output -`." in refused.stderr
    assert Path(".github/imq.yml").read_text() == "depth: 3\n"
    assert convert(".kodiak.toml", "version = 1\n", "--force").exit_code == 0
    assert "automerge" in Path(".github/imq.yml").read_text()
    printed = convert(".kodiak.toml", "version = 1\n", "--output", "-")
    assert followed(Policy(), read(printed.stdout)).trigger_labels == ("automerge",)
    assert "would become" in printed.stderr
    both = convert("bors.toml", BORS)
    assert both.exit_code == 2
    assert "Several files to convert are here: .kodiak.toml, bors.toml. Name one" in both.stderr
    for name in (".kodiak.toml", "bors.toml"):
        Path(name).unlink()
    assert "No file to convert here: looked for .mergify.yml," in convert("README.md", "").stderr


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (".mergify.yml", b"a: \xff", "line 1: The file is not UTF-8: save it as UTF-8."),
        (".mergify.yml", "a: [1\nb: 2", "line 2: This is not YAML"),
        (".mergify.yml", "a: 1\na: 2", 'line 2: "a" is a duplicate: see line 1.'),
        (".mergify.yml", "- a", "line 1: The file has no keys with values, so there is nothing to convert."),
        (".mergify.yml", "x: &x [1]\n" + "y: &y {" + ", ".join(f"a{n}: *x" for n in range(9999)) + "}", "values"),
        (".mergify.yml", "a: " + "x" * 300_000, "line 1: The file is longer than 256 KiB."),
        (".kodiak.toml", "version = 1\nmerge = [", "line 2: This is not TOML: Invalid value."),
        (".kodiak.toml", f"a = {DEEP}", "line 1: It has too many levels."),
        ("rules.json", '{"rules":\n', "line 2: This is not JSON"),
        ("rules.json", DEEP, "line 1: It has too many levels."),
        ("rules.json", '{"name": "main"}', "This is not one ruleset of GitHub, which has `rules`"),
        ("queue.txt", "a: 1", "it has to end in .yml, .toml or .json."),
    ],
)
def test_convert_of_a_broken_file_says_where_and_writes_nothing(
    convert: Convert, name: str, content: str | bytes, sentence: str
) -> None:
    """One line, the way out, and no control character of the file."""
    result = convert(name, content, name)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert not Path(".github/imq.yml").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            ".mergify.yml",
            "pull_request_rules: 7\nqueue_rules: {a: b}\nmerge_queue: []\npriority_rules: [x]\ndefaults: 3",
        ),
        (
            ".mergify.yml",
            "pull_request_rules: [{conditions: [label=a], actions: {queue: {}}}, {actions: [], conditions: 3}]",
        ),
        (
            ".mergify.yml",
            'pull_request_rules: [{conditions: ["label=\\u202ea", "label!=merge-queue"], actions: {merge: }}]',
        ),
        (".mergify.yml", "pull_request_rules: [{conditions: ['base=!main', '-title~=(?=a)'], actions: {queue: }}]"),
        (
            ".mergify.yml",
            "queue_rules: [{queue_conditions: ['-label=merge-queue', {or: []}, {not: [a]}, {and: 3}, []]}]",
        ),
        (
            ".mergify.yml",
            "queue_rules: [{name: [a], merge_method: [merge]}]\npull_request_rules: [{conditions: [label=a], actions: "
            "{queue: {name: [a], method: {b: c}}}}]",
        ),
        (
            ".kodiak.toml",
            'version = 2\n[merge]\nautomerge_label = "x"\nblocking_labels = ["X"]\nmethod = 3\nmessage = 4',
        ),
        (".kodiak.toml", 'merge.blocking_title_regex = "("\nmerge.priority_merge_label = ""\nupdate = 1979-05-27'),
        ("bors.toml", 'status = "a"\ntimeout_sec = 0\nmax_batch_size = -1\ncommit_title = "a\\nb"\nblock_labels = 4'),
        ("bors.toml", "status = [1, {a = 2}]\nblock_labels = ['merge-queue']\nuse_squash_merge = 'yes'"),
        ("rules.json", '[{"rules": [{"type": "merge_queue", "parameters": {"merge_method": 1}}, 3], "conditions": 5}]'),
        ("rules.json", '{"rules": [{"type": "merge_queue"}], "conditions": {"ref_name": {"include": ["!a", 3]}}}'),
    ],
)
def test_convert_of_values_out_of_bounds_still_writes_a_valid_file(convert: Convert, name: str, content: str) -> None:
    """IMQ's own reader decides what it takes; the report says of the rest that IMQ refuses it."""
    result = convert(name, content, name, "--json")
    assert result.exit_code == 0
    read(Path(".github/imq.yml").read_text())
    assert "\u202e" not in result.stdout


@pytest.mark.parametrize(
    ("asked", "queued"),
    [
        ("title~=^feat", False),
        ("base~=^(?!main)", False),
        ("-label~=^block", False),
        ("-label~=^(block|wip)$", True),
        ("check-success~=^ci/", False),
        ("-title~=(?=x)y", False),
        ("schedule=Mon-Fri 09:00-17:00[Europe/Paris]", False),
        ("#check-failure=0", True),
        ("-approved-reviews-by~=author", True),
    ],
)
@pytest.mark.parametrize("where", ["conditions", "merge_conditions", "success_conditions"])
def test_convert_makes_no_trigger_of_a_label_whose_rule_queue_or_protection_imq_cannot_follow(
    convert: Convert, where: str, asked: str, queued: bool
) -> None:
    """Wherever Mergify has the condition, the label alone would land what it kept out."""
    asked_in = {
        name: [asked] if name == where else [] for name in ("conditions", "merge_conditions", "success_conditions")
    }
    rules = {
        "pull_request_rules": [{"conditions": ["label=go", *asked_in["conditions"]], "actions": {"queue": {}}}],
        "queue_rules": [{"name": "default", "merge_conditions": asked_in["merge_conditions"]}],
        "merge_protections": [{"name": "all", "success_conditions": asked_in["success_conditions"]}],
    }
    convert(".mergify.yml", json.dumps(rules))
    written = parse(Path(".github/imq.yml").read_text()).value or {}
    assert written.get("trigger_labels") == (["go"] if queued else None)


def test_convert_of_failures_beside_required_checks_is_not_there(convert: Convert) -> None:
    """IMQ waits for the required checks alone, so that no check failed is more than it sees."""
    rule = (
        "pull_request_rules: [{conditions: [label=go, check-success=build, '#check-failure=0'], actions: {queue: {}}}]"
    )
    found = verdicts(convert(".mergify.yml", rule, "--json"))
    assert found["pull_request_rules[0].conditions[2]"] == ("not there", "")
    assert parse(Path(".github/imq.yml").read_text()).value == {"checks": {"required": ["build"]}}


PROTECTED = """
defaults: {queue_rule: {batch_size: 2}}
queue_rules: [{name: default, queue_conditions: [base=main, label=tested]}]
pull_request_rules: [{conditions: [label=go], actions: {queue: {name: default}}}]
merge_protections:
  - {name: reviews, if: [base=main], success_conditions: ["#approved-reviews-by>=2", label!=frozen, label=signed]}
commands_restrictions: {queue: {conditions: [sender-permission>=maintain]}}
"""


def test_convert_of_mergify_follows_protections_the_queues_label_and_who_may_queue(convert: Convert) -> None:
    """A section of defaults leaves the branches without a queue switched off; a protection of some is not there."""
    found = verdicts(convert(".mergify.yml", PROTECTED, "--json"))
    written = parse(Path(".github/imq.yml").read_text()).value
    assert written == {
        "trigger_labels": ["go"],
        "trains": {"max_size": 2, "candidates": "auto"},
        "who_may_queue": {"permission": "maintain"},
        "enabled": False,
        "branches": [
            {
                "match": ["main"],
                "enabled": True,
                "require": {"approvals": 2, "labels": ["signed", "tested"]},
                "blocking": {"labels": ["frozen"]},
            }
        ],
    }
    assert found["merge_protections[0].success_conditions[1]"] == ("same", "blocking.labels")
    found = verdicts(convert(".mergify.yml", PROTECTED.replace("base=main], s", "author=x], s"), "--json", "--force"))
    assert found["merge_protections[0].success_conditions[0]"] == ("not there", "")
    assert "trigger_labels" not in parse(Path(".github/imq.yml").read_text()).value


@pytest.mark.parametrize("own", [True, False])
def test_convert_of_kodiak_queues_by_no_label_if_it_cannot_block_the_titles(convert: Convert, own: bool) -> None:
    """RE2 has no look-ahead; a pull request whose title Kodiak blocks would land."""
    text = '[merge]\nblocking_title_regex = "^(?!ready)"\n' + 'automerge_label = "go"\n' * own
    found = verdicts(convert(".kodiak.toml", text, "--json"))
    assert parse(Path(".github/imq.yml").read_text()).value is None
    assert found["merge.blocking_title_regex"][0] == "not there"
    assert not own or found["merge.automerge_label"][0] == "not there"


def test_convert_makes_no_trigger_where_a_protection_or_a_named_queue_asks_for_more(
    convert: Convert,
) -> None:
    """Without queues, too; and another label of one of several queues cannot be required for that queue alone."""
    rule = "pull_request_rules: [{conditions: [label=go], actions: {queue: {name: a}}}]\n"
    convert(".mergify.yml", rule + "merge_protections: [{name: all, success_conditions: [title~=^feat]}]\n")
    assert parse(Path(".github/imq.yml").read_text()).value is None
    queues = "queue_rules: [{name: a, queue_conditions: [label=odd]}, {name: b}]\n"
    convert(".mergify.yml", rule + queues, "--force")
    assert parse(Path(".github/imq.yml").read_text()).value is None
    convert(".mergify.yml", rule + queues.replace("odd", "go"), "--force")
    assert parse(Path(".github/imq.yml").read_text()).value == {"trigger_labels": ["go"]}


def test_convert_of_a_method_that_one_rule_of_several_names_is_nearly_the_same(convert: Convert) -> None:
    """IMQ lands the pull requests of the other rule by it, too."""
    rules = (
        "[{conditions: [label=a], actions: {queue: {}}}, {conditions: [body~=x], actions: {queue: {method: rebase}}}]"
    )
    found = verdicts(convert(".mergify.yml", f"pull_request_rules: {rules}", "--json"))
    assert found["pull_request_rules[1].actions.queue.method"] == ("nearly", "merge.method")


RULE = "pull_request_rules: [{conditions: [label=go], actions: {queue: {name: q}}}]"
TWO = "queue_rules: [{name: q}, {name: other}]"


@pytest.mark.parametrize(
    ("rules", "written"),
    [
        (
            "pull_request_rules: [{conditions: ['title~=^feat'], actions: {queue: {}}}]\n"
            "queue_rules: [{name: q, QUEUE}]",
            None,
        ),
        (f"{RULE}\ndefaults: {{queue_rule: {{merge_conditions: [label=x]}}}}\n{TWO}", None),
        (f"{RULE}\ndefaults: {{queue_rule: {{merge_conditions: [author=x]}}}}\n{TWO}", None),
        (f"{RULE}\ndefaults: {{queue_rule: {{merge_conditions: ['title~=^feat']}}}}", None),
        (f"{RULE}\ndefaults: {{queue_rule: {{merge_conditions: [label=go]}}}}\n{TWO}", ["go"]),
        (f"{RULE}\nqueue_rules: [{{name: q, queue_conditions: ['label~=x']}}]", None),
        (
            "pull_request_rules: [{conditions: [label=go], actions: {merge: {}}}]\n"
            "merge_protections: [{name: all, success_conditions: ['title~=^feat']}]",
            None,
        ),
        (f"{RULE}\nqueue_rules: [{{name: q, queue_conditions: [{{or: [label=x, label=y]}}]}}]", None),
        (f"{RULE}\nmerge_protections: [{{name: all, success_conditions: ['label~=x']}}]", None),
        (f"{RULE}\nmerge_protections: [{{name: all, success_conditions: [{{or: [label=x, label=y]}}]}}]", None),
        ("queue_rules: [{name: q, autoqueue: true, QUEUE, merge_conditions: [label=y]}]", None),
        (
            "defaults: {queue_rule: {merge_conditions: [label=y]}}\nqueue_rules: [{name: q, autoqueue: true, QUEUE}]",
            None,
        ),
        ("queue_rules: [{name: q, autoqueue: true, QUEUE}]", ["x"]),
        (
            f"{RULE.replace('name: q', '')}\ndefaults: {{actions: {{queue: {{name: q}}}}}}\n"
            "queue_rules: [{name: q, queue_conditions: ['title~=^feat']}, {name: other}]",
            None,
        ),
    ],
)
def test_convert_makes_no_trigger_of_a_label_beside_which_a_rule_queue_or_section_of_defaults_asks_for_more(
    convert: Convert, rules: str, written: list[str] | None
) -> None:
    """The label alone would land what Mergify kept out, for lack of another label or for another title."""
    convert(".mergify.yml", rules.replace("QUEUE", "queue_conditions: [label=x]"))
    found = parse(Path(".github/imq.yml").read_text()).value
    assert found == (written and {"trigger_labels": written})


@pytest.mark.parametrize(
    ("queues", "is_held"),
    [("[{name: q, QUEUE}, {name: other}]", True), ("[{name: q}, {name: other, QUEUE}]", False)],
)
def test_convert_makes_no_trigger_if_the_queue_of_the_rule_asks_for_more(
    convert: Convert, queues: str, is_held: bool
) -> None:
    """What another queue asks for holds for none of its pull requests; a rule that names no queue may use any."""
    asked = queues.replace("QUEUE", "queue_conditions: ['title~=^feat']")
    convert(".mergify.yml", f"{RULE}\nqueue_rules: {asked}")
    assert parse(Path(".github/imq.yml").read_text()).value == (None if is_held else {"trigger_labels": ["go"]})
    convert(".mergify.yml", f"{RULE.replace('name: q', '')}\nqueue_rules: {asked}", "--force")
    assert parse(Path(".github/imq.yml").read_text()).value == {"trigger_labels": ["go"]}


@pytest.mark.parametrize(
    ("asked", "least"),
    [
        ("[sender-permission>=maintain]", {"who_may_queue": {"permission": "maintain"}}),
        ("[sender-permission>=read]", None),
        ("[sender-permission>=maintain, label=x]", None),
    ],
)
def test_convert_of_who_may_use_commands_gives_no_one_a_right(
    convert: Convert, asked: str, least: dict[str, Any] | None
) -> None:
    """IMQ asks for write permission at least, and for nothing beside it."""
    convert(".mergify.yml", f"commands_restrictions: {{queue: {{conditions: {asked}}}}}")
    assert parse(Path(".github/imq.yml").read_text()).value == least


@pytest.mark.parametrize(
    ("required", "verdict"),
    [
        (
            "pull_request_rules: [{conditions: [label=go, NONE, {or: [check-success=a, check-neutral=a]}], ACT}]",
            "not there",
        ),
        ("merge_protections: [{name: p, success_conditions: [check-success=a]}]\nRULES", "not there"),
        ("merge_protections: [{name: p, success_conditions: ['#approved-reviews-by>=1']}]\nRULES", "nearly"),
        ("pull_request_rules: [{conditions: [label=go, NONE, 'check-success~=a'], ACT}]", "nearly"),
    ],
)
def test_convert_of_no_failure_is_nearly_there_only_if_no_check_is_required(
    convert: Convert, required: str, verdict: str
) -> None:
    """IMQ waits for every check where none is required by its name, and for the required ones alone otherwise."""
    rules = required.replace("RULES", "pull_request_rules: [{conditions: [label=go, NONE], ACT}]")
    rules = rules.replace("NONE", "'#check-failure=0'").replace("ACT", "actions: {queue: {}}")
    found = verdicts(convert(".mergify.yml", rules, "--json"))
    assert found["pull_request_rules[0].conditions[1]"][0] == verdict


def test_convert_of_kodiak_reads_the_former_name_of_titles(convert: Convert) -> None:
    """A label queues by itself only if IMQ can block these titles."""
    convert(".kodiak.toml", '[merge]\nblacklist_title_regex = "^(?!ready)"\n')
    assert parse(Path(".github/imq.yml").read_text()).value is None


@pytest.mark.parametrize("queues", ["", "\nqueue_rules: [{name: q}]"])
def test_convert_requires_what_defaults_and_protections_ask_of_all(convert: Convert, queues: str) -> None:
    """Where there is one queue, they hold for every pull request."""
    defaults = "\ndefaults: {queue_rule: {merge_conditions: [label=signed]}}"
    protections = "\nmerge_protections: [{name: all, success_conditions: [label=tested, author=mona]}]"
    convert(".mergify.yml", RULE + defaults + protections + queues)
    assert parse(Path(".github/imq.yml").read_text()).value == {
        "trigger_labels": ["go"],
        "require": {"labels": ["tested", "signed"], "authors": ["mona"]},
    }


def test_convert_requires_what_a_protection_asks_of_the_pull_requests_of_each_queue(convert: Convert) -> None:
    """Protections hold for all queues."""
    convert(".mergify.yml", f"{RULE}\n{TWO}\nmerge_protections: [{{name: all, success_conditions: [author=mona]}}]")
    written = parse(Path(".github/imq.yml").read_text()).value
    assert written == {"trigger_labels": ["go"], "require": {"authors": ["mona"]}}


def test_convert_of_failures_beside_checks_that_defaults_require_is_not_there(convert: Convert) -> None:
    """IMQ waits for the required checks alone, wherever Mergify's file requires them."""
    defaults = "defaults: {queue_rule: {merge_conditions: [check-success=build]}}\n"
    rule = "pull_request_rules: [{conditions: [label=go, '#check-failure=0'], actions: {queue: {}}}]"
    found = verdicts(convert(".mergify.yml", defaults + rule, "--json"))
    assert found["pull_request_rules[0].conditions[1]"] == ("not there", "")
