"""Which required checks judge the pull request and not the tree, by their workflow files."""

from dataclasses import replace

import pytest

from queue_engine.domain.facts import RequiredCheck
from queue_engine.domain.policy import Candidates
from queue_engine.workflows.script_commands import ScriptError, script_commands
from queue_engine.workflows.trigger_choice import choose_trigger
from queue_engine.workflows.workflow_file import read_workflow
from tests.unit.queue_engine.workflows.labeled import CANDIDATE

TITLE, TEST = RequiredCheck("title", 15368), RequiredCheck("test", 15368)
CI, OF_TITLE = ".github/workflows/ci.yml", ".github/workflows/title.yml"
TESTS = "on: [push, pull_request]\njobs: {test: {runs-on: ubuntu-latest, steps: [{run: make test}]}}\n"


def judging(text: str, **more: str) -> bool:
    """Whether the required check `title` of this workflow judges the pull request."""
    others = {f".github/workflows/{name}.yml": each for name, each in more.items()}
    choice = choose_trigger({CI: TESTS, OF_TITLE: text, **others}, {TITLE, TEST}, CANDIDATE, Candidates.AUTO)
    assert TEST not in choice.pull_request_checks
    return TITLE in choice.pull_request_checks


def title_job(job: str, on: str = "pull_request") -> str:
    return f"on: {on}\njobs:\n  title:\n    runs-on: ubuntu-latest\n{job}"


def step(written: str) -> str:
    return title_job(f"    steps:\n      - {written}\n")


def script(*lines: str, variable: str = "${{ github.event.pull_request.title }}") -> str:
    return step(f"env: {{TITLE: '{variable}'}}\n        run: |\n" + "".join(f"          {each}\n" for each in lines))


def program(*lines: str) -> str:
    return step(f'uses: actions/github-script@v8\n        with: {{script: "{" ".join(lines)}"}}')


