"""`imq convert`: find another queue's configuration in a clone, convert it, and report on every value."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from bot.cli.console import CommandRefused, echo
from bot.cli.convert import bors, kodiak, mergify, rulesets
from bot.cli.convert.conversion import Conversion, Source, Verdict, shown_place, shown_value
from queue_engine.config.document import ConfigError, Place, Problem, parse
from queue_engine.config.parse import decoded

OUTPUT = Path(".github/imq.yml")

PLACES: Mapping[str, str] = {
    ".mergify.yml": "Mergify",
    ".mergify/config.yml": "Mergify",
    ".github/mergify.yml": "Mergify",
    ".kodiak.toml": "Kodiak",
    ".github/.kodiak.toml": "Kodiak",
    "bors.toml": "bors",
    ".github/bors.toml": "bors",
}
"""Where each product looks for its configuration, and whose it is."""

_CONVERTERS: Mapping[str, Callable[[Source], Conversion]] = {
    "Mergify": mergify.convert,
    "Kodiak": kodiak.convert,
    "bors": bors.convert,
    "GitHub": rulesets.convert,
}
_LONGEST = 256 * 1024


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path, allow_dash=True), default=OUTPUT, show_default=True,
              help="Where to write; - prints the file, and the report on stderr.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, with the file's text.")
def convert(file: Path | None, output: Path, force: bool, as_json: bool) -> None:
    """Convert another queue's configuration to IMQ's, and say what became of each value.

    FILE is Mergify's .mergify.yml, Kodiak's .kodiak.toml, bors.toml, or a ruleset of GitHub as JSON. Without it the
    command looks where those products do. The exit code is 2 if nothing could be converted; then nothing is written.
    """
    path = file if file is not None else _only_file()
    made = converted(path)
    text = made.text()
    printed = str(output) == "-"
    if not printed:
        _write(output, text, force=force)
    if as_json:
        echo(
            json.dumps(as_data(made, text, None if printed else str(output)), indent=2, ensure_ascii=False, default=str)
        )
        return
    if printed:
        echo(text.removesuffix("\n"))
    echo(as_text(made, None if printed else output), err=printed)


def converted(path: Path) -> Conversion:
    """Read a file and convert it. Raises CommandRefused for one that cannot be."""
    try:
        with path.open("rb") as opened:
            content = opened.read(_LONGEST + 1)
    except OSError as error:
        raise CommandRefused(f"{path} cannot be read: {error.strerror}. Name the file to convert.") from None
    try:
        if len(content) > _LONGEST:
            raise ConfigError([Problem(1, "", f"The file is longer than {_LONGEST // 1024} KiB.")])
        source = _read(path, decoded(content))
        return _CONVERTERS[source.product](source)
    except ConfigError as error:
        problem = error.problems[0]
        raise CommandRefused(f"{path}, {problem} Nothing was written: correct it, and convert again.") from None


def _only_file() -> Path:
    """Find the file in the present folder. Raises CommandRefused where there is none, or several."""
    found = [place for place in PLACES if Path(place).is_file()]
    if not found:
        raise CommandRefused(f"No file to convert here: looked for {', '.join(PLACES)}. Name it: `imq convert FILE`.")
    if len(found) > 1:
        raise CommandRefused(f"Several files to convert are here: {', '.join(found)}. Name one: `imq convert FILE`.")
    return Path(found[0])


def _read(path: Path, text: str) -> Source:
    if path.suffix == ".json":
        value, lines = _json(text)
        return Source(str(path), "GitHub", value, lines)
    if path.suffix == ".toml":
        toml = _toml(text)
        product = "bors" if "kodiak" not in path.name and not {"version", "merge"} & set(toml) else "Kodiak"
        return Source(str(path), product, toml, _toml_lines(text))
    if path.suffix not in (".yml", ".yaml"):
        raise ConfigError([Problem(1, "", "Its name says not whose it is: it has to end in .yml, .toml or .json.")])
    document = parse(text, longest=_LONGEST)
    # Mergify follows merge keys, which a file of IMQ may not have.
    if problems := [each for each in document.problems if "(<<)" not in each.sentence]:
        raise ConfigError(problems)
    return Source(str(path), "Mergify", _section(_merged(document.value)), document.lines)


def _section(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise ConfigError([Problem(1, "", "The file has no keys with values, so there is nothing to convert.")])
    return value


def _merged(value: Any) -> Any:
    """Resolve merge keys: a section's own keys count before those that it takes over."""
    if isinstance(value, list):
        return [_merged(each) for each in value]
    if not isinstance(value, dict):
        return value
    own = {key: _merged(each) for key, each in value.items() if key != "<<"}
    taken = _merged(value.get("<<"))
    for each in taken if isinstance(taken, list) else [taken]:
        own |= {key: given for key, given in each.items() if key not in own} if isinstance(each, dict) else {}
    return own


