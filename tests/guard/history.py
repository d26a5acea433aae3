"""`python -m tests.guard.history FOLDER`: every line that a commit ever added, in files of their names below a folder.

A secret that was committed and taken out again is known to everybody who clones. The scan for secrets reads files, so
it gets one for each name, with the added lines of all commits.
"""

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

LOG = ("git", "log", "-p", "-U0", "--no-renames", "--no-color", "--format=", "--", ".", ":!.secrets.baseline")


def added_lines(log: Iterable[bytes]) -> dict[str, list[bytes]]:
    """The lines that a log of patches adds to each file, oldest last."""
    found, name = defaultdict[str, list[bytes]](list), ""
    for line in log:
        if line.startswith(b"diff --git "):
            name = ""
        elif not name and line.startswith(b"+++ b/"):
            name = line[6:].strip().decode(errors="replace")
        elif name and line.startswith(b"+"):
            found[name].append(line[1:])
    return dict(found)


def main(folder: Path) -> None:
    """Write the files."""
    with subprocess.Popen(LOG, stdout=subprocess.PIPE) as log:
        assert log.stdout is not None
        found = added_lines(log.stdout)
    assert log.returncode == 0, "git log failed"
    for name, lines in found.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
