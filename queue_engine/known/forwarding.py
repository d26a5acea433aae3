"""Forward both ports to GitHub to another implementation, for classes that change some of the calls.

Every method is written out, so that mypy reports a call that the ports have and that is missing here.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from queue_engine.domain.candidate_port import BranchUpdate, SnapshotRequest
from queue_engine.domain.facts import (
    Branch,
    BranchRules,
    CheckReport,
    Commit,
    Comparison,
    Delivery,
    HeadPush,
    LabelEvent,
    OwnComment,
    Permission,
    PullRequest,
    RepositoryState,
    RequiredCheck,
    Review,
    Snapshot,
)
from queue_engine.domain.model import Repository
from queue_engine.domain.workflow_runs import CheckSuite, WorkflowRun
from queue_engine.known.merge_forwarding import MergeForwarding


class Forwarding(MergeForwarding):
    """Forwards every call. The ports document each."""

    async def pull_request(self, repository: Repository, number: int) -> PullRequest:
        """As the port says."""
        return await self._github.pull_request(repository, number)

    async def snapshot(
        self, repository: Repository, number: int, *, login: str | None, head_sha: str | None = None
    ) -> Snapshot:
        """As the port says."""
        return await self._github.snapshot(repository, number, login=login, head_sha=head_sha)

    async def snapshots(self, repository: Repository, requests: Sequence[SnapshotRequest]) -> Mapping[int, Snapshot]:
        """As the port says."""
        return await self._github.snapshots(repository, requests)

    async def permission(self, repository: Repository, login: str) -> Permission:
        """As the port says."""
        return await self._github.permission(repository, login)

    async def login_of(self, repository: Repository, person_id: int) -> str | None:
        """As the port says."""
        return await self._github.login_of(repository, person_id)

    async def comparison(self, repository: Repository, base_branch: str, head_sha: str) -> Comparison:
        """As the port says."""
        return await self._github.comparison(repository, base_branch, head_sha)

    async def changed_paths(self, repository: Repository, base: str, before: str, after: str) -> frozenset[str] | None:
        """As the port says."""
        return await self._github.changed_paths(repository, base, before, after)

    async def differing_paths(self, repository: Repository, tree: str, landed: Commit) -> frozenset[str] | None:
        """As the port says."""
        return await self._github.differing_paths(repository, tree, landed)

    async def commit(self, repository: Repository, sha: str) -> Commit:
        """As the port says."""
        return await self._github.commit(repository, sha)

    async def branch_rules(self, repository: Repository, base_branch: str, *, kept: bool = False) -> BranchRules:
        """As the port says."""
        return await self._github.branch_rules(repository, base_branch, kept=kept)

    def cached_rules(self, repository: Repository, base_branch: str) -> BranchRules | None:
        """As the port says."""
        return self._github.cached_rules(repository, base_branch)

    async def refuses_outdated(self, repository: Repository, base_branch: str) -> bool:
        return await self._github.refuses_outdated(repository, base_branch)

    async def is_guarded(self, repository: Repository, branch: str, default_branch: str) -> bool:
        """As the port says."""
        return await self._github.is_guarded(repository, branch, default_branch)

    async def prepare_writes(self, repository: Repository) -> None:
        """As the port says."""
        await self._github.prepare_writes(repository)

    def forget_token(self, installation_id: int) -> None:
        """As the port says."""
        self._github.forget_token(installation_id)

    def forget_rules(self, repository_id: int) -> None:
        """As the port says."""
        self._github.forget_rules(repository_id)

    def expire_rules(self, repository_id: int) -> None:
        """As the port says."""
        self._github.expire_rules(repository_id)

    async def check_reports(
        self, repository: Repository, sha: str, required: Collection[RequiredCheck]
    ) -> tuple[CheckReport, ...]:
        """As the port says."""
        return await self._github.check_reports(repository, sha, required)

    async def workflow_runs(self, repository: Repository, sha: str) -> tuple[WorkflowRun, ...]:
        """As the port says."""
        return await self._github.workflow_runs(repository, sha)

    async def cancelled_for(self, repository: Repository, check_run: int) -> tuple[str, ...]:
        """As the port says."""
        return await self._github.cancelled_for(repository, check_run)

    async def check_suites(self, repository: Repository, sha: str) -> tuple[CheckSuite, ...]:
        """As the port says."""
        return await self._github.check_suites(repository, sha)

    async def reports_elsewhere(
        self, repository: Repository, base_branch: str | None, head: str, wanted: Collection[RequiredCheck]
    ) -> tuple[CheckReport, ...]:
        """As the port says."""
        return await self._github.reports_elsewhere(repository, base_branch, head, wanted)

    async def update_branch(self, repository: Repository, number: int, expected_head: str) -> None:
        """As the port says."""
        await self._github.update_branch(repository, number, expected_head)

    async def disable_auto_merge(self, repository: Repository, node_id: str) -> bool:
        """As the port says."""
        return await self._github.disable_auto_merge(repository, node_id)

    async def configuration(self, repository: Repository, base_branch: str | None) -> str | None:
        """As the port says."""
        return await self._github.configuration(repository, base_branch)

    async def organisation_configuration(self, repository: Repository, commit: str | None = None) -> str | None:
        """As the port says."""
        return await self._github.organisation_configuration(repository, commit)

    async def organisation_configuration_is_reviewed(self, repository: Repository) -> bool:
        """As the port says."""
        return await self._github.organisation_configuration_is_reviewed(repository)

    async def reviews(self, repository: Repository, number: int) -> tuple[Review, ...]:
        """As the port says."""
        return await self._github.reviews(repository, number)

    async def co_authors(self, repository: Repository, number: int, *, author: str) -> tuple[str, ...]:
        """As the port says."""
        return await self._github.co_authors(repository, number, author=author)

    async def unsigned_commits(self, repository: Repository, number: int) -> tuple[str, ...]:
        """As the port says."""
        return await self._github.unsigned_commits(repository, number)

    async def rerun(self, repository: Repository, actions_run: int) -> None:
        """As the port says."""
        await self._github.rerun(repository, actions_run)

    async def cancel_run(self, repository: Repository, actions_run: int) -> None:
        """As the port says."""
        await self._github.cancel_run(repository, actions_run)

    async def create_branch(self, repository: Repository, branch: str, sha: str) -> None:
        """As the port says."""
        await self._github.create_branch(repository, branch, sha)

    async def candidate_branches(self, repository: Repository) -> Mapping[str, str]:
        """As the port says."""
        return await self._github.candidate_branches(repository)

    async def branch_pushes(self, repository: Repository, branch: str) -> tuple[HeadPush, ...]:
        """As the port says."""
        return await self._github.branch_pushes(repository, branch)

    async def merge_into(self, repository: Repository, branch: str, head_sha: str, message: str) -> Commit | None:
        """As the port says."""
        return await self._github.merge_into(repository, branch, head_sha, message)

    async def create_commit(self, repository: Repository, tree: str, parents: Sequence[str], message: str) -> Commit:
        """As the port says."""
        return await self._github.create_commit(repository, tree, parents, message)

    async def update_refs(self, repository: Repository, updates: Sequence[BranchUpdate]) -> None:
        """As the port says."""
        await self._github.update_refs(repository, updates)

    async def open_draft(self, repository: Repository, head: str, base: str, title: str, body: str) -> int:
        """As the port says."""
        return await self._github.open_draft(repository, head, base, title, body)

    async def close_pull_request(self, repository: Repository, number: int) -> None:
        """As the port says."""
        await self._github.close_pull_request(repository, number)

    async def dispatch_workflow(
        self, repository: Repository, path: str, branch: str, inputs: Mapping[str, str]
    ) -> None:
        """As the port says."""
        await self._github.dispatch_workflow(repository, path, branch, inputs)

    async def workflow_files(self, repository: Repository, commit: str) -> Mapping[str, str]:
        """As the port says."""
        return await self._github.workflow_files(repository, commit)

    async def texts(self, repository: Repository, commit: str, paths: Sequence[str]) -> Mapping[str, str]:
        """As the port says."""
        return await self._github.texts(repository, commit, paths)

    async def is_in_use(self, repository: Repository, branch: str) -> bool:
        """As the port says."""
        return await self._github.is_in_use(repository, branch)

    async def branch_tip(self, repository: Repository, branch: str) -> Branch | None:
        """As the port says."""
        return await self._github.branch_tip(repository, branch)

    async def delete_branch(self, repository: Repository, branch: str) -> None:
        """As the port says."""
        await self._github.delete_branch(repository, branch)

    async def create_label(self, repository: Repository, name: str, color: str, description: str) -> bool:
        """As the port says."""
        return await self._github.create_label(repository, name, color, description)

    async def react(self, repository: Repository, comment_id: int, content: str) -> None:
        """As the port says."""
        await self._github.react(repository, comment_id, content)

    async def add_label(self, repository: Repository, number: int, label: str) -> None:
        """As the port says."""
        await self._github.add_label(repository, number, label)

    async def remove_label(self, repository: Repository, number: int, label: str) -> None:
        """As the port says."""
        await self._github.remove_label(repository, number, label)

    async def labeled_pull_requests(self, repository: Repository, label: str) -> tuple[int, ...]:
        """As the port says."""
        return await self._github.labeled_pull_requests(repository, label)

    async def latest_pull_requests(self, repository: Repository) -> tuple[PullRequest, ...]:
        """As the port says."""
        return await self._github.latest_pull_requests(repository)

    async def own_comments(self, repository: Repository, since: datetime) -> tuple[OwnComment, ...]:
        """As the port says."""
        return await self._github.own_comments(repository, since)

    async def head_pushes(self, repository: Repository, pull: PullRequest) -> tuple[HeadPush, ...]:
        """As the port says."""
        return await self._github.head_pushes(repository, pull)

    async def last_labeled_event(self, repository: Repository, number: int, label: str) -> LabelEvent | None:
        """As the port says."""
        return await self._github.last_labeled_event(repository, number, label)

    async def installations(self) -> tuple[int, ...]:
        """As the port says."""
        return await self._github.installations()

    async def repositories(self, installation_id: int) -> tuple[Repository, ...]:
        """As the port says."""
        return await self._github.repositories(installation_id)

    async def repository(self, repository: Repository) -> RepositoryState:
        """As the port says."""
        return await self._github.repository(repository)

    async def deliveries(self, cursor: str | None) -> tuple[tuple[Delivery, ...], str | None]:
        """As the port says."""
        return await self._github.deliveries(cursor)

    async def redeliver(self, number: int) -> None:
        """As the port says."""
        await self._github.redeliver(number)

    async def own_login(self) -> str:
        """As the port says."""
        return await self._github.own_login()

    async def create_comment(self, repository: Repository, number: int, body: str) -> int:
        """As the port says."""
        return await self._github.create_comment(repository, number, body)

    async def delete_comment(self, repository: Repository, comment_id: int) -> bool:
        """As the port says."""
        return await self._github.delete_comment(repository, comment_id)

    async def update_comment(self, repository: Repository, comment_id: int, body: str) -> None:
        """As the port says."""
        await self._github.update_comment(repository, comment_id, body)

    async def find_comments(self, repository: Repository, number: int) -> Mapping[int, str]:
        """As the port says."""
        return await self._github.find_comments(repository, number)

    async def create_check_run(self, repository: Repository, check_run: Mapping[str, Any]) -> int:
        """As the port says."""
        return await self._github.create_check_run(repository, check_run)

    async def update_check_run(self, repository: Repository, check_run_id: int, check_run: Mapping[str, Any]) -> None:
        """As the port says."""
        await self._github.update_check_run(repository, check_run_id, check_run)

    async def find_check_run(
        self, repository: Repository, head_sha: str, name: str, external_id: str, *, unfinished: bool = False
    ) -> int | None:
        """As the port says."""
        return await self._github.find_check_run(repository, head_sha, name, external_id, unfinished=unfinished)
