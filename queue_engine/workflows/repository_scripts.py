"""Find the files of the repository that a step's commands run, and what these read of the event.

The list of a commit's files decides: a word in the commands may be the path of one, or the name of a program that loads
one by that name, such as `jest.config.ts` or `Taskfile.yml`. These files name others in the same way, with the modules
that a script of Python, Ruby, Go or Rust loads. Test suites, dependencies and the product itself are not read.
"""

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from itertools import takewhile
from posixpath import dirname, normpath
from typing import Any

from queue_engine.workflows.known_actions import SCRIPT
from queue_engine.workflows.script_reads import reads_context, reads_event

_ENDINGS = (
    r"(?:sh|bash|zsh|ksh|fish|ps1|psm1|bat|cmd|py|pyw|rb|rake|pl|php|lua|tcl|js|mjs|cjs|jsx|ts|mts|cts|tsx|groovy|kts?"
    r"|mk|mak|nu|awk|exs|jl|R|go|rs|java|swift|csx?|fsx|scala|sc|dart|clj|hs|ml|cr|nim|nims|zig|gradle|sbt|bats|cake|pm"
    r"|just|cmake|nix|bzl|slnx?|[cfv][sb]proj|(?<!lock\.)ya?ml)(?:\.(?:in|j2|erb|tmpl|tpl|template|dist))?"
)
"""Of scripts, of files of builds, and of templates of these."""
_SCRIPT = re.compile(
    rf"(?:[^/]*/)*(?:(?!(?:LICEN[CS]E|COPYING|NOTICE|AUTHORS|CHANGELOG)[\w-]*$)\.?[^./]+|[^/]*\.{_ENDINGS}"
    r"|(?:[\w-]+\.)*[A-Z][a-z]+file(?:\.[\w-]+)*)"
)
"""A path with such an ending, or with none that is no prose."""
_BARE = re.compile(rf"(.*[^/.][^/]*?)\.{_ENDINGS}")
_CONFIGURATION = re.compile(
    r"\.([\w-]+?)(?:rc|file)?(?:\.[\w.-]+)?|([a-z][\w-]*?)[-_.]?files?(?:\.(?:dist|js|cjs|mjs|ts|py|rb|go|php|kts|toml|ya?ml|json)){0,2}"
    r"|([a-z][\w-]*?)[._-](?:conf|config|configuration|setup|workspace)(?:\.\w+)+"
    r"|([a-z][\w-]*)(?:\.dist)?\.(?:json5?|jsonc|ya?ml|toml|ini|cfg|neon|hcl|kdl|edn|xml)(?:\.dist)?",
    re.IGNORECASE,
)
"""What a program loads by its own name: `.mocharc.js`, `Rakefile`, `jest.config.ts`, `turbo.json`."""
_TOKEN = re.compile(r"[\w.+@/~-]+")
_WORD = re.compile(r"[a-z][\w+-]*", re.IGNORECASE)
_RUN = re.compile(
    r"(?:<\s*|(?<![\w.-])(?:(?:ba|z|k|da)?sh|source|python3?|node|ruby|perl|tclsh|expect|lua|\.(?=\s))\s+)"
    r"(?:-[\w-]+\s+){0,5}[\"']?([\w./+-]{1,200})"
)
"""What a shell or an interpreter is given, whatever its name is."""
_FILE = re.compile(
    r"(?<!\S)(?:-[a-zA-Z]|--[\w-]*(?:file|config|conf|configuration|rc|script|require|import|loader|preset|settings?))"
    r"[ =]?[\"']?(?:\./)?([\w./+-]{1,200})"
)
"""What a program is given instead of its usual file, or loads first."""
_MODULE = re.compile(r"(?<![\w-])-[mp]\s+([A-Za-z_][\w.]*)")
"""Of Python."""
_PACKAGE = re.compile(r"\bgo\s+run\s+(?:-\S+\s+){0,5}([\w./-]{1,200})")
"""Of Go: all files of the folder are its program."""
_IMPORTED = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]{1,2000}|[^\n]{1,200})|import[ \t]+([^\n]{1,200}))",
    re.MULTILINE,
)
_PLUGINS = re.compile(r"\bpytest_plugins\s*(?::[^=\n]{1,100})?=\s*([^\n]{1,500}(?:,\s*\n[^\n]{1,500}){0,50})")
_OF_TOOLS = re.compile(r"^\s*plugins\s*=\s*(\[[^\]]{1,1000}|[^\n]{1,200})", re.MULTILINE)
"""Of coverage and mypy."""
_OF_GO = re.compile(r"\"([\w.-]+(?:/[\w.-]+)+)\"")
_OF_RUST = re.compile(r"^\s*(?:pub(?:\([^)]{1,50}\))?\s+)?mod\s+(\w+)\s*;", re.MULTILINE)
_OF_JUST = re.compile(r"^\s*mod\??\s+(\w+)\s*$", re.MULTILINE)
_ENTRY_POINT = re.compile(r"^\s*\"?([\w.-]+)\"?\s*=\s*[\"']?([\w.]+):\w", re.MULTILINE)
"""A command that a package of Python installs."""
_INCLUDED = re.compile(r"^\s*include\b([^\n]{1,1000}(?:,\s*\n[^\n]{1,1000}){0,50})", re.MULTILINE)
_BUILD = re.compile(r"\bincludeBuild\b\s*\(?\s*[\"'](?:\./)?([\w./-]{1,200})[\"']")
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
    r"\.(?:ba|z|k)?sh(?![\w.-])|(?<![\w-])run-parts\s[^\n;|&]{1,200}"
    r"|(?:\bxargs\b[^\n;|&]{0,100}|-exec(?:dir)?)\s(?:ba|z|k|da)?sh(?=\s*$|\s+\{\})",
    re.MULTILINE,
)
"""Scripts that a pattern or a list selects: `for each in ci/*.sh`."""
_ON_PATH = re.compile(r"^.*(?:\bGITHUB_PATH\b|(?<!\w)(?:env:)?PATH\s*=).*$", re.MULTILINE | re.IGNORECASE)
"""A folder that is added there: commands name its programs without a path."""
_TESTED = re.compile(r"(?<![\w./-])pytest\s([^\n;|&]{1,1000})")
_PROGRAM_OF_CARGO = re.compile(r"\brun\s[^\n;|&]{0,80}?(?:-p|--package|--bin|--example)[ =]([\w-]{1,100})")
"""Also in an alias of `.cargo/config.toml`."""
_OF_DOTNET = re.compile(r"\bdotnet\s+run\b[^\n;|&]{0,200}?(?:-p|--project)[ =][\"']?(?:\./)?([\w./-]{1,200})")
_WORKSPACES = re.compile(
    r"(?<!\S)(?:-w|-ws|--workspaces?|-r|--recursive|-F|--filter)(?![\w-])|\byarn\s+workspaces?\b"
    r"|(?<![\w./@-])(?:turbo|lerna|nx|rush|rushx|lage|wsrun|ultra|moon|preconstruct)(?![\w.-])"
)
_IN_WORKSPACES = ("**/package.json", "**/project.json", "**/moon.yml")
_OF_PACKAGES = re.compile(r"(?<![\w./-])(?:npm|npx|pnpm|yarn|bun|turbo|lerna|nx|rush|lage|wsrun|ultra|moon)(?![\w.-])")
_DEPENDS = re.compile(r"\"dependsOn\"\s*:\s*\[([^\]]{0,2000})\]")
_SOURCES = (".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".go", ".rs", ".rb", ".java", ".kt", ".cs")
"""Endings of scripts whose words are not those of commands: they load modules by statements."""
_OF_TASKS = ("turbo.json", "nx.json", "lage.config.js")
"""They name scripts of the packages of a workspace."""
_SUBMODULE = re.compile(r"^[ \t]*path[ \t]*=[ \t]*(\S+)", re.MULTILINE)
SUBMODULES = ".gitmodules"
_TABLE = re.compile(r"^(?=[ \t]*\[)", re.MULTILINE)
_OF_LISTS = re.compile(
    r"\s*\[+(?:tool\.(?:(?:ruff|black|isort|codespell|pyright|coverage)\b[\w.-]*|flit\.(?:module|sdist|scripts)"
    r"|hatch\.build\.targets\.\w+|setuptools\.(?:packages\.find|package-data)|uv\.sources"
    r"|poetry\.(?:scripts|urls|extras|(?:group\.[\w-]+\.)?dependencies))"
    r"|project(?:\.(?:(?:gui-)?scripts|urls|optional-dependencies))?|dependency-groups|lib|test|bench)\]+(?=\s)"
    r"(?!.*\bplugins\b)",
    re.DOTALL,
)
"""Tables of what a package is and needs, of files that are looked at or packed, and of the product and its tests in
Cargo.toml: they start no script.

Commands that a package installs are followed where something names them.
"""
_PACKED = re.compile(r"^\s*(?:include|exclude)\s*=\s*\[[^\]]*\]", re.MULTILINE)
_PROJECT = re.compile(r"^\[project\][^\[]*?^name\s*=\s*[\"']([\w.-]+)", re.MULTILINE | re.DOTALL)
_WITHOUT_SCRIPTS = re.compile(r"(?:.*/)?\.golangci\.\w+")
"""It names files, and runs none."""
_CONTEXT_OF_BUILD = re.compile(r"(?:[^/]*/)*(?:[\w.-]*\.)?(?:Docker|Container)file(?:[._-][\w.-]+)?")
"""Commands in such a file run apart, without the variables of the step."""
_PYTHON = "pyproject.toml setup.py setup.cfg"
_GRADLE = (
    "gradlew **/*.gradle **/*.gradle.kts gradle.properties **/buildSrc/** buildSrc/** **/build-logic/** build-logic/**"
)
_DOTNET = (
    "**/Directory.Build.props **/Directory.Build.targets **/Directory.Packages.props **/*.targets build.cake "
    "**/*.csproj **/*.fsproj **/*.vbproj"
)
_COMPOSE = "compose.yaml compose.yml docker-compose*.yaml docker-compose*.yml"
_LOADS: Mapping[str, str] = {
    "make gmake": "Makefile makefile GNUmakefile",
    "npm npx yarn pnpm bun node": "package.json .pnpmfile.cjs pnpm-workspace.yaml",
    "deno": "deno.jsonc",
    "vitest": "vite.config.*",
    "rush": "common/config/rush/command-line.json",
    "wtr": "web-test-runner.config.*",
    "ng": "angular.json karma.conf.js",
    "ember": "ember-cli-build.js testem.js",
    "nps": "package-scripts.*",
    "storybook": ".storybook/main.*",
    "husky": ".husky/*",
    "bundle": "Gemfile",
    "rake": "rakelib/*.rake lib/tasks/*.rake",
    "rspec": "spec/spec_helper.rb spec/rails_helper.rb",
    "rails": "test/test_helper.rb",
    "cucumber": "features/support/env.rb",
    "fastlane": "fastlane/Fastfile",
    "phpunit pest": "phpunit.xml phpunit.xml.dist tests/bootstrap.php tests/Pest.php",
    "php": "artisan",
    "robo": "RoboFile.php",
    "phing ant": "build.xml",
    "mix": "mix.exs test/test_helper.exs config/*.exs",
    "rebar3": "rebar.config rebar.config.script",
    "build-and-inspect-python-package": f"{_PYTHON} hatch_build.py",
    "poe rye hatch pdm uv poetry pixi tox pytest py.test cibuildwheel": "pyproject.toml hatch_build.py",
    "pipenv": "Pipfile",
    "pytest py.test tox nox": "conftest.py **/conftest.py",
    "invoke inv": "tasks.py tasks/*.py",
    "doit": "dodo.py",
    "duty": "duties.py",
    "snakemake": "Snakefile workflow/Snakefile",
    "behave": "**/environment.py",
    "sphinx-build": "**/conf.py",
    "gradle gradlew": _GRADLE,
    "mvn mvnw": "**/pom.xml .mvn/*",
    "sbt": "build.sbt project/*.sbt project/*.scala project/*.properties",
    "mill": "build.mill build.sc **/package.mill",
    "lein": "project.clj",
    "clojure clj": "deps.edn",
    "bb": "bb.edn",
    "dotnet msbuild": _DOTNET,
    "nuke": "build/**",
    "Invoke-Build": "*.build.ps1 .build.ps1",
    "psake": "psakefile.ps1 default.ps1",
    "cargo": "Makefile.toml **/build.rs .cargo/config.toml .config/nextest.toml",
    "cmake ctest": "**/CMakeLists.txt **/*.cmake CMakePresets.json",
    "meson": "**/meson.build",
    "scons": "SConstruct **/SConscript",
    "waf": "wscript **/wscript",
    "conan": "conanfile.py",
    "premake5": "premake5.lua",
    "xmake": "xmake.lua",
    "zig": "build.zig",
    "swift": "Package.swift",
    "nimble": "*.nimble",
    "stack cabal": "Setup.hs package.yaml stack.yaml",
    "dune": "dune-project dune **/dune",
    "Rscript R": ".Rprofile",
    "earthly": "Earthfile",
    "nix": "*.nix nix/**",
    "devenv": "devenv.nix",
    "go": "**/main_test.go",
    "mage": "*.go magefiles/*.go",
    "direnv": ".envrc",
    "golangci-lint golangci-lint-action": ".golangci.yml .golangci.yaml .golangci.toml .golangci.json",
    "flutter": "test/flutter_test_config.dart",
    "dart": "dart_test.yaml build.yaml",
    "compose docker-compose podman-compose": _COMPOSE,
    "docker podman buildah build-push-action kaniko": "Dockerfile Containerfile",
    "bake bake-action": "docker-bake.hcl docker-bake.json docker-bake.override.*",
    "pre-commit prek": ".pre-commit-config.yaml",
    "bazel bazelisk": ".bazelrc .bazelversion **/*.bzl WORKSPACE WORKSPACE.bazel MODULE.bazel",
    "buck2": ".buckconfig",
    "jekyll": "_config.yml",
    "foreman overmind hivemind": "Procfile",
    "molecule": "**/molecule.yml",
    "ansible-playbook": "ansible.cfg",
    "terragrunt": "**/terragrunt.hcl",
}
"""What programs load whose names are not in the names of these files; `_CONFIGURATION` finds the others."""
_OF_PROGRAM: dict[str, list[str]] = defaultdict(list)
for _programs, _loaded in _LOADS.items():
    for _program in _programs.split():
        _OF_PROGRAM[_program] += _loaded.split()
_PROGRAM = re.compile(
    rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(_OF_PROGRAM, key=len, reverse=True)))})(?![\w.-])"
)
_RUNNERS = re.compile(r"(?<![\w./-])(?:poe|pdm|hatch|rye|pixi|tox|mise|cargo|mvnw?|msbuild|dotnet)(?![\w.-])")
"""Programs that run commands of files of settings."""
_INSTALLED = re.compile(
    r"\bpip3?\s+install\b[^\n;|&]*\s[\"']?(?:-e\s*|--editable[ =])?[\"']?\.{1,2}(?=[\[/\"'\s]|$)"
    r"|\bpython3?\s+-m\s+build\b",
    re.MULTILINE,
)
"""The repository's own package of Python: its set-up runs."""
_BEGINNINGS = (
    *("index.js", "index.mjs", "index.cjs", "index.ts", "__main__.py", "sitecustomize.py", "usercustomize.py"),
    *("package.json", "pom.xml", "build.rs", "Taskfile.yml", "Taskfile.yaml", "justfile", "mod.just", "Makefile"),
    *("CMakeLists.txt", "meson.build", "SConscript", "conftest.py", "Dockerfile", "build.gradle", "build.gradle.kts"),
    *("default.nix", "setup.py"),
)
"""The files of a named folder by which a program begins there."""
_OF_ROOT = ("index.js", "__main__.py", "sitecustomize.py", "usercustomize.py")
_JUDGED_APART = re.compile(r"\.github/workflows/.*|(?:.*/)?action\.ya?ml")
_LEFT_OUT = re.compile(r"(?:^|/)(?:node_modules|vendor|third_party|testdata|fixtures)/")
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
_DATA = (
    ".toml",
    ".xml",
    ".props",
    ".targets",
    "nx.json",
    "turbo.json",
    "CMakePresets.json",
    ".pre-commit-config.yaml",
    "conf.py",
)
"""Endings of files of settings, which name dependencies and plugins beside commands."""
_LIFECYCLE = ("preinstall", "install", "postinstall", "prepublish", "prepare", "test")
"""Scripts that npm runs without their names: `npm ci`, `npm t` (docs: "npm-scripts")."""
_MOST_FOLDERS = 20
_MOST_VISITED = 3_000
_DEEPEST = 8


