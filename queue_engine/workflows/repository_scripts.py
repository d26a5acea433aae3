"""Find the files of the repository that a step's commands run, and what these read of the event.

Names in the commands lead there: paths of scripts, files of build tools, scripts of `package.json`, and names in
these, with the modules that a script of Python or Ruby loads. What a program loads by itself is not read: test suites,
dependencies.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from posixpath import dirname, normpath
from typing import Any

from queue_engine.workflows.known_actions import SCRIPT
from queue_engine.workflows.script_reads import reads_context, reads_event

_ENDINGS = (
    r"(?:sh|bash|zsh|ksh|fish|ps1|psm1|bat|cmd|py|pyw|rb|rake|pl|php|lua|tcl|js|mjs|cjs|jsx|ts|mts|cts|tsx|groovy|kts?"
    r"|mk|nu|awk|exs|jl|R|go|rs|java|swift|csx?|fsx|scala|sc|dart|clj|hs|ml|cr|nim|zig|gradle|sbt|bats|cake|pm"
    r"|slnx?|[cfv][sb]proj|(?<!lock\.)ya?ml)(?:\.(?:in|j2|erb|tmpl|tpl|template))?"
)
"""Of scripts, of files of builds, and of templates of these."""
_PATH = re.compile(rf"(?<![\w:/.@+-])(?:\.{{0,2}}/)?(?:[\w.+@-]+/)*[\w.+@-]+\.{_ENDINGS}(?![\w/-]|\.\w)")
_BARE = re.compile(
    r"(?<![\w:/.@$}+-])(?:\.{1,2}/)?(?:[\w.+-]+/)+[\w+-]+(?![\w/.*@:+-])|(?<![\w:/.@$}+-])\./[\w+-]+(?![\w/*+-])"
)
"""A path without an ending, such as `./mvnw` or `script/test`."""
_RUN = re.compile(
    r"(?:<\s*|(?<![\w.-])(?:(?:ba|z|k|da)?sh|source|python3?|node|ruby|perl|\.(?=\s))\s+)"
    r"(?:-[\w-]+\s+){0,5}([\w./+-]{1,200})"
)
"""What a shell or an interpreter is given, whatever its name is."""
_FILE = re.compile(
    r"(?<!\S)(?:-f|--(?:make|just|task|build-)?file|--config|--rcfile)[ =][\"']?(?:\./)?([\w./+-]{1,200})"
)
"""What a program is given instead of its usual file."""
_MODULE = re.compile(r"(?<!\S)-m\s+([A-Za-z_][\w.]*)")
"""Of Python."""
_PACKAGE = re.compile(r"\bgo\s+run\s+(?:-\S+\s+){0,5}([\w./-]{1,200})")
"""Of Go: its program is in one of its files, by custom in `main.go`."""
_REQUIRED = re.compile(r"""(?:require|import|from)\s*\(?\s*["'](\.{1,2}/[\w./-]{1,200})["']""")
_REQUIRED_ENDINGS = (".js", ".cjs", ".mjs", ".ts", "/index.js")
"""What Node.js adds to the name of a module."""
_IMPORTED = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]{1,2000}|[^\n]{1,200})|import[ \t]+([^\n]{1,200}))",
    re.MULTILINE,
)
_PART = re.compile(r"<module>\s*([\w./-]{1,200})\s*</module>")
"""Of a build by Maven."""
_INCLUDED = re.compile(r"^\s*include\b([^\n]{1,1000}(?:,\s*\n[^\n]{1,1000}){0,50})", re.MULTILINE)
_QUOTED = re.compile(r"[\"']:?([\w:.-]{1,200})[\"']")
"""Of a build by Gradle."""
_RELATIVE = re.compile(r"""\brequire_relative\s*\(?\s*["']([\w./-]{1,200})["']""")
_WITHIN = re.compile(r"(?:\$\{\{[^}$]{0,200}\}\}|\$\{\w{1,50}\}|\$\w{1,50}|\$\([^()]{0,200}\))/")
"""A folder that a value names, such as `$GITHUB_WORKSPACE/`: the rest of the path is looked for in all folders."""
_BACKSLASH = re.compile(r"(?<=[\w.])\\(?=[\w.])")
_SETTING = re.compile(r"^\s*\$\{\{\s*(?:vars|secrets)\b[^}]{0,200}\}\}", re.MULTILINE)
"""A command that a setting has."""
_COMPUTED = re.compile(
    rf"(?<=[\w/-])(?:\$\{{\{{[^}}$]{{0,200}}\}}\}}|\$\{{\w{{1,50}}\}}|\$\w{{1,50}})[\w./-]{{0,100}}\.{_ENDINGS}(?![\w.-])"
)
"""A path with a value inside of its name, such as `./ci/${{ matrix.kind }}.sh`."""
_SELECTED = re.compile(
    r"(?:\bfor\s+\w+\s+in|(?<![\w./-])(?:(?:ba|z|k|da)?sh|source)|(?<!\S)\.)\s[^\n;|&]{0,100}\*[\w./-]{0,50}"
    r"\.(?:ba|z|k)?sh(?![\w.-])|[\w/-]{0,50}\*\.rake\b|(?<![\w-])run-parts\s[^\n;|&]{1,200}"
    r"|(?:\bxargs\b[^\n;|&]{0,100}|-exec(?:dir)?)\s(?:ba|z|k|da)?sh(?=\s*$|\s+\{\})",
    re.MULTILINE,
)
"""Scripts that a pattern or a list selects: `for each in ci/*.sh`."""
_TESTED = re.compile(r"(?<![\w./-])pytest\s([^\n;|&]{1,1000})")
_PROGRAM_OF_CARGO = re.compile(r"\brun\s[^\n;|&]{0,80}?(?:-p|--package|--bin)[ =]([\w-]{1,100})")
"""Also in an alias of `.cargo/config.toml`."""
_SUBMODULE = re.compile(r"^[ \t]*path[ \t]*=[ \t]*(\S+)", re.MULTILINE)
SUBMODULES = ".gitmodules"
_BUILDS: Mapping[str, str] = {
    "make": "Makefile makefile GNUmakefile",
    "gmake": "Makefile makefile GNUmakefile",
    "npm": "package.json",
    "npx": "package.json",
    "yarn": "package.json",
    "pnpm": "package.json",
    "bun": "package.json",
    "node": "package.json",
    "deno": "deno.json deno.jsonc",
    "jest": "jest.config.js jest.config.cjs jest.config.mjs jest.config.ts jest.config.json",
    "vitest": "vitest.config.ts vitest.config.mts vitest.config.js vite.config.ts vite.config.mts vite.config.js",
    "playwright": "playwright.config.ts playwright.config.js",
    "cypress": "cypress.config.ts cypress.config.js",
    "mocha": ".mocharc.js .mocharc.cjs .mocharc.json .mocharc.yml .mocharc.yaml",
    "karma": "karma.conf.js karma.conf.ts",
    "wdio": "wdio.conf.js wdio.conf.ts",
    "ava": "ava.config.js ava.config.mjs",
    "lefthook": "lefthook.yml .lefthook.yml",
    "rush": "common/config/rush/command-line.json",
    "gulp": "gulpfile.js gulpfile.mjs gulpfile.ts",
    "grunt": "Gruntfile.js",
    "turbo": "turbo.json",
    "nx": "nx.json",
    "just": "justfile Justfile .justfile",
    "task": "Taskfile.yml Taskfile.yaml",
    "rake": "Rakefile",
    "rspec": ".rspec spec/spec_helper.rb spec/rails_helper.rb",
    "rails": "test/test_helper.rb",
    "fastlane": "fastlane/Fastfile Fastfile",
    "phpunit": "phpunit.xml phpunit.xml.dist",
    "pest": "phpunit.xml phpunit.xml.dist tests/Pest.php",
    "mix": "mix.exs",
    "poe": "pyproject.toml",
    "rye": "pyproject.toml",
    "hatch": "pyproject.toml hatch.toml",
    "pdm": "pyproject.toml",
    "pixi": "pixi.toml pyproject.toml",
    "tox": "tox.ini tox.toml pyproject.toml",
    "nox": "noxfile.py",
    "pytest": "conftest.py tests/conftest.py",
    "py.test": "conftest.py tests/conftest.py",
    "gradle": "build.gradle build.gradle.kts settings.gradle settings.gradle.kts",
    "gradlew": "gradlew build.gradle build.gradle.kts settings.gradle settings.gradle.kts",
    "mvn": "pom.xml .mvn/maven.config",
    "mvnw": "pom.xml .mvn/maven.config",
    "ant": "build.xml",
    "sbt": "build.sbt",
    "mill": "build.mill build.sc",
    "dotnet": "Directory.Build.props Directory.Build.targets build.cake",
    "msbuild": "Directory.Build.props Directory.Build.targets",
    "cargo": "Makefile.toml build.rs .cargo/config.toml",
    "cmake": "CMakeLists.txt CMakePresets.json",
    "ctest": "CMakeLists.txt CMakePresets.json",
    "meson": "meson.build",
    "scons": "SConstruct",
    "earthly": "Earthfile",
    "nix": "flake.nix default.nix shell.nix",
    "mage": "magefile.go",
    "invoke": "tasks.py",
    "inv": "tasks.py",
    "Invoke-Build": ".build.ps1",
    "direnv": ".envrc",
    "golangci-lint": ".golangci.yml .golangci.yaml .golangci.toml .golangci.json",
    "golangci-lint-action": ".golangci.yml .golangci.yaml .golangci.toml .golangci.json",
    "melos": "melos.yaml",
    "flutter": "test/flutter_test_config.dart",
    "composer": "composer.json",
    "compose": "compose.yaml compose.yml docker-compose.yaml docker-compose.yml",
    "docker-compose": "compose.yaml compose.yml docker-compose.yaml docker-compose.yml",
    "podman-compose": "compose.yaml compose.yml docker-compose.yaml docker-compose.yml",
    "bake": "docker-bake.hcl docker-bake.json",
    "bake-action": "docker-bake.hcl docker-bake.json",
    "cibuildwheel": "pyproject.toml",
    "pre-commit": ".pre-commit-config.yaml",
    "mise": "mise.toml .mise.toml",
    "bazel": ".bazelrc",
    "bazelisk": ".bazelrc",
}
"""The files that programs read, by the names of these programs, and of actions that start them."""
_PROGRAM = re.compile(rf"(?<![\w-])(?:{'|'.join(_BUILDS)})(?![\w.-])")
_FOLDER = re.compile(
    r"(?:working-directory[\"']?:\s*|(?<![\w-])(?:cd|pushd)\s+|\s-C\s*|\s-w\s"
    r"|--(?:prefix|cwd|dir|directory|workspace)[ =])"
    r"[\"']?(?:\.?/)?([\w.+-]+(?:/[\w.+-]+)*)"
)
_CLONE = re.compile(r"\bgit\s+clone\s([^\n;&|]{1,1000})")
_PACKAGES = ("package.json", "composer.json", "deno.json")
_NAME = re.compile(r"[\w:.-]+\*?")
"""Of a script, or of several: `npm-run-all test:*`."""
_OF_PACKAGE = ("jest", "mocha", "ava", "wireit", "lint-staged")
"""Settings in `package.json` of programs that run scripts."""
_DATA = (".toml", ".xml", ".props", ".targets", "nx.json", "turbo.json", "CMakePresets.json")
"""Endings of files of settings, which name dependencies and plugins beside commands."""
_LIFECYCLE = ("preinstall", "install", "postinstall", "prepublish", "prepare", "test")
"""Scripts that npm runs without their names: `npm ci`, `npm t` (docs: "npm-scripts")."""
_MOST_FOLDERS = 20
_DEEPEST = 8


