"""Check a repository: its configuration, its rules, and whether its required checks report. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from bot.api.finding import Finding
from bot.doctor.doctor_facts import RepositoryFacts
from queue_engine.domain.facts import (
    GITHUB_ACTIONS,
    OWN_CHECK,
    BranchRules,
    MergeMethod,
    RequiredCheck,
    is_own_check,
    unreported_check,
)
from queue_engine.domain.policy import Mode
from queue_engine.rules.checks import head_checks, required_checks, run_checks

_RULES = "docs/operating.md#what-imq-remembers-of-github"
_CONFIGURATION = "docs/configuration.md#keys"
_REASONS = "docs/troubleshooting.md#reason-codes"
_ONLY_IMQ = "docs/self-hosting.md#let-only-imq-merge"
_RELEASES = "docs/configuration.md#release-bots"
_QUEUE_ONLY = "docs/configuration.md#checks-that-run-in-the-queue-alone"
_MOST_JOBS = 3
_NOTHING_LANDS = "No pull request can land."


def repository_findings(facts: RepositoryFacts) -> Iterator[Finding]:
    """Yield the faults of a repository."""
    for part in facts.unread:
        yield _finding(
            facts,
            "unreadable",
            f"GitHub did not show IMQ {part}",
            "IMQ cannot check this part.",
            "Grant the App the permission that is named, or run the command again later.",
            "docs/operating.md#permissions-and-tokens",
        )
    yield from _configuration(facts)
    if facts.auto_merge:
        yield _finding(
            facts,
            "auto_merge_enabled",
            "The repository allows auto-merge.",
            "GitHub then merges pull requests past the queue, untested on the newest base.",
            "Disable Allow auto-merge in the repository's settings, or let people use the label instead.",
            "docs/self-hosting.md",
        )
    yield from _labels(facts)
    yield from _teams(facts)
    yield from _absent_branches(facts)
    yield from _merge_group(facts)
    if facts.rules is not None:
        yield from _rules(facts, facts.rules)
        yield from _own_check(facts, facts.rules)
        yield from _untested_paths(facts, facts.rules)
        yield from _tested_refs(facts, facts.rules)
        yield from _bypasses(facts, facts.rules)
        yield from _methods(facts, facts.rules)
        yield from _checks(facts, facts.rules)


def _configuration(facts: RepositoryFacts) -> Iterator[Finding]:
    for path in facts.misnamed:
        yield _finding(
            facts,
            "configuration_misnamed",
            f"IMQ does not read {path} on {facts.branch}.",
            "The repository has the defaults, or what .github/imq.yml says.",
            "Rename the file to .github/imq.yml, or delete it.",
            _CONFIGURATION,
        )
    if facts.config_error is None:
        return
    problems = "; ".join(map(str, facts.config_error.problems))
    yield _finding(
        facts,
        "configuration_invalid",
        f".github/imq.yml on {facts.branch} has faults: {problems}",
        "All queues of the repository wait until somebody corrects the file.",
        "Correct the file; `imq validate FILE` checks it first.",
        _CONFIGURATION,
    )


def _labels(facts: RepositoryFacts) -> Iterator[Finding]:
    if facts.label_missing and facts.policy.mode is not Mode.SHADOW:
        yield _finding(
            facts,
            "label_missing",
            f"The repository has no label {facts.policy.trigger_label}.",
            "People cannot queue a pull request by the label.",
            "Create the label in the repository. IMQ creates it once, where the App has `issues: write`.",
            "docs/operating.md#permissions-and-tokens",
        )
    if facts.testing_label_missing and facts.policy.mode is not Mode.SHADOW:
        yield _finding(
            facts,
            "testing_label_missing",
            f"The repository has no label {facts.policy.checks.testing_label}.",
            "IMQ may be unable to start the checks of `checks.queue_only`, so that they time out.",
            "Create the label in the repository. IMQ creates it once, where the App has `issues: write`.",
            "docs/configuration.md#checks-that-run-in-the-queue-alone",
        )


def _teams(facts: RepositoryFacts) -> Iterator[Finding]:
    if facts.policy.fault is not None:
        yield _finding(
            facts,
            "configuration_invalid",
            f"{facts.policy.fault}.",
            "All queues of the repository wait until somebody corrects the file.",
            "Remove `who_may_queue.teams`, or name people under `who_may_queue.people`.",
            _CONFIGURATION,
        )
    for sentence in facts.policy.unread_teams:
        yield _finding(
            facts,
            "team_unreadable",
            f"{sentence}.",
            "Members of that team cannot queue without the permission that others need.",
            "Correct `who_may_queue.teams`, or grant IMQ's App `members: read` on the organisation.",
            "docs/configuration.md#teams",
        )


def _absent_branches(facts: RepositoryFacts) -> Iterator[Finding]:
    for source, branches in facts.absent_branches.items():
        named = ", ".join(branches[:_MOST_JOBS]) + (", ..." if len(branches) > _MOST_JOBS else "")
        yield _finding(
            facts,
            "branch_absent",
            f"{source} names {named}, which the repository does not have.",
            "They hold for no pull request there: the branch may have another name today.",
            "Correct the name, or remove the rule.",
            _CONFIGURATION,
        )


def _merge_group(facts: RepositoryFacts) -> Iterator[Finding]:
    for path, jobs in facts.merge_group_jobs.items():
        named = ", ".join(f"`{each}`" for each in jobs[:_MOST_JOBS])
        more = len(jobs) - _MOST_JOBS
        yield _finding(
            facts,
            "merge_group_alone",
            f"Only `merge_group` starts {named}{f' and {more} more' if more > 0 else ''} of {path}.",
            "GitHub sends that event for its own merge queue only, so these jobs test nothing that IMQ lands.",
            "Let `pull_request` start them, too; for the queue alone, use its type `labeled` and `checks.queue_only`.",
            _QUEUE_ONLY,
        )


def _rules(facts: RepositoryFacts, rules: BranchRules) -> Iterator[Finding]:
    branch = facts.branch
    own = unreported_check(required_checks(rules, facts.policy), facts.policy.own_app)
    refusals = {
        "native_queue_required": (
            rules.native_queue,
            f"{branch} requires GitHub's own merge queue.",
            "Remove that rule.",
        ),
        "own_check_required": (
            own is not None,
            f"{branch} requires the check {own} of IMQ's App, which IMQ never reports.",
            f"Require the check {OWN_CHECK} instead, or remove that check from protection and rulesets.",
        ),
        "push_restricted": (
            rules.push_restricted,
            f"{branch} restricts who can push, and IMQ is not among them.",
            "Allow IMQ's App to push in the protection of the branch.",
        ),
        "branch_locked": (
            rules.locked,
            f"{branch} is locked, and IMQ may not bypass that.",
            "Unlock the branch, or let IMQ's App bypass the ruleset that restricts updates (docs/self-hosting.md).",
        ),
    }
    for code, (holds, finding, remedy) in refusals.items():
        if holds:
            yield _finding(facts, code, finding, _NOTHING_LANDS, remedy, _REASONS)


def _own_check(facts: RepositoryFacts, rules: BranchRules) -> Iterator[Finding]:
    """Judge whether the rule that requires IMQ's own check keeps people from merging around the queue."""
    own = [check for check in rules.required_checks if is_own_check(check, facts.policy.own_app)]
    if own and all(check.app_id is None for check in own):
        yield _finding(
            facts,
            "own_check_unbound",
            f"{facts.branch} requires the check {OWN_CHECK} from any source.",
            "Everybody who may push can set a commit status of that name, and then merge around the queue.",
            "Choose IMQ's App as the source of the check"
            + (f" (`integration_id: {facts.policy.own_app}`)." if facts.policy.own_app else "."),
            _ONLY_IMQ,
        )
    if own and not rules.up_to_date:
        yield _finding(
            facts,
            "own_check_without_up_to_date",
            f"{facts.branch} requires the check {OWN_CHECK}, but no up-to-date branches.",
            "While the check passes for a merge of IMQ, somebody else can merge that head onto a newer base, untested.",
            'Tick "Require branches to be up to date before merging".',
            _ONLY_IMQ,
        )


