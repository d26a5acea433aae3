"""Find what a script reads of the event, or of the history of its commit, by itself: no expression shows it.

Comments, and the docstrings of Python, are not looked through: nothing executes them.
"""

import re
from collections.abc import Iterator, Sequence
from io import StringIO
from tokenize import COMMENT, DEDENT, INDENT, NEWLINE, NL, STRING, TokenError, TokenInfo, generate_tokens

from queue_engine.workflows.expressions import split

_LONGEST_LINE = 2_000
"""A longer one is not looked through."""
_VARIABLES = (
    r"(?<![A-Za-z0-9_])GITHUB_(?:EVENT_NAME|EVENT_PATH|REF|REF_NAME|REF_PROTECTED|HEAD_REF|BASE_REF|ACTOR|ACTOR_ID"
    r"|TRIGGERING_ACTOR|WORKFLOW_REF)(?![A-Za-z0-9_])|\bEARTHLY_GIT_(?:BRANCH|REFS)\b"
    r"|prefix\w*\W{1,6}github_?\b(?!\.com)"
)
_IDENTITY = r"\bACTIONS_ID_TOKEN_REQUEST"
"""A token that names the event, so that rights depend on it (docs: "OpenID Connect reference"; its subject on a pull
request is `repo:...:pull_request`, falcosecurity/test-infra #1433)."""
_COMPUTED = r"(?-i:(?<![A-Za-z0-9_.])GITHUB_?(?:HEAD_?|BASE_?|EVENT_?|TRIGGERING_?)?(?![A-Za-z0-9_]))|\$\{!\w+\}"
"""A name that is put together, such as `GITHUB_$X`, or an indirect one."""
_ALL_VARIABLES = (
    r"(?-i:\b(?:printenv|env)\s*\|(?!\s*sort\s*$)|\b(?:printenv|env|set|export)\s*>"
    r"|(?<![-\w])set\s*\||[(`](?:printenv|env)[)`]|(?:(?<!\w)\(|`)set[)`])"
    r"|\b(?:export\s+-p|declare\s+-[px]+|compgen\s+-[ev])(?![\w-])|/proc/[^/\s]+/environ\b"
    r"|\b(?:get-childitem|get-item|gci|dir|ls)\s+[\"']?env:|\bGetEnvironmentVariables\b"
    r"|\b(?:const|let|var)\s+\w+\s*=\s*(?:\{\s*\.\.\.)?process\.env\b(?![.\[])"
    r"|\b(?:Object\.\w+|stringify)\(\s*process\.env\b(?![.\[])|\bin\s+process\.env\b(?![.\[])"
    r"|(?-i:%ENV\b|\bENVIRON\b(?!\s*\[\s*[\"'])|\$_ENV\b(?!\[)"
    r"|\bENV\.(?:to_\w|each|values|select|any|find|key|inspect|filter))"
    r"|\bgetenv\(\s*\)|\bos\.environ\.(?:values|items|keys)\b|\brange\s+os\.Environ\(\)"
    r"|\benv::vars(?:_os)?\(\)"
    r"|\benvconfig\.\w+\([^)\"']{0,80}[\"']github_?[\"']"
    r"|\bfor\s+\w+(?:\s*,\s*\w+)?\s+in\s+os\.environ\b|\b(?:str|dumps|list|sorted)\((?:dict\()?os\.environ\b(?![.\[])"
)
"""A search through all variables."""
_BETWEEN = r"[\s\"',\[\]]+"
"""Between two words of a command, also in a list of words, as programs start it."""
_GH = rf"\bgh{_BETWEEN}"
_API = (
    rf"(?:{_GH}(?:run|api|workflow|issue|project|status|cache|ruleset)\b|\bapi\.github\.com\b|\bgithub\.\w+_url\b"
    r"|\bGITHUB_(?:API|GRAPHQL)_URL\b|\bhub\s+(?:api|pr|ci-status|issue)\b|\boctokit\b)"
    r"(?!.*/(?:releases|tags|contents|tarball|zipball)\b)"
)
"""GitHub's answers name what started a run, and its pull requests (docs: "Get a workflow run", `event`, `head_branch`,
`pull_requests`; githubkit's model of a run). Downloads name nothing."""
_PAYLOAD = (
    r"_github_workflow|\bevent\.json\b|@actions/github\b|\bgithub\.context\b|\bcontext\.payload\b"
    rf"|{_GH}(?:pr|search)\b|\bget_pulls?\(|\bfrom\s+github3?\s+import\b|\bghapi\b|\bgo-github\b"
    r"|\bcommits/[^\s/]+/pulls"
)
_GIT = rf"\bgit\b(?:{_BETWEEN}(?:-[cC]{_BETWEEN}[^\s\"',]+|--?[\w-]+(?:=\S+)?))*{_BETWEEN}"
_HISTORY = (
    r"(?<![\w/])HEAD[\^~]|(?<![\w/.\"'-])@[\^~]|\bgit\b.*[\"'\s]@[\^~]|\bORIG_HEAD\b|\bHEAD@\{"
    r"|\bgit\b.*[\w})\"'][\^~](?:\d+|!|-|@)?(?=[\s\"':.)]|$)"
    r"|" + _GIT + r"(?:show(?:-branch)?|whatchanged|diff-tree|rev-list|shortlog|name-rev|symbolic-ref|format-patch"
    r"|range-diff|cherry|reflog|cat-file)(?![\w-])"
    r"|"
    + _GIT
    + r"log(?![\w-])(?!\s+-1\s+--(?:pretty|format)=[\"']?(?:format:)?%(?:ct|cI|at|aI|H|h)[\"')\s]*(?:$|[;)]))"
    r"|" + _GIT + r"rev-parse\b.*--(?:abbrev-ref|symbolic)|" + _GIT + r"status\s+-s?b"
    r"|" + _GIT + r"status\b(?!.*(?:--porcelain|--short|\s-s)).*[|)]"
    r"|"
    + _GIT
    + r"branch(?:\s*(?:$|[|)])|\s+(?:-[avr]+|--(?:show-current|all|list|remotes|points-at|format|(?:no-)?\w+ed"
    r"|(?:no-)?contains))(?![\w-]))"
    r"|" + _GIT + r"(?:for-each-ref|show-ref|worktree\s+list|config\b.*\bbranch\b"
    r"|ls-remote(?!.*(?:\s--tags|\s-t\b|://))|describe\b.*\s--(?:all|contains))(?![\w-])"
    r"|\bcommit\.(?:parents|message|summary)\b|\bactive_branch\b"
    r"|^\s*new:\s*true\b"
    r"|(?-i:\b(?:COPY|ADD)\b.*\s(?:\./)?\.git/?(?=\s))|\b(?:source|src)=(?:\./)?\.git(?![\w.-])"
    r"|\.git/(?:(?:FETCH_|ORIG_)?HEAD|refs|logs|packed-refs)\b|@\{(?:u|upstream|push|-?\d+)\}"
)
"""The parents of the commit under test, its message, or the branch. GitHub's merge of a pull request has the base for a
parent, and no branch; a candidate has the members before the last one."""
_TOOLS = (
    r"\bturbo\b.*--affected|\bturbo-ignore\b|--lastCommit\b|--changedFilesWithAncestor\b|\bcommitlint\b"
    r"|\bdanger(?:js)?\s+(?:ci|local|pr|process|staging|--)|(?:\b(?:exec|npx|dlx|run|yarn|pnpm|bunx)\s+|[;&|]\s*|^\s*)"
    r"danger(?:js)?(?=\s*$|\s+[-;&|])|\breviewdog\b|\bis-(?:pr|ci)\b|\bsonar|\bchromatic\b|\bsemantic-release\b|\bsemgrep\s+ci\b|\bggshield\b.*\bci\b|\btrunk\s+check\b|\bpronto\s+run\b"
    r"|\bgitleaks\b(?!-)(?!\s+(?:dir|directory|stdin|version)\b)(?!.*--no-git)|\btrufflehog\b(?!\s+filesystem\b)"
    r"|\bgit[ -]secrets\b.*--scan-history|\btalisman\b|\blhci\b|\bpercy\b|\bargos\b|\bhappo\b|\bgo\s+generate\b"
    r"|\b(?:ci-info|env-ci|std-env)\b|\bgitlint\b|\b(?:cz|cog)\s+check\b|\bconvco\s|\bconform\s+enforce\b"
    r"|\bmoon\s+ci\b|\bdco-check\b|\bbundlewatch\b|\bgolangci-lint\b.*\s(?:--new|-n)(?![\w-])"
)
"""Programs that look at the event by themselves, or at the last commits alone, as `golangci-lint --new` does
(vitessio/vitess #9184, golangci/golangci-lint #4377). `go generate` starts what comments name."""
_INSTALLERS = re.compile(
    r"sh\.rustup\.rs|astral\.sh/(?:uv|ruff)/|install\.python-poetry\.org|/golangci/golangci-lint/", re.IGNORECASE
)
"""They read nothing of the event (rustup `rustup-init.sh`, cargo-dist `installer.sh.j2`, `install-poetry.py`,
golangci-lint `install.sh`)."""
_DOWNLOAD = r"\b(?:curl|wget|iwr|irm|Invoke-WebRequest|Invoke-RestMethod)\b"
_DOWNLOADS = re.compile(_DOWNLOAD, re.IGNORECASE)
_EXECUTES = re.compile(
    r"\|\s*(?:sudo\s+(?:-\w+\s+)*)?(?:(?:/usr)?/bin/(?:env\s+)?)?"
    r"(?:(?:ba|z|k|da)?sh|python3?|node|ruby|perl|iex|invoke-expression|pwsh)(?![\w.-])"
    r"|https?://[^\s\"']+\.(?:sh|bash|py|rb|pl|js|ps1)(?=[\s\"');]|$)"
    r"|(?:\b(?:(?:ba|z|k|da)?sh|eval|source|iex)|(?<!\S)\.|\s-c)\s+[\"']?(?:[<$]?\(|`)\s*" + _DOWNLOAD,
    re.IGNORECASE,
)
"""How a line executes a program that it downloads."""
_PULLS = r"/pulls?\b(?=[/?\"'\s)}]|$)(?!/\d)"
"""Also an address; in a file of settings it is no more. One with a number is the same for every event."""
_BY_ITSELF = "|".join((_VARIABLES, _IDENTITY, _COMPUTED, _ALL_VARIABLES, _API, _PAYLOAD, _HISTORY))
_READS = re.compile(f"{_BY_ITSELF}|{_PULLS}|{_TOOLS}", re.IGNORECASE)
_READS_AS_DATA = re.compile(_BY_ITSELF, re.IGNORECASE)
"""The same of a file of settings: a program that it names is not run for that."""
_CONTEXT = re.compile(
    r"(?<![\w$])context\b(?!\s*\.\s*(?:repo|sha|runId|runNumber|runAttempt|serverUrl|apiUrl|graphqlUrl|job|workflow"
    r"|action)\b)|(?<![\w$.])arguments\b|\bpulls\b|\bissues\b|[pP]ullRequest|(?<![\w$.])github\s*\.\s*(?:rest|graphql|request|paginate)\b"
)
"""Of the event, in a script of `actions/github-script`, or what it asks GitHub, which knows the event."""
_SLASHED = (
    *(".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".jsonc", ".json5", ".go", ".rs", ".java", ".kt"),
    *(".kts", ".cs", ".csx", ".scala", ".sc", ".sbt", ".swift", ".dart", ".groovy", ".gradle", ".zig", ".php"),
)
"""Endings of files whose comments begin with `//`. A line with `#` is code there: a private field, or an attribute."""
_OTHERWISE = (".lua", ".hs", ".clj", ".edn", ".ml", ".bat", ".cmd", ".fsx", ".xml", ".html")
"""Endings of files with comments of other forms; nothing of these is left out."""
_OF_NODE = re.compile(r"#!.*\b(?:node|deno|bun|tsx|zx)\b")
_AFTER_HASH = re.compile(r"^([^\"'`]*?)(?:^|\s)#\s.*")
_AFTER_SLASHES = re.compile(r"^([^\"'`]*?)(?:^|\s)//.*")
"""A comment after code, where no quote is before it."""
_LIFETIME = re.compile(r"(?:(?<=[<&(+])|(?<=,\s))'[a-z_]\w*(?=[>,+\s)])")
_NAMED = re.compile(r"(?<=\w)\(env\)|\|(?:\w+, )*(?:env|set)\|")
"""Values in Rust, where `env::vars` reads all variables."""
_FORMATTED = re.compile(r"\w?f", re.IGNORECASE)
_BEGINS = (NEWLINE, INDENT, DEDENT)
_ECHO = re.compile(r"\s*(?:echo\b[^|&;<>`]*?(?:>>\s*\"?\$\{?GITHUB_STEP_SUMMARY\}?\"?\s*)?)?")


def event_reads(value: object) -> str:
    """Return what a text in a value of the file reads, or "": a script may get its commands from there."""
    if isinstance(value, str):
        return reads_event(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, map(event_reads, parts)), "")


