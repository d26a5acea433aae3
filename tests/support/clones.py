"""A person's clone of a repository of the emulator, whose remotes have the addresses that people use."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from github_emulator import GitHub

_PERSON = {"GIT_AUTHOR_NAME": "Mona", "GIT_AUTHOR_EMAIL": "mona@example.com"}
_COMMITTER = {"GIT_COMMITTER_NAME": "Mona", "GIT_COMMITTER_EMAIL": "mona@example.com"}


@dataclass(frozen=True)
class PersonsClone:
    """A clone, and the folder in which it is."""

    folder: Path

    def git(self, *arguments: str) -> str:
        """Run git there, with no settings of this machine."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env={**environ, **_PERSON, **_COMMITTER},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def fetch(self, branch: str) -> None:
        """Check a branch out as GitHub has it now."""
        self.git("fetch", "--quiet", "storage", f"+refs/heads/{branch}:refs/remotes/storage/{branch}")
        self.git("checkout", "--quiet", "-B", branch, f"refs/remotes/storage/{branch}", "--no-track")

    def commit(self) -> str:
        """Commit locally; return the SHA."""
        self.git("commit", "--quiet", "--allow-empty", "--message", "Local work")
        return self.git("rev-parse", "HEAD")


def clone_of(github: GitHub, full_name: str, folder: Path, *, origin: str) -> PersonsClone:
    """Clone a repository from the emulator's disk; `origin` is the address that the remote shows."""
    folder.mkdir(parents=True)
    made = PersonsClone(folder)
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("remote", "add", "storage", str(github.directory / f"{full_name}.git"))
    made.git("remote", "add", "origin", origin)
    made.fetch("main")
    return made