def _untested_paths(facts: RepositoryFacts, rules: BranchRules) -> Iterator[Finding]:
    """Judge whether GitHub lets IMQ keep the result of a run whose base moved."""
    if facts.policy.checks.untested_paths and rules.up_to_date:
        yield _finding(
            facts,
            "untested_paths_without_effect",
            f"{facts.branch} requires up-to-date branches, so `checks.untested_paths` has no effect.",
            "Each commit of a release bot restarts the checks of the pull request at the front.",
            'Untick "Require branches to be up to date before merging", or have the bot commit to another branch.',
            _RELEASES,
        )


def _tested_refs(facts: RepositoryFacts, rules: BranchRules) -> Iterator[Finding]:
    """Judge whether the checks that a ref would name count for a landing at all."""
    required = run_checks(rules, facts.policy)
    named = facts.policy.merge.tested_refs
    missing = [
        each.name
        for each in sorted(named, key=lambda each: each.name)
        if not any((each.name == one.name and None in (each.app_id, one.app_id)) or each == one for one in required)
    ]
    if required and missing:
        yield _finding(
            facts,
            "tested_refs_without_effect",
            f"`merge.tested_refs` names {', '.join(missing)}, which nothing requires on {facts.branch}.",
            "IMQ waits for required checks alone, so it writes no ref, and the workflows test each tree again.",
            "Require these checks, or remove them from `merge.tested_refs`.",
            "docs/proof.md#spare-the-second-test",
        )