def reads_event(script: str, path: str = "", *, is_data: bool = False, is_apart: bool = False) -> str:
    """Return what a script, or a file of settings, reads, or "".

    `path`: its file, whose ending says what a comment is. `is_apart`: its commands run without the step's variables, so
    that what they download knows nothing of the event.
    """
    found = _reads_event(script, is_data, is_apart)
    # Most files read nothing, also in their comments.
    return found and _reads_event(_code(script, path), is_data, is_apart)


def _reads_event(script: str, is_data: bool, is_apart: bool) -> str:
    form = _READS_AS_DATA if is_data else _READS
    for line in script.replace("\\\n", " ").splitlines():
        if len(line) > _LONGEST_LINE:
            return "a line that is too long to be read"
        if found := form.search(line):
            return f"`{found[0].strip()[:60]}`"
        if not is_apart and (found := _downloaded(line)):
            return f"`{found[0].strip()[:60]}`, a program from elsewhere"
    return ""


def _code(script: str, path: str) -> str:
    """Return a script without what nothing executes, as far as that is certain."""
    if path.endswith(_OTHERWISE):
        return script
    if path.endswith((".py", ".pyw")):
        script = _without_docstrings(script)
    if path.endswith(".rs"):
        script = _NAMED.sub("()", _LIFETIME.sub("", script))
    if path.endswith(_SLASHED) or _OF_NODE.match(script):
        return "\n".join(_without_slashes(script))
    lines = (_AFTER_HASH.sub(r"\1", each) for each in script.splitlines() if not each.lstrip().startswith("#"))
    # The value of a step may be a program of another language.
    return "\n".join(each for each in lines if path or not each.lstrip().startswith("//"))


