"""`imq doctor` names each seeded fault, and finds nothing on a sound installation."""

from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bot.api.payload import json_data
from bot.doctor import examination
from bot.doctor.doctor_facts import HeadChecks, HostFacts, RepositoryFacts
from bot.doctor.examination import RepositoryNotFound
from bot.doctor.repository_checks import repository_findings
from github_emulator import Fault
from queue_engine.config.model import Policy
from queue_engine.domain.facts import GITHUB_ACTIONS, BranchRules, RequiredCheck
from queue_engine.domain.model import Repository
from tests.support.documents import read
from tests.support.gates import NOW
from tests.support.plain_words import faults
from tests.test_docs import anchors
from tests.unit.bot.doctor.installation import NAME, Place, a_place, keep_results


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with a_place(tmp_path / "github") as place:
        yield place


def lack_permission(place: Place) -> None:
    del place.app.permissions["contents"]


def leave_permission_unaccepted(place: Place) -> None:
    place.installation.permissions["checks"] = "read"


def lack_event(place: Place) -> None:
    place.app.events -= {"issue_comment"}


def suspend(place: Place) -> None:
    place.installation.suspended_at = place.clock.now()


def deliver_elsewhere(place: Place) -> None:
    place.app.webhook_url = "https://old.acme.dev/webhook"


def drop_secret(place: Place) -> None:
    place.app.webhook_secret = ""


def push(path: str, text: str) -> Callable[[Place], None]:
    """Put a file on the default branch."""

    def fault(place: Place) -> None:
        place.repository.push("main", {path: text}, "Configure", by="mona")

    return fault


NAMED = "branches: [{match: [master, main, release/*], depth: 5}]\n"
FILTERED = (
    "on: {pull_request: {paths: [src/**]}, push: {paths: [src/**]}}\njobs: {lint: {runs-on: x, steps: [{run: x}]}}\n"
)


def require_check_of_some_files(place: Place) -> None:
    push(".github/workflows/lint.yml", FILTERED)(place)
    place.repository.add_ruleset("Lint", required_checks=["lint"], by="mona")


def rule_for(*branches: str) -> Callable[[Place], None]:
    """Add a ruleset for branches of these names."""

    def fault(place: Place) -> None:
        place.repository.add_ruleset("Old", required_checks=["ci/test"], strict=True, branches=branches, by="mona")

    return fault


def allow_auto_merge(place: Place) -> None:
    place.repository.record.allow_auto_merge = True


def require_silent_check(place: Place) -> None:
    place.repository.add_ruleset("Docs", required_checks=["docs/build"], by="mona")


def require_check_of_another_app(place: Place) -> None:
    place.repository.protect("main", required_checks=[("ci/test", place.app.id + 999)], by="mona")


def require_own_check(name: str, *, bound: bool = True, strict: bool = False) -> Callable[[Place], None]:
    def fault(place: Place) -> None:
        checks = [(name, place.app.id if bound else None)]
        place.repository.protect("main", required_checks=checks, strict=strict, by="mona")

    return fault


def require_native_queue(place: Place) -> None:
    place.repository.add_ruleset("Queue", merge_queue=True, by="mona")


def restrict_pushes(place: Place) -> None:
    place.repository.protect("main", restrict_pushes=["mona"], by="mona")


def lock(place: Place) -> None:
    place.repository.protect("main", lock=True, by="mona")


def bypass(place: Place) -> None:
    place.repository.add_ruleset("Owners", deployments=["staging"], bypass={"imq": "always"}, by="mona")


def bypass_of_organisation(place: Place) -> None:
    settings = {"deployments": ["staging"], "bypass": {"imq": "pull_request"}}
    place.repository.add_ruleset("Everywhere", organisation=True, by="acme", **settings)  # type: ignore[arg-type]


def allow_no_method(place: Place) -> None:
    record = place.repository.record
    record.allow_squash_merge = record.allow_rebase_merge = False
    place.repository.add_ruleset("Linear", linear_history=True, by="mona")


def use_up_budget(place: Place) -> None:
    place.server.limits.budget(f"installation {place.installation.id}").used = 4_900


SLOW = "{soak: {runs-on: ubuntu-latest, steps: [{run: make}]}, e2e: {runs-on: ubuntu-latest, steps: [{run: make}]}}"
BOTH = "[pull_request, merge_group]"
GUARDED = SLOW.replace("e2e: {", "e2e: {if: github.event_name == 'merge_group', ")

