"""Read and write the file `.env`, which completes the environment of commands."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

NAME = ".env"


def read(path: Path) -> dict[str, str]:
    """Return the variables in the file; none if it is missing. Raises OSError for a file that cannot be read."""
    if not path.is_file():
        return {}
    from dotenv import dotenv_values

    found = dotenv_values(path, interpolate=False, encoding="utf-8")
    return {name: value for name, value in found.items() if value is not None}


def environment(environ: Mapping[str, str], path: Path) -> dict[str, str]:
    """Return `environ`, completed by the file: a variable that is set and not empty counts more than a line there."""
    found = read(path)
    return found | {name: value for name, value in environ.items() if value.strip() or name not in found}


def conflicts(path: Path, names: Iterable[str]) -> list[str]:
    """Return the names that have a value in the file."""
    found = read(path)
    return [name for name in names if found.get(name, "").strip()]


def write(path: Path, values: Mapping[str, str]) -> None:
    """Set variables, without spaces or quotes, in a file of its owner alone, in one step. Raises OSError."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    kept = [line for line in lines if _name(line) not in values]
    text = "".join(f"{line}\n" for line in (*kept, *(f"{name}={value}" for name, value in values.items())))
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _name(line: str) -> str:
    return line.partition("=")[0].strip().removeprefix("export ").strip()
