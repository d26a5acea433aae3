"""The minutes that a branch's workflows spend on trees that were tested before, and the lines that spare them. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from shlex import quote

from bot.gateway.doctor_reads import WorkflowTime
from queue_engine.domain.facts import RequiredCheck
from queue_engine.domain.port import MARK_BRANCHES, MARK_FILE, MARKS
from queue_engine.rules.proof import mark_text

PERIOD = timedelta(days=7)
_PAGE = "docs/proof.md#spare-the-second-test"


@dataclass(frozen=True, slots=True)
class BaseRuns:
    """What the workflows of a branch did within `PERIOD`, beside IMQ's own record."""

    landings: int
    proved: frozenset[str]
    """The landed commits whose very tree CI had tested before."""
    runs: tuple[WorkflowTime, ...]

    def minutes(self) -> dict[str, int]:
        """Return the minutes on tested trees by workflow, the most first."""
        spent = defaultdict[str, timedelta](timedelta)
        for run in self.runs:
            if run.commit in self.proved:
                spent[run.name] += run.took
        found = {name: round(each.total_seconds() / 60) for name, each in spent.items()}
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def described(branch: str, found: BaseRuns, checks: Collection[RequiredCheck]) -> str | None:
    """Say what tests the same trees again, and what the lines save in a week; None without such runs."""
    minutes = found.minutes()
    if not any(minutes.values()):
        return None
    named = ", ".join(f"{name} {count:,}" for name, count in minutes.items())
    taken = round(sum((each.took for each in found.runs), timedelta()).total_seconds() / 60)
    how = "The workflow lines" if checks else "`merge.tested_refs` and the workflow lines"
    return (
        f"in {PERIOD.days} days, {len(found.proved)} of {found.landings} landings on {branch} had the very tree that "
        f"CI had tested. Its workflows took {sum(minutes.values()):,} of {taken:,} minutes on these trees: {named}. "
        f"{how} of {_PAGE} save them, as far as these workflows only test"
    )


def workflow_lines(branch: str, checks: Iterable[RequiredCheck], *, by_branch: bool = False) -> str:
    """Return the lines of a workflow that run a job on a branch only if its tree was not tested.

    Whatever fails, the job runs. It always runs elsewhere, as IMQ has to know of candidates. `by_branch`: GitHub takes
    no refs but branches and tags.
    """
    words = " ".join(map(quote, mark_text(branch, checks).splitlines()))
    tree = "$(git rev-parse 'HEAD^{tree}')"
    found = f'git ls-remote origin "{MARKS}{tree}" | cut -f1'
    if by_branch:
        found = f'git fetch -q --depth=1 origin "{MARK_BRANCHES}{tree}" && git rev-parse FETCH_HEAD:{MARK_FILE}'
    return f"""\
jobs:
  tested:
    if: github.ref == 'refs/heads/{branch}'
    runs-on: ubuntu-latest
    permissions: {{contents: read}}
    outputs: {{skip: '${{{{ steps.imq.outputs.skip }}}}'}}
    steps:
      - uses: actions/checkout@v4
      - id: imq
        run: |
          mark=$(printf '%s\\n' {words} | git hash-object --stdin)
          found=$({found}) || true
          if [ "$found" = "$mark" ]; then echo skip=true >> "$GITHUB_OUTPUT"; fi
  test:
    needs: tested
    if: ${{{{ !cancelled() && (github.ref != 'refs/heads/{branch}' || needs.tested.outputs.skip != 'true') }}}}
"""