SEEDED: list[tuple[str, str, Callable[[Place], None]]] = [
    ("permission_missing", "contents: write", lack_permission),
    ("permission_not_accepted", "checks: write", leave_permission_unaccepted),
    ("event_missing", "issue_comment", lack_event),
    ("installation_suspended", "acme", suspend),
    ("webhook_address_wrong", "old.acme.dev", deliver_elsewhere),
    ("webhook_secret_missing", "does not sign", drop_secret),
    ("budget_low", "of 5000 requests", use_up_budget),
    ("configuration_invalid", "line 1", push(".github/imq.yml", "dept: 20\n")),
    ("configuration_misnamed", ".github/imq.yaml on main", push(".github/imq.yaml", "depth: 20\n")),
    ("auto_merge_enabled", "auto-merge", allow_auto_merge),
    ("label_missing", "no label merge-queue", lambda place: place.repository.delete_label("merge-queue")),
    ("check_never_reports", "docs/build", require_silent_check),
    ("check_never_reports", "although another App reports it", require_check_of_another_app),
    ("own_check_required", "the check merge of IMQ's App", require_own_check("merge")),
    ("own_check_unbound", "any source", require_own_check("IMQ", bound=False, strict=True)),
    ("own_check_without_up_to_date", "no up-to-date branches", require_own_check("IMQ")),
    ("untested_paths_without_effect", "requires up-to-date branches", keep_results),
    ("tested_refs_without_effect", "names lint", push(".github/imq.yml", "merge: {tested_refs: [ci/test, lint]}\n")),
    ("native_queue_required", "merge queue", require_native_queue),
    ("merge_group_alone", "`soak`, `e2e`", push(".github/workflows/slow.yml", f"on: merge_group\njobs: {SLOW}")),
    ("merge_group_alone", "starts `e2e` of", push(".github/workflows/ci.yml", f"on: {BOTH}\njobs: {GUARDED}")),
    ("check_behind_path_filter", "check lint reports only", require_check_of_some_files),
    ("branch_absent", "`branches` in .github/imq.yml names master,", push(".github/imq.yml", NAMED)),
    ("branch_absent", "The ruleset Old names master,", rule_for("master")),
    ("push_restricted", "restricts who can push", restrict_pushes),
    ("branch_locked", "locked", lock),
    ("ruleset_bypassed", "bypass mode: always", bypass),
    ("ruleset_bypassed", "Everywhere: required deployments", bypass_of_organisation),
    ("method_not_allowed", "no merge method", allow_no_method),
    ("renovate_merges", "renovate.json", push("renovate.json", '{"packageRules": [{"automerge": true}]}')),
    ("renovate_merges", "renovate.json5", push(".github/renovate.json5", '{extends: [":automergeMinor"]}')),
    ("renovate_rebases", "rebaseWhen", push(".renovaterc", '{"rebaseWhen": "behind-base-branch"}')),
    ("dependabot_rebases", "pip", push(".github/dependabot.yml", "updates:\n  - package-ecosystem: pip\n")),
]


async def test_sound_installation_has_no_finding(place: Place) -> None:
    """Renovate and Dependabot may work beside the queue, and people may bypass rulesets."""
    content = '{"extends": ["config:recommended", ":automergeDisabled"], "rebaseWhen": "conflicted"}'
    push("renovate.json", content)(place)
    updates = "updates:\n  - package-ecosystem: pip\n    rebase-strategy: disabled\n"
    push(".github/dependabot.yml", updates)(place)
    push(".github/imq.yml", "branches: [{match: [main, release/*], depth: 5}]\n")(place)
    push(".github/workflows/lint.yml", FILTERED)(place)
    push(".github/workflows/slow.yml", f"on: {BOTH}\njobs: {SLOW}")(place)
    place.repository.add_ruleset("Everywhere", deletion=True, organisation=True, branches=("trunk",), by="acme")
    place.repository.add_ruleset("Reviews", required_checks=["ci/test"], strict=True, bypass={"mona": "always"})
    rule_for("main", "release/*")(place)
    report = await place.examine()
    assert report.findings == ()
    assert report.repositories == (NAME,)
    assert sorted(each.name for each in report.rulesets[NAME]) == ["Everywhere", "Old", "Reviews"]
    assert {each.bypass for each in report.rulesets[NAME]} == {"never"}
    assert report.as_text().endswith("No findings. Repositories examined: 1.")
    assert report.shadow == ()


