"""The two ways of landing that rewrite commits: squash's one message, rebase's replayed commits."""

from collections.abc import Sequence

from sandbox.git import Commit, Git, Signature
from sandbox.state import PullRequest


def squash_message(pull: PullRequest, commits: Sequence[Commit], title: str | None, message: str | None) -> str:
    """GitHub's default: one commit keeps its own message, several are listed under the pull request's title."""
    own = [commit for commit in commits if len(commit.parents) < 2]
    heading = title or f"{own[0].title if len(own) == 1 else pull.title} (#{pull.number})"
    if message is None:
        message = own[0].body if len(own) == 1 else "\n\n".join(f"* {commit.message.strip()}" for commit in own)
    return f"{heading}\n\n{message}" if message else heading


def rebased(git: Git, tip: str, commits: Sequence[Commit], committer: Signature) -> str | None:
    """Replay commits (oldest first) onto `tip`, leaving merge commits out; None when one conflicts or none is left."""
    onto = tip
    for commit in commits:
        if len(commit.parents) > 1:
            continue
        tree = git.replay_tree(commit.sha, onto)
        if tree is None:
            return None
        if tree != git.tree(onto):
            onto = git.write_commit(tree, (onto,), commit.message, commit.author, committer)
    return None if onto == tip else onto