def _bypasses(facts: RepositoryFacts, rules: BranchRules) -> Iterator[Finding]:
    """Judge the rulesets that IMQ may bypass, or of which GitHub does not say so."""
    for demand in rules.bypassed:
        modes = {each.name: each.bypass for each in facts.rulesets}
        mode = modes.get(demand.partition(": ")[0])
        yield _finding(
            facts,
            "ruleset_bypassed",
            f"IMQ may bypass the ruleset {demand}" + (f" (bypass mode: {mode})." if mode else "."),
            "GitHub does not enforce these rules when IMQ merges, and IMQ cannot check them. IMQ refuses to merge.",
            "Let IMQ bypass only a ruleset that restricts who may update the branch.",
            _REASONS,
        )
    for ruleset in facts.rulesets:
        if ruleset.bypass is None:
            owner = "the organisation's ruleset" if ruleset.organisation else "the ruleset"
            yield _finding(
                facts,
                "ruleset_hidden",
                f"GitHub does not show IMQ {owner} {ruleset.name}.",
                "IMQ does not know whether it may bypass that ruleset, and counts approvals itself.",
                "Grant the App `administration: read`, or run the command again later.",
                _RULES,
            )


def _methods(facts: RepositoryFacts, rules: BranchRules) -> Iterator[Finding]:
    allowed = facts.methods if rules.methods is None else facts.methods & rules.methods
    if rules.linear_history:
        allowed -= {MergeMethod.MERGE}
    if rules.signatures:
        allowed -= {MergeMethod.REBASE}
    wanted = facts.policy.merge.method
    if allowed and (wanted is None or wanted in allowed):
        return
    names = ", ".join(sorted(allowed)) or "none"
    if wanted is None:
        finding = f"Repository and rules of {facts.branch} together allow no merge method."
    else:
        finding = f"The configured merge method is {wanted.value}; allowed on {facts.branch}: {names}."
    remedy = "Allow a merge method in the repository's settings or rules, or choose another one in .github/imq.yml."
    yield _finding(facts, "method_not_allowed", finding, _NOTHING_LANDS, remedy, _CONFIGURATION)


def _checks(facts: RepositoryFacts, rules: BranchRules) -> Iterator[Finding]:
    """Judge required checks by a few heads, among which one at least has reports or has landed."""
    if not any(head.reported or head.merged for head in facts.heads):
        return
    reported = frozenset[tuple[str, int | None]]().union(*(head.reported for head in facts.heads))
    required = head_checks(rules, facts.policy)
    for check in sorted(required, key=lambda each: each.name):
        if path := _filter_of(facts, check, reported):
            yield _finding(
                facts,
                "check_behind_path_filter",
                f"The required check {check.name} reports only if certain files change: {path} has a filter of paths.",
                "A pull request that changes none of them never gets the check, and so cannot land.",
                "Remove the filter, and give the job a condition (`if`): a skipped job passes. Or report the check in "
                "a second workflow for the other files.",
                "docs/self-hosting.md#4-require-status-checks",
            )
            continue
        if _has_reported(check, reported) or check.name == unreported_check(required, facts.policy.own_app):
            continue
        other = any(name == check.name for name, _ in reported)
        by = f" by the App {check.app_id}, although another App reports it" if other else ""
        yield _finding(
            facts,
            "check_never_reports",
            f"The required check {check.name} did not report{by} on any of the last {len(facts.heads)} pull requests.",
            "Each pull request waits for it until the time limit, and then leaves the queue.",
            "Correct the check's name or App in the rules, remove it, or let CI run it on every pull request.",
            "docs/self-hosting.md#4-require-status-checks",
        )
    if not required and not reported and not facts.policy.checks.land_without:
        yield _finding(
            facts,
            "no_checks",
            f"No check reported on the last {len(facts.heads)} pull requests, and {facts.branch} requires none.",
            "IMQ lands nothing untested, so each pull request leaves the queue.",
            "Run CI on pull requests, or set `checks.land_without` to allow landing without checks.",
            _CONFIGURATION,
        )


def _filter_of(facts: RepositoryFacts, check: RequiredCheck, reported: frozenset[tuple[str, int | None]]) -> str | None:
    """Return the workflow file whose filter of paths decides whether a check reports; None if others may report it.

    A commit status, which has no App, is another one's.
    """
    others = any(name == check.name and app != GITHUB_ACTIONS for name, app in reported)
    return None if others or check.app_id not in (None, GITHUB_ACTIONS) else facts.filtered_checks.get(check.name)