def folders_in(texts: Iterable[str]) -> list[str]:
    """Return the folders in which steps run commands, by the text of their files; the root is the first."""
    found = (normpath(each[1]) for text in texts for each in _FOLDER.finditer(text))
    return list(dict.fromkeys((".", *(each for each in found if not each.startswith("..")))))[:_MOST_FOLDERS]


def runs_within(step: Mapping[str, Any], default: object, brought: Collection[str]) -> str:
    """Return which folder of another repository a step runs commands of, or ""; also one that it clones itself."""
    commands = "\n".join(_texts({key: step[key] for key in ("run", "with", "shell") if key in step}))
    clones = (_cloned(found[1].split()) for found in _CLONE.finditer(commands))
    folder = step.get("working-directory", default)
    used = [*named_files(commands, (".",)), *folders_in([commands])[1:], *([] if folder is None else [str(folder)])]
    within = {f"{normpath(each)}/" for each in used}
    found = (
        each
        for each in (*brought, *clones)
        if (within and each == ".") or any(one.startswith(f"{each}/") for one in within)
    )
    return next(found, "")


def _cloned(words: list[str]) -> str:
    """Return the folder of a clone: the last word, or the name in an address."""
    last = next((each.strip("\"'") for each in reversed(words) if not each.startswith("-")), ".")
    return normpath(last.rstrip("/").rpartition("/")[2].removesuffix(".git") if ":" in last else last)


