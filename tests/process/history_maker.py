"""A clone with a history made by real git, of landings as GitHub makes them, sound and wrong ones."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

GITHUB = ("GitHub", "noreply@github.com")
MONA = ("Mona", "mona@example.com")


class HistoryMaker:
    """A clone whose branch `main` receives landings. Pull requests are refs, as in a mirror clone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._second = 0
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        self.commit({"README.md": "read me\n", "app.py": "".join(f"line {n}\n" for n in range(40))}, "Begin")

    def git(self, *arguments: str, committer: tuple[str, str] = MONA, given: str | None = None) -> str:
        """Run git, each time a second later."""
        self._second += 1
        date = f"{1_750_000_000 + self._second} +0000"
        environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.path),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": MONA[0],
            "GIT_AUTHOR_EMAIL": MONA[1],
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_NAME": committer[0],
            "GIT_COMMITTER_EMAIL": committer[1],
            "GIT_COMMITTER_DATE": date,
        }
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, env=environ, input=given, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def sha(self, name: str) -> str:
        """The object of a name."""
        return self.git("rev-parse", name)

    def commit(self, files: Mapping[str, str | None], subject: str) -> str:
        """Commit files, None for one to delete, on what is checked out."""
        for name, content in files.items():
            file = self.path / name
            if content is None:
                file.unlink()
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", subject)
        return self.sha("HEAD")

    def changed(self, line: int) -> dict[str, str]:
        """The file `app.py` of what is checked out, with a line changed."""
        lines = (self.path / "app.py").read_text().splitlines(keepends=True)
        lines[line] = f"changed {line}\n"
        return {"app.py": "".join(lines)}

    def pull_request(self, number: int, *commits: Mapping[str, str | None], base: str = "main") -> str:
        """Make a pull request's commits on a base, and its ref; the head."""
        self.git("checkout", "-q", "--detach", base)
        for position, files in enumerate(commits):
            head = self.commit(files, f"Part {position} of {number}")
        self.git("update-ref", f"refs/pull/{number}/head", head)
        self.git("checkout", "-q", "main")
        return head

    def merge(self, number: int) -> str:
        """Land a pull request by a merge."""
        subject = f"Merge pull request #{number} from mona/branch"
        self.git("merge", "-q", "--no-ff", "-m", subject, f"refs/pull/{number}/head", committer=GITHUB)
        return self.sha("HEAD")

    def squash(self, number: int) -> str:
        """Land a pull request by a squash."""
        self.git("merge", "-q", "--squash", f"refs/pull/{number}/head")
        self.git("commit", "-q", "-m", f"Squash (#{number})", committer=GITHUB)
        return self.sha("HEAD")

    def rebase(self, number: int) -> list[str]:
        """Land a pull request by a rebase; its new commits."""
        before = self.sha("HEAD")
        self.git("cherry-pick", f"main..refs/pull/{number}/head", committer=GITHUB)
        return self.git("rev-list", "--reverse", f"{before}..HEAD").split()

    def tree_of_merge(self, base: str, head: str) -> str:
        """The tree that git makes of two commits."""
        return self.git("merge-tree", "--write-tree", base, head)

    def tree_with(self, tree: str, path: str, blob: str) -> str:
        """A tree with another blob at a path."""
        self.git("read-tree", tree)
        self.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
        return self.git("write-tree")

    def land(self, tree: str, subject: str, parents: Sequence[str] = ("main",)) -> str:
        """Land any tree, as a faulty queue does."""
        given = [part for each in parents for part in ("-p", self.sha(each))]
        commit = self.git("commit-tree", tree, *given, "-m", subject, committer=GITHUB)
        self.git("reset", "-q", "--hard", commit)
        return commit