JUDGING = {
    "title_in_variable_of_step": script('[[ "$TITLE" =~ ^(feat|fix)(\\(.+\\))?: ]] || exit 1'),
    "title_in_expression": step("run: echo '${{ github.event.pull_request.title }}' | grep -Eq '^(feat|fix):'"),
    "title_in_condition_of_job": title_job(
        "    if: startsWith(github.event.pull_request.title, 'WIP')\n    steps: [{run: exit 1}]\n"
    ),
    "title_in_condition_of_step": step("{if: \"!contains(github.event.pull_request.title, ':')\", run: exit 1}"),
    "label_in_condition_of_job": title_job(
        "    if: contains(github.event.pull_request.labels.*.name, 'hold')\n    steps: [{run: exit 1}]\n"
    ),
    "title_in_variable_of_job": title_job(
        "    env: {T: '${{ github.event.pull_request.title }}'}\n    steps: [{run: 'test ${#T} -le 72'}]\n"
    ),
    "title_in_variable_of_workflow": "env: {T: '${{ github.event.pull_request.title }}'}\n"
    + step("run: 'grep -q : <<< \"$T\"'"),
    "title_in_case": script('case "$TITLE" in', "  feat:*|fix:*) ;;", '  *) echo "no # type"; exit 1 ;;', "esac"),
    "title_in_arithmetic": script("if (( ${#TITLE} > 72 )); then", "  echo long; exit 1", "fi"),
    "body_and_number": script(
        'test -n "$TITLE"', variable="${{ github.event.pull_request.body || github.event.number }}"
    ),
    "author": title_job("    if: github.event.pull_request.user.login == 'mona'\n    steps: [{run: echo ok}]\n"),
    "branch_name": script('[[ "$TITLE" == feature/* ]]', variable="${{ github.head_ref }}"),
    "size": script('[ "$TITLE" -lt 500 ]', variable="${{ github.event.pull_request.additions }}"),
    "whole_pull_request": script('jq -e .title <<< "$TITLE"', variable="${{ toJSON(github.event.pull_request) }}"),
    "event_file": step('run: jq -e \'.pull_request.title | test("^feat")\' "$GITHUB_EVENT_PATH"'),
    "gh_pr_view": step("run: '[ -n \"$(gh pr view 1 --json labels,title -q .title)\" ] || exit 1'"),
    "gh_api_commits": step(
        "run: gh api repos/$GITHUB_REPOSITORY/pulls/1/commits --jq '.[].commit.message' | grep -q Signed"
    ),
    "semantic_pull_request": step("uses: amannn/action-semantic-pull-request@v6"),
    "semantic_pull_request_by_target": title_job(
        "    steps: [{uses: amannn/action-semantic-pull-request@v6}]\n",
        "{pull_request_target: {types: [opened, edited]}}",
    ),
    "required_labels": step("uses: mheap/github-action-required-labels@v5"),
    "sign_off": title_job(
        "    steps:\n      - {id: of, uses: tim-actions/get-pr-commits@v1}\n"
        "      - {uses: tim-actions/dco@v1, with: {commits: '${{ steps.of.outputs.commits }}'}}\n"
    ),
    "script_of_payload": program("if (!/^feat/.test(context.payload.pull_request.title)) core.setFailed('no');"),
    "script_of_api": program(
        "const { data } = await github.rest.pulls.get({ ...context.repo, pull_number: context.issue.number });",
        "const all = await github.paginate(github.rest.pulls.listCommits, { pull_number: data.number });",
        "if (!/^feat/.exec(data.title)) core.setFailed('see https://github.com/o/r/.github/TITLES.md');",
    ),
    "title_after_harmless_job": "on: pull_request\njobs:\n  when: {runs-on: x, steps: [{run: date}]}\n"
    "  title: {needs: when, runs-on: x, steps: [{uses: amannn/action-semantic-pull-request@v6}]}\n",
    "gate_over_judging_job": "on: pull_request\njobs:\n"
    "  words: {runs-on: x, steps: [{uses: amannn/action-semantic-pull-request@v6}]}\n"
    "  title: {needs: words, if: always(), steps: [{run: \"[ '${{ needs.words.result }}' = success ]\"}]}\n",
}
OTHER = {
    "checkout": title_job("    steps: [{uses: actions/checkout@v5}, {uses: amannn/action-semantic-pull-request@v6}]\n"),
    "draft_and_tests": title_job(
        "    if: '!github.event.pull_request.draft'\n    steps: [{uses: actions/checkout@v5}, {run: make test}]\n"
    ),
    "title_and_tests": script('[[ "$TITLE" == feat* ]]', "make test"),
    "reads_nothing": step("run: echo ok"),
    "reads_the_commit": script('echo "$TITLE"', variable="${{ github.event.pull_request.head.sha }}"),
    "unknown_action": step("uses: octo/title@v1\n        with: {title: '${{ github.event.pull_request.title }}'}"),
    "local_action": step(
        "uses: ./.github/actions/title\n        with: {title: '${{ github.event.pull_request.title }}'}"
    ),
    "downloads": script('echo "$TITLE"', 'curl -sL "https://x.example/$GITHUB_SHA.tar.gz" | tar x'),
    "clones": script('[ -n "$TITLE" ] && git clone "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY"'),
    "clones_in_a_text": script('echo "$TITLE $(git ls-remote origin)"'),
    "starts_another_ci": script('gh workflow run tests.yml -f title="$TITLE"'),
    "changed_files": step("run: gh pr view 1 --json title,files"),
    "contents_by_api": step("run: gh api repos/o/r/contents/title.txt --jq .content"),
    "diff_by_gh": step("run: 'gh api -H \"Accept: application/vnd.github.diff\" repos/o/r/pulls/1'"),
    "files_by_gh": step("run: gh api repos/o/r/pulls/1/files --jq '.[].filename'"),
    "other_checks": script('gh pr checks "$TITLE" --watch'),
    "program_in_awk": script('awk \'BEGIN { system("make test") }\' <<< "$TITLE"'),
    "network_by_bash": script('cat < /dev/tcp/x.example/80; echo "$TITLE"'),
    "command_in_variable": script('$RUN "$TITLE"', 'eval "$RUN"'),
    "placeholder_of_a_test": "on: pull_request\njobs:\n  title: {if: github.head_ref, steps: [{uses: octo/test@v1}]}\n",
    "diff_by_header": program("await github.rest.pulls.get({ pull_number: 1, headers: { accept: 'diff' } });"),
    "aliased_module": program("context.payload; const load = require; load('./test');"),
    "diff_by_api": program("await github.rest.pulls.listFiles({ pull_number: context.payload.number });"),
    "contents_by_script": program("context.payload; await github.rest.repos.getContent({ path: 'x' });"),
    "request_by_script": program("context.payload; await github.request('GET /repos/o/r/contents/x');"),
    "aliased_client": program("context.payload; const g = github; await g.rest.repos.getContent({});"),
    "program_by_script": program("context.payload; await exec.exec('make test');"),
    "module_by_script": program("context.payload; require('./test')(github);"),
    "paginated_files": program("await github.paginate(github.rest.pulls.listFiles, context.issue);"),
    "python": step("{shell: python, run: 'print(1)', env: {T: '${{ github.event.pull_request.title }}'}}"),
    "default_shell": "defaults: {run: {shell: 'node {0}'}}\n" + script('echo "$TITLE"'),
    "service": title_job(
        "    services: {db: {image: x}}\n    steps: [{uses: amannn/action-semantic-pull-request@v6}]\n"
    ),
    "environment": title_job("    environment: prod\n    steps: [{uses: amannn/action-semantic-pull-request@v6}]\n"),
    "quote_that_does_not_end": script("echo '$TITLE"),
    "expression_that_cannot_be_read": script('echo "$TITLE"', variable="${{ github.event.pull_request.title + 1 }}"),
    "gate": "on: pull_request\njobs:\n  test: {runs-on: x, steps: [{run: make test}]}\n"
    "  words: {runs-on: x, steps: [{uses: amannn/action-semantic-pull-request@v6}]}\n"
    "  title: {needs: [words, test], if: always(), runs-on: x, steps: [{run: echo ok}]}\n",
    "after_a_test": "on: pull_request\njobs:\n  unit: {runs-on: x, steps: [{run: make test}]}\n"
    "  title: {needs: unit, runs-on: x, steps: [{uses: amannn/action-semantic-pull-request@v6}]}\n",
    "needs_itself": "on: pull_request\njobs:\n  title: {needs: gone, steps: [{run: 'echo ${{ github.actor }}'}]}\n",
    "push_alone": title_job("    steps: [{run: 'echo ${{ github.event.pull_request.title }}'}]\n", "push"),
    "foreign_workflow": "on: pull_request\njobs: {title: {uses: octo/ci/.github/workflows/title.yml@v1}}\n",
}