def named_files(text: str, folders: Collection[str]) -> list[str]:
    """Return the paths at which the files may be that commands name."""
    text = _WITHIN.sub("./", _BACKSLASH.sub("/", text))
    names = [found[0].lstrip("/") for found in (*_PATH.finditer(text), *_BARE.finditer(text))]
    names += [found[1].lstrip("/") for form in (_RUN, _FILE) for found in form.finditer(text)]
    names += [f"{found[1]}/main.go" for found in _PACKAGE.finditer(text)]
    names += [
        f"{found[1].removesuffix('.js')}{ending}" for found in _REQUIRED.finditer(text) for ending in _REQUIRED_ENDINGS
    ]
    for found in _PROGRAM_OF_CARGO.finditer(text):
        names += [f"{found[1]}/src/main.rs", f"crates/{found[1]}/src/main.rs", f"src/bin/{found[1]}.rs"]
    for found in _TESTED.finditer(text):
        given = (each.partition("::")[0].strip("\"'") for each in found[1].split() if not each.startswith("-"))
        names += [f"{dirname(each) if each.endswith('.py') else each}/conftest.py" for each in given]
    names += [
        f"{dirname(each)}/{name}"
        for each in names
        if each.endswith(("proj", ".sln", ".slnx"))
        for name in _BUILDS["msbuild"].split()
    ]
    for found in _MODULE.finditer(text):
        module = found[1].replace(".", "/")
        names += [f"{module}.py", f"{module}/__main__.py"]
    for found in _PROGRAM.finditer(text):
        names += _BUILDS[found[0]].split()
    paths = (normpath(f"{folder}/{name}") for name in dict.fromkeys(names) for folder in folders)
    return [each for each in dict.fromkeys(paths) if not each.startswith(("..", "/", ".git/"))]