def _has_reported(check: RequiredCheck, reported: frozenset[tuple[str, int | None]]) -> bool:
    return any(name == check.name and check.app_id in (None, app_id) for name, app_id in reported)


def _finding(facts: RepositoryFacts, code: str, finding: str, impact: str, remedy: str, link: str) -> Finding:
    return Finding(code, facts.repository.full_name, finding, impact, remedy, link)


_LINK = "docs/configuration.md#dependabot-and-renovate"
_REBASES = "behind-base-branch"
_REBASES_PRESET = "rebasestaleprs"
_HOW = frozenset({"automergedisabled", "automergebranch", "automergepr", "automergerequireallstatuschecks"})
"""Presets of Renovate that choose how to automerge, and do not enable it (its `presets/internal/default`)."""


def update_bot_findings(facts: RepositoryFacts) -> Iterator[Finding]:
    """Yield the settings with which such a bot merges past the queue, or pushes to queued pull requests."""
    name = facts.repository.full_name
    if facts.renovate is not None:
        path, content = facts.renovate
        if _merges(content):
            yield Finding(
                "renovate_merges",
                name,
                f"Renovate merges pull requests itself ({path}: automerge).",
                "They land past the queue, untested on the newest base, and each outdates the run of the queue.",
                "Remove `automerge`, let Renovate add the queue's label (`addLabels`), and name `renovate[bot]` under "
                "`who_may_queue.people` in .github/imq.yml.",
                _LINK,
            )
        up_to_date = facts.rules is not None and facts.rules.up_to_date
        why = _rebase_cause(content, facts.branch, up_to_date=up_to_date)
        if why is not None and not _is_named(facts, "renovate"):
            yield Finding(
                "renovate_rebases",
                name,
                f"Renovate rebases every pull request that is behind ({path}: {why}).",
                "A push to a queued pull request ends its consent, so it leaves the queue.",
                'Set `"rebaseWhen": "conflicted"`: IMQ brings pull requests up to date itself. Or name the bot under '
                "`on_push.requeue_for`.",
                _LINK,
            )
    is_named = _is_named(facts, "dependabot")
    if facts.dependabot is not None and not is_named and (ecosystems := _rebased(facts.dependabot)):
        yield Finding(
            "dependabot_rebases",
            name,
            f"Dependabot rebases its pull requests ({', '.join(ecosystems)}).",
            "A push to a queued pull request ends its consent, so it leaves the queue.",
            "Name `dependabot[bot]` under `on_push.requeue_for` in .github/imq.yml, or set `rebase-strategy: disabled` "
            "for each of them in .github/dependabot.yml.",
            _LINK,
        )


def _is_named(facts: RepositoryFacts, bot: str) -> bool:
    """Whether the configuration names such a bot; Renovate may run under a name of the operator's choice."""
    return any(bot in login for login in facts.policy.on_push.requeue_for)


def _merges(content: Mapping[str, Any]) -> bool:
    """Whether automerge is on, for all or some packages, by a key or by a preset."""
    if any("automerge" in preset and preset not in _HOW for preset in _presets(content)):
        return True
    return any(part.get("automerge") is True for part in _parts(content))


def _rebase_cause(content: Mapping[str, Any], branch: str, *, up_to_date: bool) -> str | None:
    """Return why Renovate rebases whatever is behind its base; None if it does not, or a shared preset may decide.

    Its default `auto` does so where the branch requires up-to-date heads (Renovate's "Updating and rebasing branches").
    """
    if any(part.get("rebaseWhen") == _REBASES for part in _parts(content)):
        return "rebaseWhen"
    wanted = content.get("rebaseWhen")
    if wanted is None and _REBASES_PRESET in _presets(content):
        return ":rebaseStalePrs"
    is_shared = any(">" in preset for preset in _presets(content))
    if up_to_date and (wanted == "auto" or (wanted is None and not is_shared)):
        return f"rebaseWhen is auto, and {branch} requires branches to be up to date"
    return None


def _presets(content: Mapping[str, Any]) -> list[str]:
    """Return the names of the presets in lower case, those of Renovate itself without their group."""
    presets = content.get("extends")
    names = [str(each).lower() for each in presets] if isinstance(presets, list) else []
    return [name if ">" in name else name.rpartition(":")[2] for name in names]


def _parts(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the whole configuration, its rules for packages, and its sections."""
    rules = [rule for rule in content.get("packageRules") or () if isinstance(rule, dict)]
    return [content, *rules, *(value for value in content.values() if isinstance(value, dict))]


def _rebased(content: Mapping[str, Any]) -> list[str]:
    updates = content.get("updates")
    entries = [each for each in updates if isinstance(each, dict)] if isinstance(updates, list) else []
    return [str(each.get("package-ecosystem")) for each in entries if each.get("rebase-strategy") != "disabled"]
