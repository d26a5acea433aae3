"""The one state from which every answer and every webhook derives: plain records, no behaviour.

Records refer to each other directly, compare by identity, and are changed only by the modules of `sandbox` that carry
the verbs (refs, pulls, merging, conversation, checks, rules). Times are aware and in UTC.
"""

from sandbox.state.accounts import ROLES, Actor, App, Installation, User
from sandbox.state.checks import CheckRun, CheckSuite, CommitStatus, Workflow, WorkflowRun
from sandbox.state.pulls import AutoMerge, Comment, IssueEvent, Label, PullRequest, Reaction, Review, Thread
from sandbox.state.repositories import Repository
from sandbox.state.rules import METHODS, Protection, RequiredCheck, ReviewRule, Ruleset
from sandbox.state.stacks import MergeRequest, Stack
from sandbox.state.world import Delivery, State

ZERO_SHA = "0" * 40
"""What GitHub writes where there is no commit."""

__all__ = [
    "ROLES",
    "Actor",
    "App",
    "Installation",
    "User",
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