def folders_in(texts: Iterable[str]) -> list[str]:
    """Return the folders in which steps run commands, by the text of their files; the root is the first."""
    found = (normpath(each[1]) for text in texts for each in _FOLDER.finditer(text))
    return list(dict.fromkeys((".", *(each for each in found if not each.startswith("..")))))[:_MOST_FOLDERS]


def folders_of(texts: Mapping[str, str]) -> list[str]:
    """Return the folders in which workflows and scripts of shells run commands, by their texts."""
    return folders_in(text for path, text in texts.items() if not path.endswith((*_SOURCES, *_DATA)))


def runs_within(step: Mapping[str, Any], default: object, brought: Collection[str]) -> str:
    """Return which folder of another repository a step runs commands of, or ""; also one that it clones itself."""
    commands = "\n".join(_texts({key: step[key] for key in ("run", "with", "shell") if key in step}))
    clones = (_cloned(found[1].split()) for found in _CLONE.finditer(commands))
    folder = step.get("working-directory", default)
    used = [*folders_in([commands])[1:], *([] if folder is None else [str(folder)])]
    within = {f"{normpath(each)}/" for each in (*_scripts(commands), *used)}
    starts = bool(within) or _PROGRAM.search(commands) is not None
    found = (
        each
        for each in (*brought, *clones)
        if (starts and each == ".") or any(one.startswith(f"{each}/") for one in within)
    )
    return next(found, "")


