"""A GitHub on real git, in a process or as a server, to test GitHub Apps without GitHub.

What this package exports is its face, which follows semantic versions. Everything below it is private and may change at
any time. README.md begins with an example.

- `GitHub` is one GitHub with its accounts, repositories and Apps; it has a clock, a seed and real git repositories.
  `create_repository` returns a `RepositoryHandle`, `open_pull_request` a `PullRequestHandle`: people act by them.
- `EmulatorServer` serves it over HTTP: REST, GraphQL, and the pages on which people install and authorize an App.
- `Fault`, `Lag`, `Limits` and `WebhookFaults` make it as bad as GitHub can be. `Behaviour` has a switch for each answer
  of which sources disagree, `Timings` how long GitHub takes for what it does by itself.
- `CI` and `WorkflowRunner` test commits as a CI does.

Times are aware and in UTC, durations are `timedelta` of the emulator's clock. What GitHub refuses raises an `ApiError`
with the status and message of its REST API, also in the process.

The packages form layers, lowest first: `core`, `state`, `events`, `domain`, `payloads`, `webhooks` beside `ci`,
`facade`, `callers`, `graphql` beside `website`, `rest`. Each imports only what stands below it. May not live here:
anything of a program that uses the emulator.
"""

from github_emulator.callers.errors import DropConnection
from github_emulator.callers.limits import Limits
from github_emulator.ci.single_check import CI, CISettings
from github_emulator.ci.workflow_runner import WorkflowRunner
from github_emulator.ci.workflows import Job, Trigger
from github_emulator.core.behaviour import ABSENT_FROM_ENTERPRISE_SERVER, ENTERPRISE_SERVERS, Behaviour
from github_emulator.core.clock import Clock, ManualClock, SystemClock
from github_emulator.core.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, NotMergeable
from github_emulator.core.event_permissions import EVENT_PERMISSIONS
from github_emulator.core.git import Signature
from github_emulator.core.keys import KeyPair
from github_emulator.core.timings import Timings
from github_emulator.domain.checks.checks import CheckRunFields
from github_emulator.domain.pulls.pulls import PullRequestOptions
from github_emulator.facade.github import GitHub
from github_emulator.facade.pull_request_handle import PullRequestHandle
from github_emulator.facade.repository_handle import RepositoryHandle
from github_emulator.facade.rule_settings import ProtectionSettings, RulesetSettings
from github_emulator.rest.faults import Fault, FaultKind
from github_emulator.rest.lag import READ_KINDS, Lag, ReadKind
from github_emulator.rest.record import RecordedCall, Requests
from github_emulator.rest.reply import Reply
from github_emulator.rest.server import EmulatorServer
from github_emulator.state import (
    Activity,
    Actor,
    App,
    CheckRun,
    Comment,
    CommitStatus,
    Installation,
    PullRequest,
    Repository,
    Review,
    ReviewRule,
    Team,
    User,
    WorkflowRun,
)
from github_emulator.webhooks.faults import ResponseFault, WebhookFaults

__version__ = "0.1.0"

__all__ = [
    "GitHub",
    "RepositoryHandle",
    "PullRequestHandle",
    "EmulatorServer",
    "Clock",
    "ManualClock",
    "SystemClock",
    "ProtectionSettings",
    "RulesetSettings",
    "PullRequestOptions",
    "CheckRunFields",
    "Signature",
    "KeyPair",
    "EVENT_PERMISSIONS",
    "CI",
    "CISettings",
    "WorkflowRunner",
    "Job",
    "Trigger",
    "ABSENT_FROM_ENTERPRISE_SERVER",
    "ENTERPRISE_SERVERS",
    "Behaviour",
    "Timings",
    "Limits",
    "Fault",
    "FaultKind",
    "Lag",
    "ReadKind",
    "READ_KINDS",
    "WebhookFaults",
    "ResponseFault",
    "DropConnection",
    "Requests",
    "RecordedCall",
    "Reply",
    "ApiError",
    "Conflict",
    "Forbidden",
    "Invalid",
    "NotFound",
    "NotMergeable",
    "Activity",
    "Actor",
    "App",
    "CheckRun",
    "Comment",
    "CommitStatus",
    "Installation",
    "PullRequest",
    "Repository",
    "Review",
    "ReviewRule",
    "Team",
    "User",
    "WorkflowRun",
]