def loaded_files(path: str, script: str) -> list[str]:
    """Return where modules of a script of Python or Ruby, or parts of a build, may be: beside it, or at the root."""
    names: list[str] = []
    if path.endswith(".py"):
        for package, listed, modules in _IMPORTED.findall(script):
            words = [each.split()[0] for each in (listed or modules).strip("(").split(",") if each.split()]
            within = f"{package.rstrip('.')}." if package.strip(".") else ""
            places = (each.strip(".").replace(".", "/") for each in (package, *(f"{within}{word}" for word in words)))
            names += [f"{each}{ending}" for each in places if each for ending in (".py", "/__init__.py")]
    if path.endswith((".rb", "Rakefile")):
        names += [f"{found.removesuffix('.rb')}.rb" for found in _RELATIVE.findall(script)]
    if path.endswith("pom.xml"):
        names += [each if each.endswith(".xml") else f"{each}/pom.xml" for each in _PART.findall(script)]
    if path.endswith(("settings.gradle", "settings.gradle.kts")):
        parts = (each.replace(":", "/") for found in _INCLUDED.findall(script) for each in _QUOTED.findall(found))
        names += [f"{each}/build.gradle{ending}" for each in parts for ending in ("", ".kts")]
    beside = dirname(path) or "."
    paths = [normpath(f"{folder}/{name}") for name in dict.fromkeys(names) for folder in (beside, ".")]
    return [each for each in dict.fromkeys(paths) if not each.startswith("..")]


