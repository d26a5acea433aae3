"""Signatures of commits, as GitHub shows them."""

from github_emulator.core.git import Commit
from github_emulator.state import State


def verified(state: State, commit: Commit) -> bool:
    """Whether GitHub shows a commit's signature as verified: its author's, or its own on what it commits itself."""
    return commit.sha in state.signed or commit.committer.email == "noreply@github.com"