def _json(text: str) -> tuple[dict[str, Any], Mapping[Place, int]]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError([Problem(error.lineno, "", f"This is not JSON: {error.msg}.")]) from None
    except RecursionError:
        raise ConfigError([Problem(1, "", "It has too many levels.")]) from None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict) or not isinstance(value.get("rules"), list):
        way = "export one with `gh api repos/{owner}/{repo}/rulesets/ID`."
        raise ConfigError([Problem(1, "", f"This is not one ruleset of GitHub, which has `rules`: {way}")])
    try:
        return value, parse(text, longest=_LONGEST).lines
    except ConfigError:
        # JSON may be indented by tabs, which YAML does not allow.
        return value, {}


def _toml(text: str) -> dict[str, Any]:
    try:
        return _section(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        words, _, place = str(error).partition(" (at ")
        line = re.search(r"line (\d+)", place)
        number = int(line[1]) if line else max(1, len(text.splitlines()))
        raise ConfigError([Problem(number, "", f"This is not TOML: {words}.")]) from None
    except RecursionError:
        raise ConfigError([Problem(1, "", "It has too many levels.")]) from None


_TABLE = re.compile(r"\s*\[+\s*([\w.-]+)\s*\]")
_KEY = re.compile(r"\s*([\w.-]+)\s*=")


def _toml_lines(text: str) -> dict[Place, int]:
    """Return the line of each key, as far as it stands at the beginning of one."""
    lines: dict[Place, int] = {}
    table: Place = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _TABLE.match(line):
            table = tuple(found[1].split("."))
            lines.setdefault(table, number)
        elif found := _KEY.match(line):
            lines.setdefault((*table, *found[1].split(".")), number)
    return lines


def _write(output: Path, text: str, *, force: bool) -> None:
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("w" if force else "x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise CommandRefused(f"{output} is there: replace it with --force, or print with `--output -`.") from None
    except OSError as error:
        raise CommandRefused(f"{output} cannot be written: {error.strerror}. Choose another --output.") from None


def as_data(made: Conversion, text: str, output: str | None) -> dict[str, Any]:
    """Return the report as data."""
    return {
        "source": made.source.path,
        "product": made.source.product,
        "output": output,
        "configuration": text,
        "values": [
            {
                "place": shown_place(place),
                "line": made.source.line(place),
                "value": value,
                "verdict": str(found.verdict),
                "key": found.key,
                "text": found.text,
            }
            for place, value, found in made.answers()
        ],
        "command": made.rule_command(),
        "notes": made.notes,
    }


def as_text(made: Conversion, output: Path | None) -> str:
    """Format the report: the values by verdict, those with the same answer together."""
    answers = made.answers()
    counts = {verdict: sum(found.verdict is verdict for *_, found in answers) for verdict in Verdict}
    what = "would become" if output is None else "became"
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    parts = [f"{made.source.path} ({made.source.product}) {what} {output or OUTPUT}: {summary}."]
    for verdict in Verdict:
        together: dict[tuple[str, str], list[str]] = {}
        for place, value, found in answers:
            if found.verdict is verdict:
                line = f"line {made.source.line(place)}: {shown_place(place)} = {shown_value(value)}"
                together.setdefault((found.key, found.text), []).append(line)
        parts += [f"\n{str(verdict).capitalize()}"] if together else []
        for (key, text), lines in together.items():
            parts += [f"  {line}" for line in lines]
            answer = " ".join(filter(None, (f"`{key}`." if key else "", text)))
            parts += [f"      {answer}"] if answer else []
    if command := made.rule_command():
        parts.append(f"\nFor what is elsewhere, an administrator runs this in the clone:\n\n{command}")
    if made.notes:
        parts.append("\n".join(["\nAlso:", *(f"- {note}" for note in made.notes)]))
    if output is not None:
        parts.append(f"\nNext: read {output}, run `imq validate {output}`, and start with `mode: shadow` if you like.")
    return "\n".join(parts)
