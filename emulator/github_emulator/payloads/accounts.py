"""Accounts, apps and installations."""

import base64
from typing import Any

from github_emulator.payloads.source import Source
from github_emulator.payloads.times import timestamp
from github_emulator.state import App, Installation, Team, User

_GHOST_ID = 10137
"""The number of github.com's account `ghost`."""


def node_id(kind: str, number: int) -> str:
    """An opaque GraphQL id."""
    return base64.b64encode(f"0{len(kind)}:{kind}{number}".encode()).decode()


def avatar(source: Source, record: User) -> str:
    """Where the picture of an account is: that of an App's bot is filed under the App's own number."""
    app = next((app for app in source.state.apps.values() if app.bot is record), None)
    filed = f"u/{record.id}" if app is None else f"in/{app.id}"
    return f"{source.addresses.html_url}/avatars/{filed}?v=4"


def user(source: Source, record: User) -> dict[str, Any]:
    """`simple-user`."""
    path = record.login.replace("[", "%5B").replace("]", "%5D")
    url = f"{source.addresses.api_url}/users/{path}"
    is_bot = record.kind == "Bot"
    shown = record.login.removesuffix("[bot]")
    return {
        "login": record.login,
        "id": record.id,
        "node_id": node_id(record.kind, record.id),
        "avatar_url": avatar(source, record),
        "gravatar_id": "",
        "url": url,
        "html_url": f"{source.addresses.html_url}/apps/{shown}"
        if is_bot
        else f"{source.addresses.html_url}/{record.login}",
        "followers_url": f"{url}/followers",
        "following_url": f"{url}/following{{/other_user}}",
        "gists_url": f"{url}/gists{{/gist_id}}",
        "starred_url": f"{url}/starred{{/owner}}{{/repo}}",
        "subscriptions_url": f"{url}/subscriptions",
        "organizations_url": f"{url}/orgs",
        "repos_url": f"{url}/repos",
        "events_url": f"{url}/events{{/privacy}}",
        "received_events_url": f"{url}/received_events",
        "type": record.kind,
        "user_view_type": "public",
        "site_admin": False,
    }


def author(source: Source, record: User) -> dict[str, Any] | None:
    """`nullable-simple-user`: who wrote something, whose account may be deleted since."""
    if not record.deleted:
        return user(source, record)
    return None if source.behaviour.deleted_accounts == "null" else ghost(source, record)


def ghost(source: Source, record: User) -> dict[str, Any]:
    """The account that stands for a deleted one."""
    return user(source, User(_GHOST_ID, "ghost", "User", record.created_at))


def organization(source: Source, record: User) -> dict[str, Any]:
    """`organization-simple`, as webhooks of an organization's repositories carry it."""
    url = f"{source.addresses.api_url}/orgs/{record.login}"
    return {
        "login": record.login,
        "id": record.id,
        "node_id": node_id("Organization", record.id),
        "url": url,
        "repos_url": f"{url}/repos",
        "events_url": f"{url}/events",
        "hooks_url": f"{url}/hooks",
        "issues_url": f"{url}/issues",
        "members_url": f"{url}/members{{/member}}",
        "public_members_url": f"{url}/public_members{{/member}}",
        "avatar_url": f"{source.addresses.html_url}/avatars/u/{record.id}?v=4",
        "description": None,
    }


def team(source: Source, record: Team) -> dict[str, Any]:
    """`webhooks_team`: a team as webhooks carry it."""
    return _team(source, record) | {"parent": None if record.parent is None else _team(source, record.parent)}


def _team(source: Source, record: Team) -> dict[str, Any]:
    organisation = record.organisation
    url = f"{source.addresses.api_url}/organizations/{organisation.id}/team/{record.id}"
    return {
        "name": record.name,
        "id": record.id,
        "node_id": node_id("Team", record.id),
        "slug": record.slug,
        "description": None,
        "privacy": "closed",
        "notification_setting": "notifications_enabled",
        "url": url,
        "html_url": f"{source.addresses.html_url}/orgs/{organisation.login}/teams/{record.slug}",
        "members_url": f"{url}/members{{/member}}",
        "repositories_url": f"{url}/repos",
        "permission": "pull",
        "type": "organization",
        "organization_id": organisation.id,
    }


def integration(source: Source, record: App) -> dict[str, Any]:
    """`integration`: an app as check runs and comments show it."""
    return {
        "id": record.id,
        "client_id": record.client_id,
        "slug": record.slug,
        "node_id": node_id("Integration", record.id),
        "owner": user(source, record.owner),
        "name": record.name or record.slug,
        "description": "",
        "external_url": f"{source.addresses.html_url}/apps/{record.slug}",
        "html_url": f"{source.addresses.html_url}/apps/{record.slug}",
        "created_at": timestamp(record.created_at),
        "updated_at": timestamp(record.created_at),
        "permissions": dict(record.permissions),
        "events": sorted(record.events),
    }


def app(source: Source, record: App) -> dict[str, Any]:
    """`GET /app`: the integration and how often it is installed."""
    count = sum(installation.app is record for installation in source.state.installations.values())
    return integration(source, record) | {"installations_count": count}


def installation(source: Source, record: Installation) -> dict[str, Any]:
    """`installation`."""
    url = f"{source.addresses.api_url}/app/installations/{record.id}"
    login = record.account.login
    organisation = record.account.kind == "Organization"
    place = f"organizations/{login}/settings" if organisation else "settings"
    return {
        "id": record.id,
        "client_id": record.app.client_id,
        "account": user(source, record.account),
        "repository_selection": "all" if record.repositories is None else "selected",
        "access_tokens_url": f"{url}/access_tokens",
        "repositories_url": f"{source.addresses.api_url}/installation/repositories",
        "html_url": f"{source.addresses.html_url}/{place}/installations/{record.id}",
        "app_id": record.app.id,
        "app_slug": record.app.slug,
        "target_id": record.account.id,
        "target_type": "Organization" if organisation else "User",
        "permissions": dict(record.permissions),
        "events": sorted(record.app.events),
        "created_at": timestamp(record.created_at),
        "updated_at": timestamp(record.updated_at),
        "single_file_name": None,
        "has_multiple_single_files": False,
        "single_file_paths": [],
        "suspended_by": None,
        "suspended_at": timestamp(record.suspended_at),
    }
