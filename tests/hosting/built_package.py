"""Building the packages of this clone, as `pip wheel` does: IMQ's, the demo's and the emulator's."""

import shutil
import subprocess
import sys
from pathlib import Path

from docs.generate import ROOT

FOLDERS = ("bot", "notifications", "queue_engine")
FILES = ("pyproject.toml", "README.md", "LICENSE", "app.yml")


PROJECTS = {"demo": "imq_demo", "emulator": "github_emulator"}
"""The package in the folder of each other project."""


def build(directory: Path, project: str = "") -> Path:
    """Build a project's of a copy of its folder in `directory`, by the same call to setuptools; return its file.

    Without a name it is IMQ's, of a copy of all that stands beside it in the clone, but for its tests.
    """
    folders, files = (FOLDERS + tuple(PROJECTS), FILES) if not project else ((project,), ())
    for folder in folders:
        left_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
        shutil.copytree(ROOT / folder, directory / folder, ignore=left_out)
    for file in files:
        shutil.copy(ROOT / file, directory)
    directory /= project
    call = "from setuptools.build_meta import build_wheel; build_wheel('dist')"
    subprocess.run([sys.executable, "-c", call], cwd=directory, check=True, capture_output=True)
    (built,) = (directory / "dist").iterdir()
    return built
