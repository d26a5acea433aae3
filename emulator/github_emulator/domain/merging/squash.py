"""The two ways of landing that rewrite commits: squash's one message, rebase's replayed commits."""

from collections.abc import Sequence

from github_emulator.core.git import Commit, Git, Signature
from github_emulator.state import PullRequest


def squash_message(pull: PullRequest, commits: Sequence[Commit], title: str | None, message: str | None) -> str:
    """GitHub's default: one commit keeps its own message, several (merges too) are listed under the pull's title.

    Authors other than the pull request's get a `Co-authored-by` trailer.
    """
    alone = len(commits) == 1
    heading = title or f"{commits[0].title if alone else pull.title} (#{pull.number})"
    if message is None:
        message = commits[0].body if alone else "\n\n".join(f"* {commit.message.strip()}" for commit in commits)
        others = dict.fromkeys(f"{commit.author.name} <{commit.author.email}>" for commit in commits)
        others.pop(f"{pull.author.login} <{pull.author.email}>", None)
        trailers = "\n".join(f"Co-authored-by: {other}" for other in others)
        rule = "" if alone else "---------\n\n"
        message = f"{message}\n\n{rule}{trailers}".strip() if trailers else message
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