def _cloned(words: list[str]) -> str:
    """Return the folder of a clone: the last word, or the name in an address."""
    last = next((each.strip("\"'") for each in reversed(words) if not each.startswith("-")), ".")
    return normpath(last.rstrip("/").rpartition("/")[2].removesuffix(".git") if ":" in last else last)


def _tokens(text: str) -> list[str]:
    """Return the words of commands that may be paths, each once."""
    text = _WITHIN.sub("./", _BACKSLASH.sub("/", text.replace("<rootDir>", ".")))
    found = (
        each[each.find("./") :] if each.startswith("-") and "./" in each else each for each in _TOKEN.findall(text)
    )
    return [each.lstrip("/").removesuffix(".") or "." for each in dict.fromkeys(found)]


class RepositoryFiles:
    """The files of a commit, and which of them a text names or a program loads by its own name."""

    def __init__(self, paths: Iterable[str] | None) -> None:
        """`paths`: those of all files; None where GitHub does not list all of them."""
        self.is_complete = paths is not None
        self._sorted = sorted(each for each in paths or () if not _JUDGED_APART.fullmatch(each))
        self._paths = frozenset(self._sorted)
        self._bare: dict[str, list[str]] = defaultdict(list)
        """By the path without the ending of a script."""
        self._by_name: dict[str, list[str]] = defaultdict(list)
        self._configurations: dict[str, list[tuple[str, str]]] = defaultdict(list)
        """By their folder, with the program that loads each."""
        self._folders = {"."}
        self._found: dict[str, Sequence[str]] = {}
        self._named: dict[tuple[str, Collection[str], bool, bool], list[str]] = {}
        for path in self._sorted:
            folder, _, name = path.rpartition("/")
            self._by_name[name].append(path)
            if bare := _BARE.fullmatch(path):
                self._bare[bare[1]].append(path)
            if found := _CONFIGURATION.fullmatch(name):
                program = next(filter(None, found.groups())).lower()
                self._configurations[folder or "."].append((program, path))
            while folder and folder not in self._folders:
                self._folders.add(folder)
                folder = dirname(folder)
        # A package of Cargo has it beside its own file (The Cargo Book, "Build Scripts"); others only have its name.
        packages = [each for each in self._by_name["build.rs"] if f"{each[:-8]}Cargo.toml" in self._paths]
        self._by_name["build.rs"] = packages
        last = (each.rpartition("/")[2] for each in (*self._bare, *self._folders))
        self._names = {*self._by_name, *last}

    def named(self, text: str, folders: Collection[str], path: str = "", *, is_data: bool = False) -> list[str]:
        """Return the files that commands in these folders name, or that their programs load; `path`: of a script."""
        key = text, tuple(folders), is_data, is_data or path.endswith(_SOURCES)
        if key not in self._named:
            self._named[key] = self._find_named(*key)
        return self._named[key]

    def _find_named(self, text: str, folders: Collection[str], is_data: bool, is_source: bool) -> list[str]:
        tokens = _tokens(text)
        found = [path for each in tokens for path in self._of_token(each, folders, is_source)]
        given = [each[1].lstrip("/") for form in (_RUN, _FILE) for each in form.finditer(text)]
        patterns = [*given, *([] if is_data else self._of_programs(text))]
        if not is_source:
            # The text of a program may quote commands.
            patterns += [name for each in _MODULE.finditer(text) for name in _modules(each[1])]
            modules = [
                name for each in tokens if "." in each and "/" not in each for name in _modules(each.strip("."))[:3]
            ]
            found += [path for each in modules for folder in folders for path in self._find(folder, each)]
        found += [path for each in dict.fromkeys(patterns) for folder in folders for path in self._find(folder, each)]
        words = set[str]() if is_data else {each.lower() for each in _WORD.findall(text)}
        for folder in folders:
            for place in (folder, normpath(f"{folder}/.config")):
                found += [path for program, path in self._configurations.get(place, ()) if program in words]
        if _WORKSPACES.search(text) and _OF_PACKAGES.search(text):
            found += [path for each in _IN_WORKSPACES for path in self._find(".", each)]
        return [each for each in dict.fromkeys(found) if not each.endswith(".lock")]

    def _of_programs(self, text: str) -> Iterator[str]:
        for name in dict.fromkeys(_PROGRAM.findall(text)):
            yield from _OF_PROGRAM[name]
        for found in _PACKAGE.finditer(text):
            yield from (found[1], f"{found[1]}/*.go")
        for found in _PROGRAM_OF_CARGO.finditer(text):
            name = found[1]
            yield from (f"**/{name}/src/main.rs", f"**/src/bin/{name}.rs", f"**/src/bin/{name}/main.rs")
            yield f"**/examples/{name}.rs"
        for found in _OF_DOTNET.finditer(text):
            yield f"{dirname(found[1]) if found[1].endswith('proj') else found[1]}/**"
        for found in _TESTED.finditer(text):
            given = (each.partition("::")[0].strip("\"'") for each in found[1].split() if not each.startswith("-"))
            yield from (f"{dirname(each) if each.endswith('.py') else each}/conftest.py" for each in given)
        if _INSTALLED.search(text):
            yield from _PYTHON.split()
        added = (normpath(each) for line in _ON_PATH.findall(text) for each in _tokens(line))
        yield from (f"{each}/*" for each in added if each != "." and each in self._folders)

    def _of_token(self, token: str, folders: Collection[str], is_source: bool) -> Iterator[str]:
        """Yield the script at this path, or the files by which programs begin in this folder."""
        name = token.rpartition("/")[2]
        if name not in self._names and name not in (".", "..") and name.removesuffix(".js") not in self._names:
            return
        for folder in folders:
            path = normpath(f"{folder}/{token}")
            if path in self._paths and _SCRIPT.fullmatch(path):
                yield path
            elif "/" in token:
                yield from self._bare.get(path, self._bare.get(path.removesuffix(".js"), ()))
            if path in self._folders and not (is_source and not token.startswith(".")):
                beginnings = _OF_ROOT if path == "." else _BEGINNINGS
                yield from (each for name in beginnings if (each := normpath(f"{path}/{name}")) in self._paths)

    def _find(self, folder: str, pattern: str) -> Sequence[str]:
        """Return the files that a pattern names: `**/` is anywhere, and a `/**` at its end all scripts below."""
        path = pattern if pattern.startswith("**/") else normpath(f"{folder}/{pattern}")
        if "*" not in path:
            return (path,) if path in self._paths else ()
        if path not in self._found:
            self._found[path] = [each for each in self._matching(path) if not _LEFT_OUT.search(each)]
        return self._found[path]

    def _matching(self, path: str) -> Iterator[str]:
        if path.startswith("**/") and not path.endswith("/**"):
            last = path.rpartition("/")[2]
            form = re.compile(translate(last))
            names = (last,) if "*" not in last else [each for each in self._by_name if form.match(each)]
            ending = path.removeprefix("**")
            found = (each for name in names for each in self._by_name.get(name, ()))
            yield from (each for each in found if "*" in last or f"/{each}".endswith(ending))
            return
        if path.startswith("**/"):
            yield from (each for each in self._sorted if path[2:-2] in f"/{each}" and _SCRIPT.fullmatch(each))
            return
        begin = path.partition("*")[0]
        form = re.compile(translate(path).replace(".*", "[^/]*")) if not path.endswith("/**") else _SCRIPT
        below = takewhile(lambda each: each.startswith(begin), self._sorted[bisect_left(self._sorted, begin) :])
        yield from filter(form.fullmatch, below)

    def loaded(self, path: str, script: str, named_by: str) -> list[str]:
        """Return what a script or a part of a build loads: modules beside it or at the root, and other parts."""
        names: list[str] = []
        if path.endswith(".py"):
            for package, listed, modules in _IMPORTED.findall(script):
                words = [each.split()[0] for each in (listed or modules).strip("(").split(",") if each.split()]
                within = f"{package.rstrip('.')}." if package.strip(".") else ""
                found = (each.strip(".") for each in (package, *(f"{within}{word}" for word in words)))
                # What is in `src` is the product.
                names += [name for each in found if each for name in _modules(each)[:3]]
            plugins = (each for listed in _PLUGINS.findall(script) for each in _QUOTED.findall(listed))
            names += [name for each in plugins for name in _modules(each)]
        elif path.endswith((".rb", "Rakefile", "Gemfile")):
            names += [f"{found.removesuffix('.rb')}.rb" for found in _RELATIVE.findall(script)]
            if "*.rake" in script:
                return [*self._of(names, path), *(each for each in self._sorted if each.endswith(".rake"))]
        elif path.endswith(".rs"):
            names += [name for each in _OF_RUST.findall(script) for name in (f"{each}.rs", f"{each}/mod.rs")]
        elif path.endswith(".go"):
            names += self._packages_of_go(script)
        elif path.endswith((".gradle", ".gradle.kts")):
            parts = (each.replace(":", "/") for found in _INCLUDED.findall(script) for each in _QUOTED.findall(found))
            names += [f"{each}/build.gradle{ending}" for each in parts for ending in ("", ".kts")]
            names += [f"{each}/**" for each in _BUILD.findall(script)]
        elif path.lower().endswith("justfile") or path.endswith(".just"):
            names += [name for each in _OF_JUST.findall(script) for name in (f"{each}.just", f"{each}/mod.just")]
        elif path.endswith(("pyproject.toml", "setup.cfg")):
            own = commands_of(path, script, named_by) if _RUNNERS.search(named_by) else ""
            named = {*_words(named_by), *_words(own)}
            points = [module for name, module in _ENTRY_POINT.findall(script) if name in named]
            points += [each for listed in _OF_TOOLS.findall(script) for each in _QUOTED.findall(listed)]
            names += [name for each in points for name in _modules(each)]
        elif path.endswith(_OF_TASKS):
            return self.named(_tasks(script), (".",))
        return self._of(names, path)

    def _of(self, names: Iterable[str], path: str) -> list[str]:
        """Return the files that these names are of, beside this one and at the root."""
        places = (dirname(path) or ".", ".")
        return [found for name in dict.fromkeys(names) for folder in places for found in self._find(folder, name)]

    def _packages_of_go(self, script: str) -> Iterator[str]:
        """Yield the files of the packages that a program imports: the folders by which their names end."""
        for name in _OF_GO.findall(script):
            parts = name.split("/")
            ends = ("/".join(parts[place:]) for place in range(1, len(parts)))
            if folder := next((each for each in ends if each in self._folders), None):
                yield f"{folder}/*.go"


