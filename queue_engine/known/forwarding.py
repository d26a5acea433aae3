"""Forward each call to GitHub, for classes that change some of the calls.

Every call has its line, so that mypy reports one that the ports have and that is missing here.
"""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from queue_engine.domain.port import Comments, GitHubPorts, Reads, Writes

P = ParamSpec("P")
T = TypeVar("T")


def _handed_on(call: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Make the method that calls the same of the next port."""
    name = call.__name__

    def hand_on(self: Any, /, *arguments: P.args, **named: P.kwargs) -> T:
        answer: T = getattr(self._github, name)(*arguments, **named)
        return answer

    return hand_on


class Forwarding:
    """All three ports, as another implementation answers them."""

    def __init__(self, github: GitHubPorts) -> None:
        self._github = github

    pull_request = _handed_on(Reads.pull_request)
    snapshot = _handed_on(Reads.snapshot)
    snapshots = _handed_on(Reads.snapshots)
    comparison = _handed_on(Reads.comparison)
    changed_paths = _handed_on(Reads.changed_paths)
    paths_of_head = _handed_on(Reads.paths_of_head)
    differing_paths = _handed_on(Reads.differing_paths)
    commit = _handed_on(Reads.commit)
    permission = _handed_on(Reads.permission)
    login_of = _handed_on(Reads.login_of)
    branch_rules = _handed_on(Reads.branch_rules)
    cached_rules = _handed_on(Reads.cached_rules)
    is_guarded = _handed_on(Reads.is_guarded)
    forget_token = _handed_on(Reads.forget_token)
    forget_rules = _handed_on(Reads.forget_rules)
    expire_rules = _handed_on(Reads.expire_rules)
    check_reports = _handed_on(Reads.check_reports)
    workflow_runs = _handed_on(Reads.workflow_runs)
    cancelled_for = _handed_on(Reads.cancelled_for)
    check_suites = _handed_on(Reads.check_suites)
    reports_elsewhere = _handed_on(Reads.reports_elsewhere)
    configuration = _handed_on(Reads.configuration)
    configurations = _handed_on(Reads.configurations)
    organisation_configuration = _handed_on(Reads.organisation_configuration)
    organisation_configuration_is_reviewed = _handed_on(Reads.organisation_configuration_is_reviewed)
    reviews = _handed_on(Reads.reviews)
    co_authors = _handed_on(Reads.co_authors)
    unsigned_commits = _handed_on(Reads.unsigned_commits)
    stack_members = _handed_on(Reads.stack_members)
    is_in_use = _handed_on(Reads.is_in_use)
    branch_tip = _handed_on(Reads.branch_tip)
    labeled_pull_requests = _handed_on(Reads.labeled_pull_requests)
    latest_pull_requests = _handed_on(Reads.latest_pull_requests)
    own_comments = _handed_on(Reads.own_comments)
    find_comments = _handed_on(Reads.find_comments)
    last_labeled_event = _handed_on(Reads.last_labeled_event)
    head_pushes = _handed_on(Reads.head_pushes)
    installations = _handed_on(Reads.installations)
    repositories = _handed_on(Reads.repositories)
    repository = _handed_on(Reads.repository)
    deliveries = _handed_on(Reads.deliveries)
    own_login = _handed_on(Reads.own_login)
    candidate_branches = _handed_on(Reads.candidate_branches)
    branch_pushes = _handed_on(Reads.branch_pushes)
    refuses_outdated = _handed_on(Reads.refuses_outdated)
    workflow_files = _handed_on(Reads.workflow_files)
    texts = _handed_on(Reads.texts)
    pending_merge = _handed_on(Reads.pending_merge)

    prepare_writes = _handed_on(Writes.prepare_writes)
    update_branch = _handed_on(Writes.update_branch)
    rerun = _handed_on(Writes.rerun)
    cancel_run = _handed_on(Writes.cancel_run)
    delete_branch = _handed_on(Writes.delete_branch)
    react = _handed_on(Writes.react)
    create_label = _handed_on(Writes.create_label)
    disable_auto_merge = _handed_on(Writes.disable_auto_merge)
    redeliver = _handed_on(Writes.redeliver)
    create_branch = _handed_on(Writes.create_branch)
    merge_into = _handed_on(Writes.merge_into)
    create_commit = _handed_on(Writes.create_commit)
    update_refs = _handed_on(Writes.update_refs)
    open_draft = _handed_on(Writes.open_draft)
    close_pull_request = _handed_on(Writes.close_pull_request)
    dispatch_workflow = _handed_on(Writes.dispatch_workflow)
    merge = _handed_on(Writes.merge)
    merge_in_background = _handed_on(Writes.merge_in_background)

    create_comment = _handed_on(Comments.create_comment)
    update_comment = _handed_on(Comments.update_comment)
    delete_comment = _handed_on(Comments.delete_comment)
    create_check_run = _handed_on(Comments.create_check_run)
    update_check_run = _handed_on(Comments.update_check_run)
    find_check_run = _handed_on(Comments.find_check_run)
    add_label = _handed_on(Comments.add_label)
    remove_label = _handed_on(Comments.remove_label)
