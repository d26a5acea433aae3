"""What the types of the schema show of the emulator's records; a field that costs work is a function."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from github_emulator.core.git import TreeEntry
from github_emulator.facade.github import GitHub
from github_emulator.graphql.check_states import rollup, suites
from github_emulator.graphql.connections import Info, connection
from github_emulator.graphql.errors import Refused, not_accessible, not_found
from github_emulator.graphql.review_requests import requested_reviewers, review_request
from github_emulator.payloads import node_id, timestamp
from github_emulator.state import IssueEvent, PullRequest, Repository, Review, User

Record = dict[str, Any]
May = Callable[[str], bool]
"""Whether the caller has this permission (`contents`) for reading."""
View = Callable[[], AbstractContextManager[None]]
"""Within it records show the state of one part of an answer."""


class Objects:
    """Shows records to one caller. `may` are the caller's permissions on the repository asked for.

    Branches and commits are looked up within `branches`: they may be of another age than the pull request.
    """

    def __init__(
        self, github: GitHub, repository: Repository, may: May, *, people_hidden: bool, branches: View = nullcontext
    ) -> None:
        self._github = github
        self._may = may
        self._people_hidden = people_hidden
        self._repository = repository
        self._branches = branches

    def repository(self) -> Record:
        """`Repository`."""
        record = self._repository
        return self._head(record) | {
            "isArchived": record.archived,
            "isPrivate": record.private,
            "mergeCommitAllowed": record.allow_merge_commit,
            "squashMergeAllowed": record.allow_squash_merge,
            "rebaseMergeAllowed": record.allow_rebase_merge,
            "deleteBranchOnMerge": record.delete_branch_on_merge,
            "defaultBranchRef": lambda _info: self._ref(record.default_branch),
            "collaborators": self._collaborators,
            "pullRequest": self._pull_request,
            "ref": lambda _info, **given: self._ref(given["qualifiedName"].removeprefix("refs/heads/")),
            "object": self._object,
        }

    def _head(self, record: Repository) -> Record:
        return {
            "id": node_id("Repository", record.id),
            "databaseId": record.id,
            "name": record.name,
            "nameWithOwner": record.full_name,
            "owner": actor(record.owner),
        }

    def _pull_request(self, _info: Info, number: int) -> Record:
        self._require("pull_requests")
        pull = self._repository.pulls.get(number)
        if pull is None:
            raise not_found(f"PullRequest with the number of {number}")
        return {
            "id": node_id("PullRequest", pull.id),
            "number": pull.number,
            "title": pull.title,
            "body": pull.body,
            "author": None if pull.author.deleted else actor(pull.author),
            "state": "MERGED" if pull.merged else pull.state.upper(),
            "merged": pull.merged,
            "isDraft": pull.draft,
            "autoMergeRequest": {"mergeMethod": pull.auto_merge.method.upper()} if pull.auto_merge else None,
            "isCrossRepository": pull.from_fork,
            "headRefOid": pull.head_sha,
            "headRefName": pull.head_branch,
            "headRepository": self._head(pull.head_repository) if pull.head_repository else None,
            "baseRefName": pull.base_branch,
            "baseRepository": {"nameWithOwner": pull.repository.full_name},
            "baseRefOid": pull.base_sha,
            "maintainerCanModify": pull.maintainer_can_modify,
            "totalCommentsCount": len(pull.comments) + len(pull.threads),
            "createdAt": timestamp(pull.created_at),
            "updatedAt": timestamp(pull.updated_at),
            "url": f"{self._github.source.addresses.html_url}/{pull.repository.full_name}/pull/{pull.number}",
            **self._computed(pull),
            **self._lists(pull),
        }

    def _computed(self, pull: PullRequest) -> Record:
        merging, landed = self._github.mergeability, pull.merge_commit_sha if pull.merged else None
        words = {None: "UNKNOWN", True: "MERGEABLE", False: "CONFLICTING"}
        return {
            "mergeable": lambda _info: words[merging.mergeable(pull)],
            "canBeRebased": lambda _info: merging.mergeable(pull, ask=False) is not None and bool(pull.rebaseable),
            "mergeStateStatus": lambda _info: merging.mergeable_state(pull).upper(),
            "mergeCommit": lambda _info: None if landed is None else self._commit(landed),
            "baseRef": lambda _info: self._ref(pull.base_branch),
            "headRef": lambda _info: self._ref(pull.head_branch) if not pull.from_fork else None,
            "stack": lambda _info: self._stack(pull),
            "reviewDecision": lambda _info: self._github.reviews.decision(pull),
        }

    def _stack(self, pull: PullRequest) -> Record | None:
        stack = self._github.stacks.of(pull)
        if stack is None:
            return None
        number, size = stack.number, len(stack.pulls)
        place = node_id("PullRequestStack", stack.id)
        return {"id": place, "number": number, "size": size, "baseRefName": stack.base_branch}

    def _lists(self, pull: PullRequest) -> Record:
        def commits(info: Info, **bounds: Any) -> Record:
            self._require("contents")
            return connection(self._github.pulls.commits(pull), lambda found: self._of_pull(found.sha))(info, **bounds)

        def reviews(info: Info, *, writersOnly: bool = False, **bounds: Any) -> Record:  # noqa: N803
            return connection(self._opinions(pull, writersOnly), self._review)(info, **bounds)

        return {
            "labels": connection(pull.labels, label),
            "assignees": connection(pull.assignees, actor),
            "commits": commits,
            "latestOpinionatedReviews": reviews,
            "reviewRequests": connection(
                requested_reviewers(self._github, pull),
                partial(review_request, self._github, pull, self._may("members")),
            ),
            "timelineItems": partial(_timeline, pull),
            "reviewThreads": connection(
                pull.threads,
                lambda found: {
                    "id": node_id("PullRequestReviewThread", found.id),
                    "isResolved": found.resolved_by is not None,
                    "path": found.path,
                },
            ),
        }

    def _opinions(self, pull: PullRequest, writers_only: bool) -> Sequence[Review]:
        """The newest review of each person that is more than a comment."""
        newest = {review.user: review for review in pull.reviews if review.state != "COMMENTED"}
        shown = [review for review in newest.values() if not writers_only or self._writes(review.user)]
        listed = self._github.behaviour.dismissed_reviews_listed
        return [review for review in shown if listed or review.state != "DISMISSED"]

    def _writes(self, user: User) -> bool:
        return self._github.accounts.has_role(user, self._repository, "write")

    def _review(self, review: Review) -> Record:
        return {
            "id": node_id("PullRequestReview", review.id),
            "state": review.state,
            "author": None if review.user.deleted else actor(review.user),
            "commit": lambda _info: self._commit(review.commit_id),
        }

    def _of_pull(self, sha: str) -> Record:
        return {"id": f"PURC_{sha}", "commit": self._commit(sha)}

    def _commit(self, sha: str) -> Record:
        self._require("contents")
        found = self._repository.git.must(sha)
        return {
            "__typename": "Commit",
            "id": f"C_{sha}",
            "oid": sha,
            "message": found.message,
            "tree": self._tree(found.tree),
            "parents": connection(found.parents, self._commit),
            "checkSuites": suites(self._repository, sha, self._may),
            "statusCheckRollup": lambda _info: rollup(self._github, self._repository, sha, self._may),
        }

    def _tree(self, sha: str, path: str = "") -> Record:
        entries = partial(_later, lambda: [self._entry(one, path) for one in self._repository.git.entries(sha)])
        return {"__typename": "Tree", "id": f"T_{sha}", "oid": sha, "entries": entries}

    def _entry(self, entry: TreeEntry, directory: str) -> Record:
        path = f"{directory}/{entry.path}" if directory else entry.path
        shown = partial(_later, lambda: self._within(entry.type, entry.sha, path))
        return {
            "name": entry.path,
            "path": path,
            "type": entry.type,
            "mode": int(entry.mode, 8),
            "oid": entry.sha,
            "object": shown,
        }

    def _within(self, kind: str, sha: str, path: str) -> Record | None:
        """A directory or file; a submodule's commit is in another repository."""
        if kind == "tree":
            return self._tree(sha, path)
        return self._blob(sha) if kind == "blob" else None

    def _blob(self, sha: str) -> Record:
        """GitHub shows no text of a binary file, and the beginning of a large one ("Blob", GraphQL reference)."""
        data = self._repository.git.blob(sha) or b""
        most, binary = self._github.behaviour.most_blob_text, b"\0" in data
        return {
            "__typename": "Blob",
            "id": f"B_{sha}",
            "oid": sha,
            "byteSize": len(data),
            "isBinary": binary,
            "isTruncated": len(data) > most,
            "text": None if binary else data[:most].decode(errors="replace"),
        }

    def _ref(self, branch: str) -> Record | None:
        with self._branches():
            tip = self._repository.git.branch(branch)
        if tip is None:
            return None
        return {
            "id": f"REF_{self._repository.id}_{branch}",
            "name": branch,
            "prefix": "refs/heads/",
            "target": lambda _info: self._commit(tip),
            "compare": lambda _info, **given: self._compare(tip, given["headRef"]),
            "associatedPullRequests": partial(self._of_head, branch),
        }

    def _of_head(self, branch: str, info: Info, states: Sequence[str] = (), **bounds: Any) -> Record:
        """The pull requests with this head branch, of these states, or of any."""

        def state(pull: PullRequest) -> str:
            return "MERGED" if pull.merged else pull.state.upper()

        self._require("pull_requests")
        pulls = [
            pull
            for pull in self._repository.pulls.values()
            if pull.head_branch == branch and not pull.from_fork and (not states or state(pull) in states)
        ]
        shown = {pull.number: partial(self._pull_request, number=pull.number) for pull in pulls}
        return connection(list(shown), lambda number: shown[number](info))(info, **bounds)

    def _compare(self, tip: str, head_ref: str) -> Record | None:
        self._require("contents")
        git = self._repository.git
        with self._branches():
            head = git.branch(head_ref)
            if head is None and self._github.behaviour.comparison_of_commits:
                head = git.resolve(head_ref)
        if head is None:
            return None
        ahead, behind = git.ahead_behind(head, tip)
        word = ("DIVERGED" if ahead else "BEHIND") if behind else ("AHEAD" if ahead else "IDENTICAL")
        return {
            "aheadBy": ahead,
            "behindBy": behind,
            "status": word,
            "baseTarget": partial(_later, partial(self._commit, tip)),
            "headTarget": partial(_later, partial(self._commit, head)),
        }

    def _object(self, _info: Info, *, oid: str | None = None, expression: str | None = None) -> Record | None:
        self._require("contents")
        name, colon, path = (oid or expression or "").partition(":")
        with self._branches():
            sha = self._repository.git.resolve(self._repository.default_branch if name == "HEAD" else name)
        if sha is None or not colon:
            return None if sha is None else self._commit(sha)
        found = self._repository.git.entry(sha, path)
        return None if found is None else self._within(found.type, found.sha, path)

    def _collaborators(
        self, info: Info, *, login: str | None = None, query: str | None = None, **bounds: Any
    ) -> Record:
        """`login` is an exact filter, `query` finds parts of logins. A bot is no collaborator."""
        if self._people_hidden:
            raise Refused("FORBIDDEN", "You do not have permission to view repository collaborators.")
        record = self._repository
        logins = dict.fromkeys((record.owner.login, *record.collaborators))
        users = [self._github.state.users[name.lower()] for name in logins]
        found = [
            user
            for user in users
            if user.kind == "User"
            and (login is None or user.login.lower() == login.lower())
            and (query is None or query.lower() in user.login.lower())
            and self._github.accounts.role(user, record) != "none"
        ]
        page = connection(found, actor)(info, **bounds)
        for edge, user in zip(page["edges"], found, strict=False):
            edge["permission"] = self._github.accounts.role(user, record).upper()
        return page

    def _require(self, permission: str) -> None:
        if not self._may(permission):
            raise not_accessible()


