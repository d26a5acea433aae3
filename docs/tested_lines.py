"""The workflow lines of docs/proof.md that spare a second test of the same tree."""

from collections.abc import Iterable
from shlex import quote

from queue_engine.domain.facts import RequiredCheck
from queue_engine.domain.port import MARK_BRANCHES, MARKS
from queue_engine.rules.proof import mark_text


def workflow_lines(branch: str, checks: Iterable[RequiredCheck], *, by_branch: bool = False) -> str:
    """Return the lines of a workflow that run a job on a branch only if its tree was not tested.

    Whatever fails, the job runs. It always runs elsewhere, as IMQ has to know of candidates. `by_branch`: GitHub takes
    no refs but branches and tags.
    """
    words, place = " ".join(map(quote, mark_text(branch, checks).splitlines())), MARK_BRANCHES if by_branch else MARKS
    return f"""\
jobs:
  tested:
    if: github.event_name == 'push' && github.ref == 'refs/heads/{branch}'
    runs-on: ubuntu-latest
    permissions: {{contents: read}}
    outputs: {{skip: '${{{{ steps.imq.outputs.skip }}}}'}}
    steps:
      - uses: actions/checkout@v4
      - id: imq
        run: |
          mark=$(printf '%s\\n' {words} | git hash-object --stdin)
          ref="{place}$mark/$(git rev-parse 'HEAD^{{tree}}')"
          found=$(git ls-remote origin "$ref" | cut -f2) || true
          if [ "$found" = "$ref" ]; then echo skip=true >> "$GITHUB_OUTPUT"; fi
  test:
    needs: tested
    if: ${{{{ !cancelled() && (github.ref != 'refs/heads/{branch}' || needs.tested.outputs.skip != 'true') }}}}
"""
