"""Switches for what GitHub does not answer alike everywhere, or of which sources disagree."""

from dataclasses import dataclass
from typing import Literal

ENTERPRISE_SERVERS = ("3.19", "3.20", "3.21", "3.22")
"""Versions that GitHub supports in November 2026 (github/docs, `src/ghes-releases/lib/enterprise-dates.json`, and the
page "All releases of GitHub Enterprise Server")."""

ABSENT_FROM_ENTERPRISE_SERVER = frozenset(
    {
        "PUT /repos/{owner}/{repo}/pulls/{number}/merge-async",
        "GET /repos/{owner}/{repo}/pulls/{number}/merge-async/{uuid}",
        "GET /repos/{owner}/{repo}/actions/concurrency_groups/{concurrency_group_name}",
        "POST /repos/{owner}/{repo}/actions/runs/{run_id}/approve",
    }
)
"""Endpoints of github.com that none of them has: 3.17 to 3.19 by their OpenAPI descriptions (@octokit/openapi 23.0.2),
3.20 (merges) and 3.22 (all) by the lists of endpoints for Apps (github/docs, `src/github-apps/data`)."""


@dataclass(slots=True)
class Behaviour:
    """How this GitHub answers; change any time. Each default is what most sources tell of github.com."""

    enterprise_server: Literal["", "3.19", "3.20", "3.21", "3.22"] = ""
    """Which version of Enterprise Server this GitHub is; empty: github.com. A server lacks stacks and
    `ABSENT_FROM_ENTERPRISE_SERVER`, names its version in each answer and webhook (docs, "Webhook events and payloads";
    github/codeql-action, sourcegraph), and waits 30 seconds for the answer to a webhook (docs of 3.7 and 3.19, "Best
    practices for using webhooks")."""
    merge_settings_in_pulls: bool = False
    """Whether `base.repo` and `head.repo` of a pull request tell the allowed merge methods: 0 of 958 recorded answers
    to an App did."""
    uninstalled_tokens: Literal["refused", "not_found", "valid"] = "refused"
    """What a call with a token of an uninstalled App is answered: 401, as a revoked one (tibdex/github-app-token #98,
    Mergifyio/mergify #894); as if its repositories were missing; or as before until it expires (probot/probot #382,
    osowskit/atlassian-github-app-addon #3). The request of another one has 404 (integrations/slack #318, probot/stale
    #182)."""
    private_members: bool = False
    """Whether the collaborators of an organisation's repository are members who do not say so in public. Webhooks, and
    answers to an App without `members: read`, call them CONTRIBUTOR or NONE (openwisp-utils #732, coder #24149,
    rust-lang/triagebot #2094)."""
    most_tree_entries: int = 100_000
    """How many entries of a tree are listed before it is `truncated` (docs, "Get a tree"; release-please #1279)."""
    most_blob_text: int = 512_000
    """How many bytes of a file GraphQL shows before it is `isTruncated`; the reference names no number."""
    jobs_refused: str | None = None
    """Why GitHub starts no job, as for an unpaid plan: each fails after three seconds without a step or a runner, and
    this is its only annotation (AgentSystem #530, agent-governed-vaults #135); None: it starts them."""
    renamed_base: Literal["automatic_base_change_succeeded", "base_ref_changed", ""] = "automatic_base_change_succeeded"
    """The event of an open pull request whose base branch was renamed; empty: it has none. No source names it. GitHub's
    "Renaming a branch" says only that it follows; the first is the event for a base that GitHub changes by itself
    ("Issue event types")."""
    drafts: bool = True
    """Whether the repositories have draft pull requests, as some free private ones do not (cli/cli #520)."""
    draft_refusal_listed: bool = False
    """Whether the refusal of a draft is in `errors` of "Validation Failed", or is the message (SWE-agent #179)."""
    ruled_refs_named: bool = True
    """Whether the creation of a branch that rules forbid is refused with the rules, or with "Reference update failed"
    (release-plz/action #518)."""
    lists_heads_by_commit: bool = False
    """Whether the list of pull requests by `head` has those of other branches on the same commit (octokit.js #2056)."""
    etags_of_tokens: bool = True
    """Whether a renewed token makes every conditional request miss (otterdog #201, as GitHub's support confirmed)."""
    graphql: bool = True
    """Whether the GraphQL API is offered; if not, its address answers 404."""
    graphql_limit_type: str = "RATE_LIMIT"
    """The `type` of a GraphQL answer beyond the limit: RATE_LIMIT (githubkit #271), or RATE_LIMITED (older clients)."""
    collaborators_shown: bool = True
    """Whether GraphQL shows an App collaborators (policy-bot reads them) or refuses (refined-github #8553, #9817)."""
    merge_settings_need_push: bool = True
    """Whether a repository shows an App the allowed merge methods only with `contents: write`
    (terraform-provider-github #679 and #1727), or always."""
    permissions_need_push: bool = False
    """Whether an App learns what people may do, and who collaborates, only with `contents: write`: the documentation
    and repos-using-electron #26 ask for push access; `metadata` sufficed for aenix-io/aeman #161."""
    decision_of_rulesets: bool = True
    """Whether `reviewDecision` knows the reviews that rulesets demand, or only classic ones (atlantis #6373)."""
    comparison_of_commits: bool = True
    """Whether GraphQL's `Ref.compare` takes a SHA as head; if not, only branches, and other heads give null."""
    apps_bypass_updates: bool = True
    """Whether the bypass mode `always` covers what an App does to a branch: it does for mitodl/ol-infrastructure #5710
    and dmf-mxl/mxl #356; MFlowCode/MFC #1467 says that Apps must open pull requests all the same."""
    known_commits_judged: bool = False
    """Whether an update of a branch is refused for unsigned commits that another branch has already. GitHub's page
    "About protected branches" speaks of all commits pushed to the branch; Kong/kong-operator #4536 lists new ones."""
    pull_request_rule_on_create: bool = True
    """Whether a ruleset's pull request rule forbids to create a branch, or only to update one."""
    methods_worded_as_settings: bool = True
    """Whether a method that a ruleset forbids is refused in the words of the repository's settings, or in those of a
    rule (termux/termux-packages #23456)."""
    outdated_heads_named: bool = False
    """Whether a merge is refused with 409 "Head branch is out of date" where the base has just moved, and where strict
    protection finds the head behind (fullsend-ai/fullsend #2432, gabrielkoerich/orch #3371), or with 405, in the words
    for a base that was modified and for the checks that are missed."""
    merges_refuse_workflows_with_409: bool = False
    """Which status `POST /merges` has for a missing `workflows` permission: 403 as other calls, or 409 as rule
    violations (mantidproject/mantid #41541)."""
    stacks: Literal["none", "registered", "automatic"] = "none"
    """Whether stacked pull requests are offered, and what is one: those that people put into a stack (git-stk #306),
    or also each that is opened on the head branch of another."""
    graphql_stacks: bool = True
    """Whether GraphQL's schema has `PullRequest.stack`: an older Enterprise Server does not."""
    stack_null: bool = False
    """Whether a pull request outside of a stack has `stack: null` (gh-stack, webhooks) or no such field
    (rjmurillo/ai-agents #5473)."""
    stacked_merge_status: int = 403
    """Which status the synchronous merge of a stacked pull request has: 403 (Kodiak #923), or 405 (other clients)."""
    stacked_updates: bool = False
    """Whether `update-branch` serves a stacked pull request, as its page says of any, or is refused with 403 as its
    merge (tried on GitHub when stacks were new; Kodiak #924 asks for another way)."""
    merge_async: bool = False
    """Whether `merge-async` is offered; if not, its address answers 404 (gh-stack, "Merge API")."""
    async_mergers_named: bool = True
    """Whether a pull request that `merge-async` landed has `merged_by`, as any other has; no source shows one."""
    stacks_bypass_rules: bool = True
    """Whether a stack's merge honours bypass lists: GitHub's changelog of 2026-10-01 says so, gh-stack denies it."""
    dismissed_reviews_listed: bool = False
    """Whether `latestOpinionatedReviews` lists a dismissed verdict as DISMISSED, or leaves it out; no source says."""
    test_merges_judged: bool = True
    """Whether required checks count by the test merge commit where that has any ("Troubleshooting required status
    checks" has a table of it), or always by the head, as the same page says of the latest commit."""
    workflows_worded_as_checks: bool = True
    """Whether a workflow that a ruleset requires is missed in the words for a status check, or in words of its own.
    Those are quoted of GitHub's merge queue (devantler-tech/platform #3136); no thread quotes the merge call."""
    labels_need_issues: bool = True
    """Whether an App creates labels only with `issues: write`, also by putting one on a pull request that the
    repository lacks (actions/labeler #867, wolfi-dev/os #49539, release-please-action #1120), or `pull_requests: write`
    suffices, as the documentation of "Create a label" says."""
    hidden_teams_status: Literal[403, 404] = 403
    """Which status the members of a team have for an App without `members: read`: 403 "Resource not accessible by
    integration" as elsewhere, or 404 (pozil/auto-assign-issue #91, dbt-labs/actions #163)."""
    deletions_need_issues: bool = False
    """Whether only `issues: write` deletes comments on pull requests. By the documentation `pull_requests: write` does
    too, as the permission follows what is commented on (ynab/ynab-sdk-ruby #95)."""
    pushes_touch_pulls: bool = True
    """Whether a push to its head renews a pull request's `updated_at` in what reads show: seen of a forced one
    (actions/stale #94) and of new commits (fwouts/prmonitor #91), but not in octokit/webhooks' `synchronize`."""
    activity: Literal["all", "own", "none"] = "all"
    """Of which repositories an installation's token reads the activity: public forks too ("if only public resources
    are requested", says the page), only its own ones, or none, as of an older Enterprise Server."""
    activity_of_a_day: bool = False
    """Whether activity is listed for one day where no period is named, as one client found, or of all time."""
    merge_results_need_contents: bool = False
    """Whether the result of `merge-async` needs `contents: read`; its page names no permission."""
    app_commits_signed: bool = True
    """Whether `POST git/commits` of an App is signed where it names no author ("Signature verification for bots")."""
    unknown_authors_empty: bool = False
    """Whether the author or committer of a listed commit who has no account is `{}` (danger/kotlin #249, github/docs
    #33599, octocrab #677) or null; its schema allows both."""
    pkce: bool = True
    """Whether the App's web application flow checks PKCE, as github.com has since 2025-07-14, or ignores it as an older
    Enterprise Server (pilcrowonpaper/arctic #43)."""
    redirect_mismatch_returned: bool = False
    """Whether a redirect_uri that the App's settings do not name sends the person to the first callback with an error
    ("Troubleshooting authorization request errors", dillinger #705), or shows a page (RedPlanetHQ/core #231)."""
    user_tokens_expire: bool = True
    """Whether a person's token of the App ends after eight hours, as an App's settings choose."""
    unreachable_commits_kept: bool = True
    """Whether a branch may be created at a commit that no branch contains any more (nvim-tree/nvim-tree.lua
    #1906), or GitHub has dropped it: no page says for how long it keeps one."""
    names_moved_refs: bool = True
    """Whether `updateRefs` says where a ref is that is not at its `beforeOid`; no thread quotes GitHub."""
    device_flow_disabled: int = 400
    """Which status the device flow's first call has for an app whose owner did not enable it: 400
    (octokit/create-octokit-project.js #208, cli/oauth), or 200 as for the errors of its second call."""
    expired_device_code: Literal["expired_token", "token_expired"] = "expired_token"
    """How an expired device code is called: GitHub's table has the first word, its text the second one."""
    slow_down_has_interval: bool = True
    """Whether `slow_down` names the new interval: GitHub's page says so, RFC 8628 does not, cli/oauth expects both."""
    rollup_counts_replaced: bool = False
    """Whether `statusCheckRollup` is a failure while a check run failed that a newer one replaced (rjmurillo/ai-agents
    #4108), or judges the newest run of each check alone."""
    rollup_readable: bool = True
    """Whether an App reads `statusCheckRollup`: some are refused this field alone (facebook/sapling #993)."""
    locked_refuses_apps: bool = True
    """Whether a locked conversation takes no comment of an App: none in renovatebot/renovate #6215, probot/stale #25,
    Expensify/App #14862 and open-telemetry/opentelemetry-dotnet #6554. GitHub's page "Locking conversations" lets
    everybody with write access comment, and names no App."""
    locked_refuses_edits: bool = False
    """Whether it takes no edit of an App's own comment either; no source says."""
    deleted_accounts: Literal["null", "ghost"] = "ghost"
    """How REST and webhooks show a deleted account: as the user `ghost` (zulip/zulip #39469), or null, as the schemas
    of pull requests, comments and reviews allow. GraphQL has null (backstage/backstage #12803; docs, `Actor`)."""
    dispatched_checks_count: bool = False
    """Whether check runs of `workflow_dispatch` satisfy required checks. They did not where people tried it
    (ThemeParks_JavaScript #37, hivecommons/hive #5286 and #5457, bmad-module-skill-forge #202, cpplint #360); GitHub's
    page "Troubleshooting required status checks" knows no such difference."""
    own_refs: Literal["all", "rest", "none"] = "all"
    """Who writes references that are neither branches nor tags, such as `refs/notes/x`. GitHub's page "Create a
    reference" asks only for `refs/` and two slashes, and "List matching references" names notes. Projects push such
    refs with the token of a workflow (Systemorph/MeshWeaver #782) or of an App (supabase/cli #5439), and the endpoint
    even made `refs/pull` at a commit (isaacs/github #308). But
    github/rest-api-description #2746 and github/docs #15536 know only `heads` and `tags`: then "none". No source says
    whether `updateRefs` takes them: "rest" refuses them there alone."""
    revert_quotes: Literal["request", "landed"] = "request"
    """The message of a revert's commit: title and description of the request; or the title of the commit that it
    reverts, as the button has it (MDSplus/mdsplus #811, zowe/zowe-cli #1860). No source has one of the mutation."""

    @property
    def shows_stacks(self) -> bool:
        """Whether GraphQL's schema has stacks: those of Enterprise Server 3.16 and 3.22 have none (github/docs,
        `src/graphql/data`)."""
        return self.graphql_stacks and not self.enterprise_server

    @property
    def webhook_seconds(self) -> int:
        """How long the receiver of a webhook may take."""
        return 30 if self.enterprise_server else 10

    @property
    def version_headers(self) -> dict[str, str]:
        """The headers that name the version of a server."""
        return {"X-GitHub-Enterprise-Version": f"{self.enterprise_server}.0"} if self.enterprise_server else {}
