"""Repositories, in the sizes that GitHub shows them in."""

from typing import Any

from github_emulator.payloads.accounts import node_id, user
from github_emulator.payloads.source import Source
from github_emulator.payloads.times import timestamp
from github_emulator.state import ROLES, Repository, User

_LINKS = {
    "archive_url": "/{archive_format}{/ref}",
    "assignees_url": "/assignees{/user}",
    "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}",
    "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}",
    "commits_url": "/commits{/sha}",
    "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}",
    "contributors_url": "/contributors",
    "deployments_url": "/deployments",
    "downloads_url": "/downloads",
    "events_url": "/events",
    "forks_url": "/forks",
    "git_commits_url": "/git/commits{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "hooks_url": "/hooks",
    "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}",
    "issues_url": "/issues{/number}",
    "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}",
    "languages_url": "/languages",
    "merges_url": "/merges",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}",
    "releases_url": "/releases{/id}",
    "stargazers_url": "/stargazers",
    "statuses_url": "/statuses/{sha}",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "tags_url": "/tags",
    "teams_url": "/teams",
    "trees_url": "/git/trees{/sha}",
}


def api(source: Source, record: Repository) -> str:
    """The repository's address in the REST API."""
    return f"{source.addresses.api_url}/repos/{record.full_name}"


def html(source: Source, record: Repository) -> str:
    """The repository's page."""
    return f"{source.addresses.html_url}/{record.full_name}"


def repository_stub(source: Source, record: Repository) -> dict[str, Any]:
    """The few fields that installation webhooks carry."""
    return {
        "id": record.id,
        "node_id": node_id("Repository", record.id),
        "name": record.name,
        "full_name": record.full_name,
        "private": record.private,
    }


def minimal_repository(source: Source, record: Repository) -> dict[str, Any]:
    """`minimal-repository`."""
    url = api(source, record)
    host = source.addresses.html_url.partition("://")[2]
    return repository_stub(source, record) | {
        "owner": user(source, record.owner),
        "html_url": html(source, record),
        "description": None,
        "fork": record.parent is not None,
        "url": url,
        **{name: url + path for name, path in _LINKS.items()},
        "git_url": f"git://{host}/{record.full_name}.git",
        "ssh_url": f"git@{host}:{record.full_name}.git",
        "clone_url": f"{html(source, record)}.git",
        "svn_url": html(source, record),
        "mirror_url": None,
        "homepage": None,
        "language": None,
        "forks_count": 0,
        "stargazers_count": 0,
        "watchers_count": 0,
        "size": 1,
        "default_branch": record.default_branch,
        "open_issues_count": _open(record),
        "is_template": False,
        "topics": [],
        "has_issues": True,
        "has_projects": True,
        "has_wiki": True,
        "has_pages": False,
        "has_downloads": True,
        "has_discussions": False,
        "archived": record.archived,
        "disabled": False,
        "visibility": "private" if record.private else "public",
        "pushed_at": timestamp(record.pushed_at),
        "created_at": timestamp(record.created_at),
        "updated_at": timestamp(record.updated_at),
        "license": None,
        "forks": 0,
        "open_issues": _open(record),
        "watchers": 0,
        "allow_forking": True,
        "web_commit_signoff_required": False,
    }


def branch_repository(source: Source, record: Repository) -> dict[str, Any]:
    """`repository`, as the ends of a pull request carry it: with its merge settings, without its relations."""
    return minimal_repository(source, record) | {
        "allow_merge_commit": record.allow_merge_commit,
        "allow_squash_merge": record.allow_squash_merge,
        "allow_rebase_merge": record.allow_rebase_merge,
        "allow_auto_merge": record.allow_auto_merge,
        "allow_update_branch": False,
        "delete_branch_on_merge": record.delete_branch_on_merge,
        "use_squash_pr_title_as_default": False,
        "squash_merge_commit_title": "COMMIT_OR_PR_TITLE",
        "squash_merge_commit_message": "COMMIT_MESSAGES",
        "merge_commit_title": "MERGE_MESSAGE",
        "merge_commit_message": "PR_TITLE",
    }


def repository(source: Source, record: Repository, *, viewer: User | None = None) -> dict[str, Any]:
    """`full-repository`; with the viewer's permissions when one is given."""
    full = branch_repository(source, record) | {"network_count": 0, "subscribers_count": 1}
    if viewer is not None:
        full["permissions"] = permissions(source, record, viewer)
    if record.owner.kind == "Organization":
        full["organization"] = user(source, record.owner)
    if record.parent is not None:
        full["parent"] = full["source"] = minimal_repository(source, record.parent)
    return full


def webhook_repository(source: Source, record: Repository) -> dict[str, Any]:
    """The repository as webhooks carry it; `push` has instants as numbers there, which readers accept as well."""
    return minimal_repository(source, record)


def permissions(source: Source, record: Repository, viewer: User) -> dict[str, bool]:
    """What a person may do, in the API's words."""
    rank = ROLES.index(source.accounts.role(viewer, record))
    words = {"admin": "admin", "maintain": "maintain", "push": "write", "triage": "triage", "pull": "read"}
    return {word: rank >= ROLES.index(role) for word, role in words.items()}


def _open(record: Repository) -> int:
    return sum(pull.state == "open" for pull in record.pulls.values())
