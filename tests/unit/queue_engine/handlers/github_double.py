"""GitHub with one pull request, one base branch, and the answers that hold at this instant."""

from dataclasses import replace

from queue_engine.domain.errors import HeadConflict, Invalid
from queue_engine.domain.facts import (
    BranchRules,
    CheckReport,
    CheckState,
    Commit,
    Comparison,
    HistoryEvent,
    LabelEvent,
    Permission,
    Snapshot,
)
from queue_engine.domain.facts import PullRequest as Pull
from tests.unit.queue_engine.examples import pull, report, rules

OWN = "imq[bot]"


class Hub:
    """GitHub: one pull request, one base branch, and what is so at this instant."""

    def __init__(self) -> None:
        self.pull = pull(head_sha="head-1")
        self.tip = "base-1"
        self.parents: dict[str, tuple[str, ...]] = {"head-1": ("work-1",)}
        self.passed: set[str] = set()
        self.merges = 0
        self.approved = True

    def update(self) -> str:
        """The base is merged into the pull request's branch."""
        head = f"{self.pull.head_sha}+{self.tip}"
        self.parents[head] = (self.pull.head_sha, self.tip)
        self.pull = replace(self.pull, head_sha=head)
        return head

    def push(self, head: str) -> None:
        self.parents[head] = (self.pull.head_sha,)
        self.pull = replace(self.pull, head_sha=head)

    async def pull_request(self, _repository: object, number: int) -> Pull:
        return self.pull if number == 1 else pull(number=number, head_sha=f"head-{number}")

    async def snapshot(
        self, repository: object, number: int, *, login: str | None, head_sha: str | None = None
    ) -> Snapshot:
        read = await self.pull_request(repository, number)
        compared = await self.comparison(repository, "main", head_sha or read.head_sha)
        shown = None if compared.behind else compared
        right = None if login is None else Permission.WRITE
        return Snapshot(read, right, shown, base_tip=compared.base_tip, behind=compared.behind)

    async def latest_pull_requests(self, _repository: object) -> tuple[Pull, ...]:
        return (self.pull,)

    async def comparison(self, _repository: object, _base: str, head: str) -> Comparison:
        contained = head.endswith(f"+{self.tip}") or self.tip == head or f"+{self.tip}" in head
        commit = Commit(head, f"tree-of-{head}", self.parents.get(head, ("work",)))
        return Comparison(self.tip, self.tip if contained else "base-0", 0 if contained else 1, commit)

    async def commit(self, _repository: object, sha: str) -> Commit:
        return Commit(sha, f"tree-of-{sha.removeprefix('landed-')}", ())

    async def check_reports(self, _repository: object, sha: str, _required: object) -> tuple[CheckReport, ...]:
        return (report("ci", CheckState.PASSED if sha in self.passed else CheckState.PENDING),)

    async def is_guarded(self, *_: object) -> bool:
        return False

    async def branch_rules(self, *_: object, kept: bool = False) -> BranchRules:
        return rules("ci")

    async def permission(self, *_: object) -> Permission:
        return Permission.WRITE

    async def last_labeled_event(self, *_: object) -> LabelEvent | None:
        return None

    async def history(self, *_: object) -> tuple[HistoryEvent, ...]:
        return ()

    async def has_label(self, *_: object) -> bool:
        return True

    async def own_login(self) -> str:
        return OWN

    async def update_branch(self, _repository: object, _number: int, expected: str) -> None:
        if expected != self.pull.head_sha:
            raise Invalid("expected head sha didn't match current head ref.")
        self.update()

    async def merge(self, _repository: object, _number: int, head: str, *_: object, **__: object) -> str:
        if head != self.pull.head_sha:
            raise HeadConflict("Head branch was modified.")
        self.merges += 1
        self.tip = f"landed-{head}"
        self.pull = replace(self.pull, open=False, merged=True, merge_sha=self.tip)
        return self.tip

    async def prepare_writes(self, _repository: object) -> None:
        """Nothing is to be prepared."""

    def forget_token(self, _installation_id: int) -> None:
        """Nothing is remembered."""

    def forget_rules(self, _repository_id: int) -> None:
        """Nothing is remembered."""
