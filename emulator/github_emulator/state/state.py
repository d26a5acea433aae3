"""The root of the state, with installations, requests to merge, and deliveries of webhooks."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from github_emulator.state.accounts import Actor, App, AppCode, DeviceCode, Team, User
from github_emulator.state.repositories import PullRequest, Repository
from github_emulator.state.rules import Ruleset


@dataclass(eq=False, slots=True, repr=False)
class Installation:
    """An app on an account. `repositories` None means all of that account's, else ids."""

    id: int
    app: App
    account: User
    repositories: set[int] | None
    permissions: dict[str, str]
    created_at: datetime
    updated_at: datetime
    suspended_at: datetime | None = None

    def covers(self, repository: Repository) -> bool:
        """Whether the app sees this repository."""
        return (
            self.suspended_at is None
            and repository.owner is self.account
            and (self.repositories is None or repository.id in self.repositories)
        )


@dataclass(eq=False, slots=True, repr=False)
class MergeRequest:
    """A request to merge a pull request later. `status` is pending, merged, enqueued or failed."""

    uuid: str
    pull: PullRequest
    actor: Actor
    method: str | None
    action: str
    title: str | None
    text: str | None
    expected_head_sha: str
    updated_at: datetime
    status: str = "pending"
    message: str = "Merge request enqueued."
    sha: str | None = None


@dataclass(eq=False, slots=True, repr=False)
class Delivery:
    """One attempt to deliver one webhook. A redelivery has a new id and keeps the GUID.

    `status` and `status_code` are as GitHub's deliveries API shows them; a dropped delivery or one without an answer
    has status code 0. `payload` is the exact JSON text that was signed; `duration` is in seconds.
    """

    id: int
    guid: str
    app: App
    event: str
    action: str | None
    installation_id: int | None
    repository_id: int | None
    url: str
    payload: str
    request_headers: dict[str, str]
    redelivery: bool = False
    delivered_at: datetime | None = None
    duration: float = 0.0
    status: str = "pending"
    status_code: int = 0
    response_headers: dict[str, str] = field(default_factory=dict)
    response_body: str = ""


@dataclass(eq=False, slots=True, repr=False)
class State:
    """Everything there is."""

    users: dict[str, User] = field(default_factory=dict)
    """By lower-case login."""
    apps: dict[int, App] = field(default_factory=dict)
    app_codes: dict[str, AppCode] = field(default_factory=dict)
    """By code, until used."""
    device_codes: dict[str, DeviceCode] = field(default_factory=dict)
    """By the device's code, until used."""
    teams: dict[str, Team] = field(default_factory=dict)
    """By lower-case `organisation/slug`."""
    installations: dict[int, Installation] = field(default_factory=dict)
    repositories: dict[str, Repository] = field(default_factory=dict)
    """By lower-case full name."""
    organisation_rulesets: dict[int, Ruleset] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    """Oldest first."""
    signed: set[str] = field(default_factory=set)
    """SHAs of commits whose signature GitHub verified, besides those that it signs itself."""
    merge_requests: dict[str, MergeRequest] = field(default_factory=dict)
    """By UUID, oldest first."""
    last_id: dict[str, int] = field(default_factory=dict)

    def next_id(self, kind: str) -> int:
        """A number that no other record of this kind has; the kinds start far apart, so mixed-up ids never match."""
        start = 1000 * (sum(ord(letter) * (place + 1) for place, letter in enumerate(kind)) + 1)
        self.last_id[kind] = self.last_id.get(kind, start) + 1
        return self.last_id[kind]

    def installations_of(self, repository: Repository) -> Iterator[Installation]:
        """The installations that see this repository, oldest first."""
        return (installation for installation in self.installations.values() if installation.covers(repository))