@dataclass(frozen=True, slots=True)
class RepositoryScripts:
    """The files that commands of steps name, as far as a commit has them."""

    texts: Mapping[str, str] = field(default_factory=dict)
    """By path; empty for one of which GitHub shows no complete text."""
    folders: Collection[str] = (".",)
    """In which steps run commands."""

    def of_step(self, step: Mapping[str, Any], folder: object, beside: str) -> str:
        """Return which script of a step reads the event, or cannot be read, and why; "" for none.

        `folder`: where its commands run, as it is written; `beside`: the folder of its action.
        """
        folder = step.get("working-directory", folder)
        given = step.get("with")
        commands = [step.get("run"), *(given.get(name) for name in ("script", "command") if isinstance(given, dict))]
        if setting := next((found for each in commands if (found := _SETTING.search(str(each)))), None):
            return f"commands of a setting: `{setting[0].strip()}`"
        if "${{" in str(folder) and any(named_files(each, (".",)) for each in _texts(commands)):
            return f"scripts in a folder whose name is computed: `{folder}`"
        shown = {key: value for key, value in step.items() if key not in ("name", "id", "if")}
        # Its scripts may give `context` and `github` on.
        return self.reads(shown, beside, within_action=str(step.get("uses")).lower().startswith(f"{SCRIPT}@"))

    def reads(self, value: object, beside: str = ".", *, within_action: bool = False) -> str:
        """Return which script that a value names reads the event, or cannot be read, and why; "" for none."""
        return next(filter(None, (self._reads(each, beside, within_action) for each in _texts(value))), "")

    def _reads(self, text: str, beside: str, within_action: bool) -> str:
        if computed := _COMPUTED.search(text) or _SELECTED.search(text):
            return f"a script whose name is computed: `{computed[0]}`"
        submodules = [f"{normpath(each)}/" for each in _SUBMODULE.findall(self.texts.get(SUBMODULES, ""))]
        visited: set[str] = set()
        todo = [(path, text) for path in named_files(text, (*self.folders, beside))]
        while todo:
            path, named_by = todo.pop()
            if path not in self.texts and path.startswith(tuple(submodules)):
                return f"`{path}`, which a submodule brings"
            if path in visited or path not in self.texts:
                continue
            visited.add(path)
            if not self.texts[path].strip():
                return f"`{path}`, which IMQ cannot read"
            script = commands_of(path, self.texts[path], named_by)
            if found := reads_event(script, is_data=path.endswith(_DATA)) or (within_action and reads_context(script)):
                return f"`{path}`, which reads {found}"
            if selected := _SELECTED.search(script):
                return f"`{path}`, which runs scripts whose names are computed: `{selected[0]}`"
            named = named_files(script, (*self.folders, dirname(path) or "."))
            todo += [(each, script) for each in (*named, *loaded_files(path, script))]
        return ""


def commands_of(path: str, text: str, named_by: str) -> str:
    """Return the commands in a file: of a package, the scripts that the other text names, and those that they name."""
    if not path.endswith(_PACKAGES):
        return text
    try:
        read = json.loads(text)
        scripts = read.get("scripts") or read.get("tasks") or {}
        commands = {str(name): "\n".join(_texts(each)) for name, each in scripts.items()}
        settings = "\n".join(_texts([read.get(each) for each in _OF_PACKAGE]))
    except (ValueError, AttributeError, RecursionError):
        return text
    taken: dict[str, str] = {}
    words = {*_words(named_by), *_LIFECYCLE}
    for _ in range(_DEEPEST):
        beginnings = tuple(each.removesuffix("*").removeprefix("npm:") for each in words if each.endswith(("-*", ":*")))
        new = {
            name: command
            for name, command in commands.items()
            if name not in taken
            and ({name, name.removeprefix("pre"), name.removeprefix("post")} & words or name.startswith(beginnings))
        }
        if not new:
            break
        taken |= new
        words = {word for command in new.values() for word in _words(command)} | set(new)
    return "\n".join((*taken.values(), settings))


def _words(text: str) -> Iterator[str]:
    for each in _NAME.findall(text):
        yield from (each, each.removesuffix("*"))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