def _without_slashes(script: str) -> Iterator[str]:
    """Yield lines without comments; of a block those that begin as lines of blocks do."""
    within = False
    for line in script.splitlines():
        shown = line.lstrip()
        if shown.startswith("/*") or (within and shown.startswith("*")):
            _, end, rest = shown.partition("*/")
            within = not end
            yield rest
        else:
            within = False
            yield _AFTER_SLASHES.sub(r"\1", line)


def _without_docstrings(script: str) -> str:
    """Return a program of Python without texts that stand alone, and without comments; all of one that no Python is."""
    try:
        tokens = list(generate_tokens(StringIO(script).readline))
    except (TokenError, SyntaxError):
        return script
    shown = [each for each in tokens if each.type not in (COMMENT, NL)]
    comments = [each for each in tokens if each.type == COMMENT]
    lines = StringIO(script).readlines()
    for token in sorted((*comments, *_docstrings(shown, script)), key=lambda each: each.start, reverse=True):
        (first, begin), (last, end) = token.start, token.end
        lines[first - 1 : last] = [lines[first - 1][:begin] + lines[last - 1][end:]]
    return "".join(lines)


def _docstrings(tokens: Sequence[TokenInfo], script: str) -> Iterator[TokenInfo]:
    """Yield texts that are a statement, unless the program reads its own, or they have examples for doctest."""
    if "__doc__" in script:
        return
    for place, token in enumerate(tokens[:-1]):
        alone = (place == 0 or tokens[place - 1].type in _BEGINS) and tokens[place + 1].type == NEWLINE
        # A text with values is computed.
        if alone and token.type == STRING and not _FORMATTED.match(token.string) and ">>>" not in token.string:
            yield token


def _downloaded(line: str) -> re.Match[str] | None:
    """Return where a line executes a program that nothing of the repository shows."""
    if not _DOWNLOADS.search(line) or _INSTALLERS.search(line):
        return None
    return _EXECUTES.search(line)


def reads_context(script: str) -> str:
    """Return what a script of `actions/github-script` reads of the event, or ""."""
    found = _CONTEXT.search(script)
    return f"`{found[0].strip()}`" if found else ""


def prints_only(script: str) -> bool:
    """Whether a script only prints, whatever its expressions are: it cannot fail or set anything."""
    script = "".join("x" if place % 2 else part for place, part in enumerate(split(script)))
    return "$(" not in script and "::" not in script and all(map(_ECHO.fullmatch, script.splitlines()))