def test_check_of_the_pull_request_is_taken_from_its_own_head() -> None:
    """Its job reads the pull request, and has no tree to judge."""
    for name in JUDGING:
        assert judging(JUDGING[name]), name


def test_check_that_may_judge_the_tree_is_tested_on_the_candidate() -> None:
    """P1: what is not certain is no check of the pull request."""
    for name in OTHER:
        assert not judging(OTHER[name]), name
        assert read_workflow(OF_TITLE, OTHER[name]).fault is None, name


def test_check_of_two_jobs_judges_the_pull_request_only_if_both_do() -> None:
    """P1: a job of the same name, or of a name that may be this one, counts as well."""
    alone = JUDGING["semantic_pull_request"]
    assert judging(alone, more=alone)
    assert not judging(alone, more=OTHER["title_and_tests"])
    assert not judging(alone, more="on: pull_request\njobs: {x: {name: '${{ vars.NAME }}', steps: [{run: make}]}}")
    assert not judging(alone, more="on: [")
    assert judging(alone, more="on: workflow_call\njobs: {title: {steps: [{run: make test}]}}")


@pytest.mark.parametrize(("steps", "is_judging"), [("echo '${{ inputs.words }}'", True), ("make test", False)])
def test_check_of_a_called_workflow_is_judged_by_both_files(steps: str, is_judging: bool) -> None:
    """The caller passes the title, and the called job does the rest."""
    taken = "{workflow_call: {inputs: {words: {type: string}}}}"
    called = f'on: {taken}\njobs: {{of: {{steps: [{{run: "{steps}"}}]}}}}\n'
    given = "{words: '${{ github.event.pull_request.title }}'}"
    caller = f"on: pull_request\njobs: {{title: {{uses: ./.github/workflows/called.yml, with: {given}}}}}\n"
    files = {CI: TESTS, OF_TITLE: caller, ".github/workflows/called.yml": called}
    check = RequiredCheck("title / of", None)
    assert choose_trigger(files, {check, TEST}, CANDIDATE, Candidates.AUTO).pull_request_checks == (
        (check,) if is_judging else ()
    )


