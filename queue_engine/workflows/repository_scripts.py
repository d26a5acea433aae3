"""Find the files of the repository that a step's commands run, and what these read of the event.

Names in the commands lead there: paths of scripts, files of build tools, scripts of `package.json`, and names in
these. What a program loads by itself is not read: modules, test suites, dependencies.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from posixpath import dirname, normpath

from queue_engine.workflows.script_reads import reads_event

_ENDINGS = (
    r"(?:sh|bash|zsh|ksh|fish|ps1|psm1|bat|cmd|py|pyw|rb|rake|pl|php|lua|tcl|js|mjs|cjs|jsx|ts|mts|cts|tsx|groovy|kts|mk"
    r"|nu|awk|exs|jl|R)"
)
_PATH = re.compile(rf"(?<![\w:/.@+-])(?:\.{{0,2}}/)?(?:[\w.+@-]+/)*[\w.+@-]+\.{_ENDINGS}(?![\w/-]|\.\w)")
_BARE = re.compile(
    r"(?<![\w:/.@$}+-])(?:\.{1,2}/)?(?:[\w.+-]+/)+[\w+-]+(?![\w/.*@:+-])|(?<![\w:/.@$}+-])\./[\w+-]+(?![\w/*+-])"
)
"""A path without an ending, such as `./mvnw` or `script/test`."""
_MODULE = re.compile(r"(?<!\S)-m\s+([A-Za-z_][\w.]*)")
"""Of Python."""
_COMPUTED = re.compile(
    rf"(?<=[\w/-])(?:\$\{{\{{[^}}$]{{0,200}}\}}\}}|\$\{{\w{{1,50}}\}}|\$\w{{1,50}})[\w./-]{{0,100}}\.{_ENDINGS}(?![\w.-])"
)
"""A path with a value inside of its name, such as `./ci/${{ matrix.kind }}.sh`."""
_BUILDS: Mapping[str, str] = {
    "make": "Makefile makefile GNUmakefile",
    "npm": "package.json",
    "npx": "package.json",
    "yarn": "package.json",
    "pnpm": "package.json",
    "bun": "package.json",
    "node": "package.json",
    "deno": "deno.json deno.jsonc",
    "just": "justfile Justfile .justfile",
    "task": "Taskfile.yml Taskfile.yaml",
    "rake": "Rakefile",
    "tox": "tox.ini",
    "nox": "noxfile.py",
    "pytest": "conftest.py tests/conftest.py",
    "gradle": "build.gradle build.gradle.kts settings.gradle settings.gradle.kts",
    "gradlew": "gradlew build.gradle build.gradle.kts settings.gradle settings.gradle.kts",
    "mage": "magefile.go",
    "invoke": "tasks.py",
    "composer": "composer.json",
}
"""The files that programs read, by the names of these programs."""
_PROGRAM = re.compile(rf"(?<![\w-])(?:{'|'.join(_BUILDS)})(?![\w.-])")
_FOLDER = re.compile(
    r"(?:working-directory[\"']?:\s*|(?<![\w-])(?:cd|pushd)\s+|\s-C\s*|--(?:prefix|cwd|dir|directory)[ =])"
    r"[\"']?(?:\.?/)?([\w.+-]+(?:/[\w.+-]+)*)"
)
_PACKAGES = ("package.json", "composer.json", "deno.json")
_LIFECYCLE = ("preinstall", "install", "postinstall", "prepublish", "prepare", "test")
"""Scripts that npm runs without their names: `npm ci`, `npm t` (docs: "npm-scripts")."""
_MOST_FOLDERS = 20
_DEEPEST = 8


def folders_in(texts: Iterable[str]) -> list[str]:
    """Return the folders in which steps run commands, by the text of their files; the root is the first."""
    found = (normpath(each[1]) for text in texts for each in _FOLDER.finditer(text))
    return list(dict.fromkeys((".", *(each for each in found if not each.startswith("..")))))[:_MOST_FOLDERS]


def named_files(text: str, folders: Collection[str]) -> list[str]:
    """Return the paths at which the files may be that commands name."""
    names = [found[0].lstrip("/") for found in (*_PATH.finditer(text), *_BARE.finditer(text))]
    for found in _MODULE.finditer(text):
        module = found[1].replace(".", "/")
        names += [f"{module}.py", f"{module}/__main__.py"]
    for found in _PROGRAM.finditer(text):
        names += _BUILDS[found[0]].split()
    paths = (normpath(f"{folder}/{name}") for name in dict.fromkeys(names) for folder in folders)
    return [each for each in dict.fromkeys(paths) if not each.startswith(("..", "/", ".git/"))]


@dataclass(frozen=True, slots=True)
class RepositoryScripts:
    """The files that commands of steps name, as far as a commit has them."""

    texts: Mapping[str, str] = field(default_factory=dict)
    """By path; empty for one of which GitHub shows no complete text."""
    folders: Collection[str] = (".",)
    """In which steps run commands."""

    def reads(self, value: object, folder: object = None) -> str:
        """Return which script that a value names reads the event, or cannot be read, and why; "" for none.

        `folder`: where its commands run, as it is written.
        """
        texts = list(_texts(value))
        if "${{" in str(folder) and any(named_files(each, (".",)) for each in texts):
            return f"scripts in a folder whose name is computed: `{folder}`"
        return next(filter(None, map(self._reads, texts)), "")

    def _reads(self, text: str) -> str:
        if computed := _COMPUTED.search(text):
            return f"a script whose name is computed: `{computed[0]}`"
        visited: set[str] = set()
        todo = [(path, text) for path in named_files(text, self.folders)]
        while todo:
            path, named_by = todo.pop()
            if path in visited or path not in self.texts:
                continue
            visited.add(path)
            if not self.texts[path].strip():
                return f"`{path}`, which IMQ cannot read"
            script = commands_of(path, self.texts[path], named_by)
            if found := reads_event(script):
                return f"`{path}`, which reads {found}"
            todo += [(each, script) for each in named_files(script, (*self.folders, dirname(path) or "."))]
        return ""


def commands_of(path: str, text: str, named_by: str) -> str:
    """Return the commands in a file: of a package, the scripts that the other text names, and those that they name."""
    if not path.endswith(_PACKAGES):
        return text
    try:
        read = json.loads(text)
        scripts = read.get("scripts") or read.get("tasks") or {}
        commands = {str(name): "\n".join(_texts(each)) for name, each in scripts.items()}
    except (ValueError, AttributeError, RecursionError):
        return text
    taken: dict[str, str] = {}
    words = {*re.findall(r"[\w:.-]+", named_by), *_LIFECYCLE}
    for _ in range(_DEEPEST):
        new = {
            name: command
            for name, command in commands.items()
            if name not in taken and {name, name.removeprefix("pre"), name.removeprefix("post")} & words
        }
        if not new:
            break
        taken |= new
        words = {word for command in new.values() for word in re.findall(r"[\w:.-]+", command)} | set(new)
    return "\n".join(taken.values())


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