def _tasks(script: str) -> str:
    """Return commands for the tasks that others need."""
    return "\n".join(("turbo", *_DEPENDS.findall(script)))


def _modules(name: str) -> list[str]:
    """Return where a module of Python may be."""
    path = name.replace(".", "/")
    return [f"{root}{path}{end}" for root in ("", "src/") for end in (".py", "/__init__.py", "/__main__.py")]


@dataclass(frozen=True, slots=True)
class RepositoryScripts:
    """The files that commands of steps name, as far as they were read."""

    texts: Mapping[str, str] = field(default_factory=dict)
    """By path; empty for one of which GitHub shows no complete text."""
    folders: Collection[str] = (".",)
    """In which steps run commands."""
    files: RepositoryFiles = field(default_factory=lambda: RepositoryFiles(()))
    _answers: dict[tuple[str, str, bool], tuple[str, list[tuple[str, str]]]] = field(default_factory=dict)
    """What is known of a script: why it reads the event, and which others it reaches."""

    def of_step(self, step: Mapping[str, Any], folder: object, beside: str) -> str:
        """Return which script of a step, run in `folder`, reads the event or cannot be read, and why; "" for none."""
        folder = step.get("working-directory", folder)
        given = step.get("with")
        commands = [step.get("run"), *(given.get(name) for name in ("script", "command") if isinstance(given, dict))]
        if setting := next((found for each in commands if (found := _SETTING.search(str(each)))), None):
            return f"commands of a setting: `{setting[0].strip()}`"
        if "${{" in str(folder) and any(map(_starts_programs, _texts(commands))):
            return f"scripts in a folder whose name is computed: `{folder}`"
        if not self.files.is_complete and commands != [None]:
            return "commands in a repository with more files than GitHub lists"
        shown = {key: value for key, value in step.items() if key not in ("name", "id", "if")}
        # Its scripts may give `context` and `github` on.
        return self.reads(shown, beside, within_action=str(step.get("uses")).lower().startswith(f"{SCRIPT}@"))

    def reads(self, value: object, beside: str = ".", *, within_action: bool = False) -> str:
        """Return which script that a value names reads the event, or cannot be read, and why; "" for none."""
        return next(filter(None, (self._reads(each, beside, within_action) for each in _texts(value))), "")

    def reached(self, path: str, named_by: str) -> list[str]:
        """Return the files that a script names or loads."""
        if _WITHOUT_SCRIPTS.fullmatch(path):
            return []
        script = commands_of(path, self.texts[path], named_by)
        folders = tuple(dict.fromkeys((*self.folders, dirname(path) or ".")))
        # A file of settings names programs beside dependencies: only a program that runs its commands starts them.
        is_data = path.endswith(_DATA) and _RUNNERS.search(named_by) is None
        named = self.files.named(script, folders, path, is_data=is_data)
        loaded = self.files.loaded(path, self.texts[path] if path.endswith("pyproject.toml") else script, named_by)
        own = self._product()
        if path.endswith(".py") and not path.startswith(own):
            loaded = [each for each in loaded if not each.startswith(own)]
        return [*named, *loaded]

    def _product(self) -> str:
        """Return the folder of the package that the repository makes; programs that only import it are not it."""
        found = _PROJECT.search(self.texts.get("pyproject.toml", ""))
        return f"{found[1].lower().replace('-', '_').replace('.', '/')}/" if found else "/"

    def _reads(self, text: str, beside: str, within_action: bool) -> str:
        if computed := _COMPUTED.search(text) or _SELECTED.search(text):
            return f"a script whose name is computed: `{computed[0]}`"
        folders = tuple(dict.fromkeys((*self.folders, beside)))
        visited: set[tuple[str, str, bool]] = set()
        if brought := self._of_submodule(text, folders):
            return f"`{brought}`, which a submodule brings"
        todo = [(path, text) for path in self.files.named(text, folders)]
        while todo:
            path, named_by = todo.pop()
            # What a package runs depends on who names it.
            key = path, named_by if path.endswith((*_PACKAGES, *_OF_TASKS, *_PYTHON.split())) else "", within_action
            if key in visited:
                continue
            visited.add(key)
            if len(visited) > _MOST_VISITED:
                return f"`{path}`, which IMQ cannot read"
            if key not in self._answers:
                self._answers[key] = self._answer(path, named_by, within_action)
            why, reached = self._answers[key]
            if why:
                return why
            todo += reached
        return ""

    def _answer(self, path: str, named_by: str, within_action: bool) -> tuple[str, list[tuple[str, str]]]:
        """Return why a script may read the event, or ""; and the files that it reaches, each with what names it."""
        if not self.texts.get(path, "").strip():
            return f"`{path}`, which IMQ cannot read", []
        script = commands_of(path, self.texts[path], named_by)
        if found := _read_by(path, script) or (reads_context(script) if within_action else ""):
            return f"`{path}`, which reads {found}", []
        if selected := _SELECTED.search(script):
            return f"`{path}`, which runs scripts whose names are computed: `{selected[0]}`", []
        if brought := self._of_submodule(script, (*self.folders, dirname(path) or ".")):
            return f"`{brought}`, which a submodule brings", []
        # A program's text mentions the product, whose commands it does not start.
        names = _tasks(script) if path.endswith(_OF_TASKS) else "" if path.endswith(".py") else script
        return "", [(each, names) for each in self.reached(path, named_by)]

    def _of_submodule(self, text: str, folders: Collection[str]) -> str:
        """Return what commands name, or load, in a submodule; ""."""
        submodules = tuple(f"{normpath(each)}/" for each in _SUBMODULE.findall(self.texts.get(SUBMODULES, "")))
        if not submodules:
            return ""
        within = (each for each in folders if f"{each}/".startswith(submodules))
        if (folder := next(within, None)) and _starts_programs(text):
            return folder
        paths = (normpath(f"{folder}/{each}") for each in _scripts(text) for folder in folders)
        return next((each for each in paths if each.startswith(submodules)), "")


def _scripts(text: str) -> Iterator[str]:
    """Yield the paths in commands, which have a slash, or the ending of a script."""
    yield from (each for each in _tokens(text) if _SCRIPT.fullmatch(each) and ("/" in each or "." in each[1:]))


def _starts_programs(text: str) -> bool:
    """Whether commands name a script, or a program that loads files."""
    return _PROGRAM.search(text) is not None or any(_scripts(text))


def _read_by(path: str, script: str) -> str:
    return reads_event(
        script, path, is_data=path.endswith(_DATA), is_apart=_CONTEXT_OF_BUILD.fullmatch(path) is not None
    )


def commands_of(path: str, text: str, named_by: str) -> str:
    """Return the commands in a file: of a package, the scripts that the other text names, and those that they name."""
    if path.endswith(".toml"):
        tables = "".join(each for each in _TABLE.split(text) if not _OF_LISTS.match(each))
        return _PACKED.sub("", tables) if path.endswith("Cargo.toml") else tables
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