def test_push_is_proven_without_the_checks_of_pull_requests() -> None:
    """P1: everything else is tested there, and no line is advised that would run them on a push."""
    files = {CI: TESTS, OF_TITLE: JUDGING["semantic_pull_request"]}
    choice = choose_trigger(files, {TITLE, TEST}, CANDIDATE, Candidates.AUTO)
    assert (choice.trigger, choice.proven, choice.lines) == ("push", True, ())
    choice = choose_trigger(
        {CI: TESTS.replace("push, ", ""), **dict([*files.items()][1:])}, {TITLE, TEST}, CANDIDATE, Candidates.AUTO
    )
    assert [each.path for each in choice.lines] == [CI]


def test_title_alone_is_no_test_of_a_tree() -> None:
    """P1: where every required check judges the pull request, a candidate needs them as well."""
    choice = choose_trigger({OF_TITLE: JUDGING["semantic_pull_request"]}, {TITLE}, CANDIDATE, Candidates.AUTO)
    assert (choice.pull_request_checks, choice.lines) == ((), ())


def test_check_by_another_app_is_no_job_of_a_workflow() -> None:
    """A status of that name may be anything."""
    files = {CI: TESTS, OF_TITLE: JUDGING["semantic_pull_request"]}
    other = RequiredCheck("title", 7)
    assert choose_trigger(files, {other, TEST}, CANDIDATE, Candidates.AUTO).pull_request_checks == ()


def test_target_of_another_branch_than_the_default_one_is_not_known() -> None:
    """Its workflow files are those of the default branch, which were not read."""
    files = {CI: TESTS, OF_TITLE: JUDGING["semantic_pull_request_by_target"]}
    other = replace(CANDIDATE, default_branch="trunk")
    assert choose_trigger(files, {TITLE, TEST}, other, Candidates.AUTO).pull_request_checks == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A=1 B=$(x y) make -C z", [["x", "y"], ["make", "-C", "z"]]),
        ("if ! a | b; then c; fi >/dev/null 2>&1 # d", [["a"], ["b"], ["c"]]),
        (
            "X=(a b)\nfor x in a; do echo $((1 + 2)) ${X[0]}; done",
            [["for", "x", "in", "a"], ["echo", "$((1 + 2))", "${X[0]}"]],
        ),
        ("# don't\ngit x\necho 'y'", [["git", "x"], ["echo", "y"]]),
        ("a \\\n  b && (c; d)", [["a", "b"], ["c"], ["d"]]),
    ],
)
def test_script_commands_are_found(text: str, found: list[list[str]]) -> None:
    """Also those inside of words, and behind keywords and assignments."""
    assert script_commands(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "x" * 20_001,
        "$(" * 500 + ")" * 500,
        "echo 'a",
        'echo "a',
        "echo `a`",
        "echo $(a",
        "a)",
        "[[ a ",
        "echo $'a'",
        "case x in $(a)) ;; esac",
    ],
)
def test_script_whose_commands_are_not_certain_is_refused(text: str) -> None:
    """P1: a quote that is read wrongly could hide a command."""
    with pytest.raises(ScriptError):
        script_commands(text)