async def test_repository_in_shadow_mode_is_named_and_is_no_finding(place: Place) -> None:
    """Its maintainers want IMQ to write nothing; an operator who wonders why nothing lands sees it."""
    push(".github/imq.yml", "mode: shadow\n")(place)
    report = await place.examine()
    assert (report.findings, json_data(report)["shadow"]) == ((), [NAME])
    assert f"{NAME}: in shadow mode: IMQ writes nothing there" in report.as_text()


@pytest.mark.parametrize(("code", "words", "seed"), SEEDED, ids=[f"{code}-{words}" for code, words, _ in SEEDED])
async def test_seeded_fault_is_named_with_effect_remedy_and_link(
    place: Place, code: str, words: str, seed: Callable[[Place], None]
) -> None:
    """Nothing else is found beside it, and no text holds a secret."""
    seed(place)
    report = await place.examine()
    named = [each for each in report.findings if each.code == code]
    assert [each for each in named if words in each.finding], report.as_text()
    assert {each.code for each in report.findings} == {code}, report.as_text()
    for each in named:
        assert each.impact
        assert each.remedy
        path, _, anchor = each.link.partition("#")
        assert not anchor or anchor in anchors(read(path))
        assert list(faults(f"{each.impact} {each.remedy}")) == []
    assert "PRIVATE KEY" not in report.as_text()
    assert "s" * 20 not in str(json_data(report))


async def test_failed_webhooks_are_found_until_they_are_redelivered(place: Place) -> None:
    """The newest attempt of each delivery counts."""
    place.app.webhook_url = "http://127.0.0.1:9/webhook"
    place.repository.push("main", {"a": "1\n"}, "Change", by="mona")
    await place.github.settle()
    codes = {each.code for each in (await place.examine()).findings}
    assert codes == {"webhook_address_wrong", "deliveries_fail"}


async def test_app_without_a_webhook_has_a_finding_that_names_the_remedy(place: Place) -> None:
    """GitHub answers 404 for its settings and its deliveries."""
    for route in ("/app/hook/config", "/app/hook/deliveries"):
        place.server.faults.add(Fault("fail", route=route, status=404, times=None))
    (finding,) = (await place.examine()).findings
    assert (finding.code, "https://imq.acme.dev/webhook" in finding.remedy) == ("webhook_address_wrong", True)


async def test_installation_that_github_refuses_hides_no_other_finding(place: Place) -> None:
    """Somebody suspends it in this moment."""
    place.installation.suspended_at = place.clock.now()
    place.server.faults.add(Fault("fail", route="/app/installations", status=200, body=[_listed(place)], times=None))
    codes = [each.code for each in (await place.examine()).findings]
    assert codes == ["installation_unreadable"]


def _listed(place: Place) -> dict[str, object]:
    """The installation as GitHub listed it before."""
    return {"id": place.installation.id, "account": {"login": "acme"}, "permissions": place.installation.permissions}


async def test_wrong_id_is_the_only_finding_about_the_app(place: Place) -> None:
    """Without credentials IMQ knows nothing else of it."""
    report = await place.examine(app_id=999)
    assert [each.code for each in report.findings] == ["credentials_refused"]
    assert len(place.server.requests.of("GET /rate_limit")) == 1


async def test_app_without_an_installation_gets_the_address_to_install_it(place: Place) -> None:
    """The first run comes before the first installation."""
    place.github.state.installations.clear()
    (finding,) = (await place.examine()).findings
    assert (finding.code, finding.remedy.endswith("/apps/imq/installations/new")) == ("not_installed", True)


async def test_app_on_no_repository_gets_the_address_to_choose_some(place: Place) -> None:
    """An installation on selected repositories may have none."""
    place.installation.repositories = set()
    findings = {each.code: each for each in (await place.examine()).findings}
    assert findings["no_repositories"].remedy.endswith(f"/installations/{place.installation.id}")


async def test_github_that_does_not_answer_is_one_finding(place: Place) -> None:
    """The command ends all the same."""
    place.server.faults.add(Fault("reset", times=None))
    assert [each.code for each in (await place.examine()).findings] == ["github_unreachable"]