def _later(show: Callable[[], Any], _info: Info) -> Any:
    return show()


def actor(user: User) -> Record:
    """`Actor`: a bot's login comes without the `[bot]` that REST shows (policy-bot puts it back itself)."""
    login = user.login.removesuffix("[bot]")
    return {"__typename": user.kind, "id": node_id(user.kind, user.id), "login": login, "databaseId": user.id}


def label(found: Any) -> Record:
    """`Label`."""
    return {"id": node_id("Label", found.id), "name": found.name, "color": found.color}


_SHOWN_EVENTS = {
    "automatic_base_change_succeeded": (
        "AUTOMATIC_BASE_CHANGE_SUCCEEDED_EVENT",
        "AutomaticBaseChangeSucceededEvent",
    ),
    "base_ref_changed": ("BASE_REF_CHANGED_EVENT", "BaseRefChangedEvent"),
    "base_ref_force_pushed": ("BASE_REF_FORCE_PUSHED_EVENT", "BaseRefForcePushedEvent"),
}
"""The events that a timeline shows here, by their names in REST."""


def _timeline(pull: PullRequest, info: Info, itemTypes: Sequence[str] | None = None, **bounds: Any) -> Record:  # noqa: N803
    events = [each for each in pull.events if each.event in _SHOWN_EVENTS]
    chosen = [each for each in events if itemTypes is None or _SHOWN_EVENTS[each.event][0] in itemTypes]
    return connection(chosen, _timeline_item)(info, **bounds)


def _timeline_item(event: IssueEvent) -> Record:
    kind = _SHOWN_EVENTS[event.event][1]
    return {"__typename": kind, "id": node_id(kind, event.id), "createdAt": timestamp(event.created_at)}
