"""Building IMQ's package, as `pip wheel` does."""

import shutil
import subprocess
import sys
from pathlib import Path

from docs.generate import ROOT

FOLDERS = ("bot", "notifications", "queue_engine")
FILES = ("pyproject.toml", "README.md", "LICENSE", "app.yml")


def build(directory: Path) -> Path:
    """Build it of a copy of the sources in `directory`, by the same call to setuptools; return its file."""
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, directory / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy(ROOT / file, directory)
    call = "from setuptools.build_meta import build_wheel; build_wheel('dist')"
    subprocess.run([sys.executable, "-c", call], cwd=directory, check=True, capture_output=True)
    (built,) = (directory / "dist").iterdir()
    return built
