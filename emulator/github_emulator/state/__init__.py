"""The one state from which every answer and every webhook derives: plain records, no behaviour.

Records refer to each other directly, compare by identity, and are changed only by `github_emulator.domain`. Times are
aware and in UTC.
"""

from github_emulator.state.accounts import ROLES, Actor, App, AppCode, DeviceCode, Team, User
from github_emulator.state.checks import CommitStatus, Workflow
from github_emulator.state.conversation import AutoMerge, Comment, IssueEvent, Label, Reaction, Review, Thread
from github_emulator.state.repositories import (
    Activity,
    Artifact,
    CheckRun,
    CheckSuite,
    PullRequest,
    Repository,
    Stack,
    WorkflowRun,
)
from github_emulator.state.rules import METHODS, Protection, RequiredCheck, ReviewRule, Ruleset
from github_emulator.state.state import Delivery, Installation, MergeRequest, State

ZERO_SHA = "0" * 40
"""What GitHub writes where there is no commit."""

__all__ = [
    "Artifact",
    "ROLES",
    "Actor",
    "App",
    "AppCode",
    "DeviceCode",
    "Installation",
    "Team",
    "User",
    "Activity",
    "CheckRun",
    "CheckSuite",
    "CommitStatus",
    "Workflow",
    "WorkflowRun",
    "AutoMerge",
    "Comment",
    "IssueEvent",
    "Label",
    "PullRequest",
    "Reaction",
    "Review",
    "Thread",
    "Repository",
    "Protection",
    "RequiredCheck",
    "METHODS",
    "ReviewRule",
    "Ruleset",
    "MergeRequest",
    "Stack",
    "Delivery",
    "State",
    "ZERO_SHA",
]