async def test_repository_without_any_check_is_found(place: Place) -> None:
    """IMQ lands nothing untested."""
    bare = place.github.create_repository("acme/bare", files={"a": "1\n"}, collaborators={"mona": "admin"})
    bare.create_label("merge-queue")
    pull = bare.open_pull_request("Change", head="topic", by="mona", files={"b": "1\n"})
    pull.merge(by="mona")
    report = await place.examine(only="acme/bare")
    assert [(each.code, each.subject) for each in report.findings] == [("no_checks", "acme/bare")]


async def test_repository_without_a_commit_has_no_finding(place: Place) -> None:
    """Somebody has just created it, and the default branch does not exist yet."""
    empty = place.github.create_repository("acme/empty", files={"a": "1\n"})
    empty.record.default_branch = "trunk"
    report = await place.examine(only="acme/empty")
    assert (report.findings, report.repositories) == ((), ("acme/empty",))


async def test_run_examines_so_many_repositories_and_says_what_it_left_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An organisation with hundreds of them keeps requests for its queues."""
    monkeypatch.setattr(examination, "MOST_REPOSITORIES", 1)
    place.github.create_repository("acme/second", files={"a": "1\n"})
    report = await place.examine()
    assert (len(report.repositories), report.left_out) == (1, 1)
    assert report.as_text().endswith("Left out: 1; name one with --repository.")


async def test_faults_of_the_host_and_its_clock_are_named(place: Place) -> None:
    """The database, its disk, the settings, and a clock that is wrong by a minute."""
    host = HostFacts(("IMQ_OLD",), "The disk is full.", migrated=False, disk_free=1024)
    place.clock = _Ahead()
    codes = [each.code for each in (await place.examine(host)).findings]
    assert codes == ["setting_unknown", "database_unusable", "disk_nearly_full", "clock_wrong"]
    (finding,) = (await place.examine(HostFacts(migrated=False))).findings[:1]
    assert finding.code == "database_not_migrated"


@pytest.mark.parametrize("name", ["acme/unknown", "other/rocket"])
async def test_repository_that_the_app_does_not_see_is_refused(place: Place, name: str) -> None:
    """A misspelt name must not look like a sound repository."""
    with pytest.raises(RepositoryNotFound, match=name):
        await place.examine(only=name)


async def test_requests_of_a_repository_are_bounded(place: Place) -> None:
    """However many rulesets and pull requests there are."""
    for number in range(15):
        place.repository.add_ruleset(f"Rule {number}", deletion=True, by="mona")
    for number in range(12):
        await place.open_pull_request(f"more-{number}")
    for path in ("renovate.json", ".github/renovate.json", ".github/dependabot.yml"):
        push(path, "{}")(place)
    names = [f"gone-{number:02}" for number in range(15)]
    push(".github/imq.yml", f"branches: [{{match: [{', '.join(names)}]}}]\n")(place)
    place.server.requests.clear()
    report = await place.examine()
    assert len(place.server.requests) <= 60, place.server.requests.by_template()
    (absent,) = (each for each in report.findings if each.code == "branch_absent")
    assert absent.finding.endswith("gone-02, ..., which the repository does not have.")


@pytest.mark.parametrize(
    ("app", "reporter", "is_found"),
    [
        (None, GITHUB_ACTIONS, True),
        (GITHUB_ACTIONS, GITHUB_ACTIONS, True),
        (None, None, False),
        (None, 7, False),
        (7, GITHUB_ACTIONS, False),
    ],
)
def test_check_is_behind_a_filter_only_if_actions_alone_reports_it(
    app: int | None, reporter: int | None, is_found: bool
) -> None:
    """Another App, or a commit status of the same name, reports for all pull requests."""
    check = RequiredCheck("lint", app)
    rules = BranchRules(frozenset({check}), native_queue=False, linear_history=False)
    facts = RepositoryFacts(
        *(Repository(1, "acme", "rocket", 1), "main", Policy()),
        rules=rules,
        heads=(HeadChecks(merged=True, reported=frozenset({("lint", reporter)})),),
        filtered_checks={"lint": ".github/workflows/lint.yml"},
    )
    codes = [each.code for each in repository_findings(facts)]
    assert ("check_behind_path_filter" in codes) is is_found


class _Ahead:
    """A clock that is 50 seconds ahead; GitHub still accepts the key."""

    def now(self) -> datetime:
        return NOW + timedelta(seconds=50)

    async def sleep(self, duration: timedelta) -> None:
        """Nothing sleeps here."""
