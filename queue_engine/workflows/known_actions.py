"""Actions of others of which it is known that the event decides nothing of their result.

An action may read the event's payload by itself: tj-actions/changed-files, dorny/paths-filter and nrwl/nx-set-shas do
nothing else. So what is not listed here is unknown.

The lists rest on the actions' own source, read in August and November 2026: the newest commit, and the newest tag of
each of the last six major versions, since a tag such as `@v4` moves. Searched were the payload, event name, references,
actor and issue of `@actions/github`, the variables that GitHub sets from them, `action.yml`, and the actions that it
uses.
"""

_IGNORING: dict[str, str] = {
    "actions": "configure-pages download-artifact upload-artifact upload-artifact/merge setup-dotnet setup-go "
    "setup-node setup-python",
    "actions-rs": "cargo toolchain",
    "actions-rust-lang": "setup-rust-toolchain",
    "abatilo": "actions-poetry",
    "aquasecurity": "setup-trivy trivy-action",
    "arduino": "setup-protoc setup-task",
    "astral-sh": "ruff-action",
    "awalsh128": "cache-apt-pkgs-action",
    "azure": "setup-helm setup-kubectl",
    "baptiste0928": "cargo-install",
    "bazel-contrib": "setup-bazel",
    "bazelbuild": "setup-bazelisk",
    "biomejs": "setup-biome",
    "browser-actions": "setup-chrome setup-firefox",
    "bufbuild": "buf-setup-action",
    "cachix": "cachix-action install-nix-action",
    "cargo-bins": "cargo-binstall",
    "coactions": "setup-xvfb",
    "conda-incubator": "setup-miniconda",
    "coursier": "setup-action",
    "crate-ci": "typos",
    "davidanson": "markdownlint-cli2-action",
    "denoland": "setup-deno",
    "docker": "login-action setup-buildx-action setup-docker-action setup-qemu-action",
    "dsherret": "rust-toolchain-file",
    "dtolnay": "install rust-toolchain",
    "easimon": "maximize-build-space",
    "embarkstudios": "cargo-deny-action",
    "erlef": "setup-beam",
    "excitedleigh": "setup-nox",
    "extractions": "setup-crate setup-just",
    "google-github-actions": "setup-gcloud",
    "gradle": "actions/wrapper-validation wrapper-validation-action",
    "hadolint": "hadolint-action",
    "hashicorp": "setup-terraform",
    "haskell-actions": "setup",
    "helm": "kind-action",
    "hendrikmuhs": "ccache-action",
    "hynek": "build-and-inspect-python-package setup-cached-uv",
    "ibiqlik": "action-yamllint",
    "ilammy": "msvc-dev-cmd setup-nasm",
    "jakebailey": "pyright-action",
    "jdx": "mise-action",
    "jetli": "wasm-bindgen-action wasm-pack-action",
    "jlumbroso": "free-disk-space",
    "julia-actions": "julia-buildpkg setup-julia",
    "kylemayes": "install-llvm-action",
    "ludeeus": "action-shellcheck",
    "lukka": "get-cmake run-vcpkg",
    "lycheeverse": "lychee-action",
    "mamba-org": "setup-micromamba",
    "microsoft": "setup-msbuild",
    "mozilla-actions": "sccache-action",
    "nick-fields": "retry",
    "nuget": "setup-nuget",
    "oven-sh": "setup-bun",
    "pdm-project": "setup-pdm",
    "pnpm": "action-setup setup",
    "prefix-dev": "setup-pixi",
    "psf": "black",
    "pyo3": "maturin-action",
    "pypa": "cibuildwheel",
    "r-lib": "actions/check-r-package actions/setup-pandoc actions/setup-r actions/setup-r-dependencies",
    "raven-actions": "actionlint",
    "re-actors": "alls-green",
    "reactivecircus": "android-emulator-runner",
    "rui314": "setup-mold",
    "seanmiddleditch": "gha-setup-ninja",
    "shivammathur": "setup-php",
    "sigstore": "cosign-installer",
    "snok": "install-poetry",
    "subosito": "flutter-action",
    "supercharge": "mongodb-github-action redis-github-action",
    "swift-actions": "setup-swift",
    "taiki-e": "cache-cargo-install-action install-action",
    "vmactions": "freebsd-vm netbsd-vm omnios-vm openbsd-vm solaris-vm",
    "volta-cli": "action",
    "wntrblm": "nox",
}
"""Their source reads nothing of the event."""
_READING: dict[str, str] = {
    "actions/cache": "v1 to v5, `isValidEvent`: whether there is a reference at all",
    "actions/cache/restore": "v3 to v5, the same",
    "actions/cache/save": "v3 to v5, the same",
    "actions/checkout": "v2 to v7, `getInputs`: the commit of the run; `checkCommitInfo` only logs; since v7 "
    "`unsafe-pr-checkout-helper.ts` refuses heads of forks for pull_request_target and workflow_run",
    "actions/setup-java": "v1 to v5, `action.yml`: GITHUB_ACTOR, as the user who publishes to Maven",
    "astral-sh/setup-uv": "v10, `inputs.ts`: no cache for tags, releases, pull_request_target and workflow_run",
    "dart-lang/setup-dart": "v1, `createPubOIDCToken`: a token of the run, for publishing",
    "determinatesystems/magic-nix-cache-action": "v8 to v13, `detsys-ts`: the event's name, for statistics",
    "determinatesystems/nix-installer-action": "v17 to v22, `flakehubLogin`: whether the head is a fork's; statistics",
    "docker/bake-action": "v3 to v7, `gitContext`: the commit of the run, where no other source is given",
    "docker/build-push-action": "v2 to v7, the same",
    "golangci/golangci-lint-action": "v4 to v9, `fetchPatch`: only with the input in `_OF_PULLS`",
    "gradle/actions/setup-gradle": "v3 to v6, `action.yml`: no writes to caches off the default branch; "
    "`dependency-graph.ts`: only with the input in `_OF_PULLS`",
    "gradle/gradle-build-action": "v2 and v3, the same",
    "julia-actions/cache": "v1 to v3, `action.yml`: which old caches are deleted at the end",
    "msys2/setup-msys2": "v1 and v2, `isValidEvent`, as actions/cache",
    "pre-commit/action": "v1 to v3: only with the input in `_OF_PULLS`, which v3 has no more",
    "ruby/setup-ruby": "v1, `bundler.js`: what is cached for merge_group",
    "sbt/setup-sbt": "v1, its `ampel/verify`: workflow_dispatch, in a step that never fails",
    "step-security/harden-runner": "v1 and v2, `setup.ts`: the repository, and the name of the workflow's file",
    "swatinem/rust-cache": "v1 and v2, `isValidEvent`: whether there is a reference at all",
}
"""They read the event: where, and why that changes neither the verdict of a job nor the tree that it tests.

Not here: `aws-actions/configure-aws-credentials` (`assumeRole.ts`: reference, event and actor become tags of the
session) and `google-github-actions/auth` (`getIDToken`), whose rights depend on the event; `github/codeql-action`
(`resolveDefaultCliVersion`, `isAnalyzingPullRequest`: another analysis, even another version, for pull requests);
`julia-actions/julia-runtest` (`autodetect-dependabot.jl`: other dependencies on a bot's branch); and
`chartboost/ruff-action` (uses `tj-actions/changed-files`).
"""
_REPORTS: dict[str, str] = {
    "8398a7": "action-slack",
    "actions": "cache/save labeler upload-artifact upload-artifact/merge",
    "andremiras": "coveralls-python-action",
    "codacy": "codacy-coverage-reporter-action",
    "codecov": "codecov-action",
    "coverallsapp": "github-action",
    "github": "codeql-action/upload-sarif",
    "marocchino": "sticky-pull-request-comment",
    "mshick": "add-pr-comment",
    "peter-evans": "create-or-update-comment find-comment",
    "rtcamp": "action-slack-notify",
    "slackapi": "slack-github-action",
    "thollander": "actions-comment-pull-request",
}


def _names(of_owners: dict[str, str]) -> frozenset[str]:
    return frozenset(f"{owner}/{name}" for owner, names in of_owners.items() for name in names.split())


REPORTS = _names(_REPORTS)
"""They tell people, or store what others look at. Such a step tests nothing: no difference in it makes a red job green.
A later step may read their outputs all the same."""
SAME = _names(_IGNORING) | _READING.keys() | REPORTS
"""With the same inputs and variables, their result is a function of the tree alone."""
STORES = frozenset({"actions/cache/save", "actions/upload-artifact", "actions/upload-artifact/merge"})
"""Of these, those whose files another job may take, and test nothing where there are none."""
TAKES = ("actions/cache", "download-artifact", "run download")
"""How another job takes them."""
CACHES = frozenset({"actions/cache", "actions/cache/restore", "swatinem/rust-cache"})
"""A key by branch changes nothing: GitHub keeps caches apart by branch under any key (docs: "Restrictions for accessing
a cache"), so that no test may depend on what is in them."""
CHECKOUT = "actions/checkout"
SCRIPT = "actions/github-script"
CHECKOUT_REF = "ref"
"""Its output of this name is the branch or the pull request (`action.yml`, since v4.2)."""
_OF_PULLS = {
    "golangci/golangci-lint-action": "only-new-issues",
    "gradle/actions/setup-gradle": "dependency-graph",
    "gradle/gradle-build-action": "dependency-graph",
    "pre-commit/action": "token",
}
_OFF = frozenset({"", "false", "disabled"})
_COMMENTS = frozenset({"peter-evans/create-or-update-comment", "thollander/actions-comment-pull-request"})
NUMBERED = _COMMENTS | {"peter-evans/find-comment"}
"""Without the number of a pull request they fail (their `main.ts`); others of their kind then do nothing."""
NUMBERS = frozenset({"issue-number", "comment-id", "pr-number", "pr_number"})
JUDGES = frozenset(
    {
        "agilepathway/label-checker",  # internal/github: labels by GraphQL, by the number in the event (c3d16ad).
        "amannn/action-semantic-pull-request",  # src/index.js: pulls.get, pulls.listCommits (b439535).
        "deepakputhraya/action-pr-title",  # index.js: pulls.get (077bddd).
        "mheap/github-action-required-labels",  # index.js: issues.listLabelsOnIssue (6172777).
        "tim-actions/dco",  # index.js, libs/dco.js: commits that it is given, and the pull request's address (f2279e6).
        "tim-actions/get-pr-commits",  # index.js: pulls.listCommits (198af03).
        "yogevbd/enforce-label-action",  # src/main.ts: context.payload.pull_request.labels (a3c219d).
        "ytanikin/pr-conventional-commits",  # index.js: context.payload.pull_request.title, labels (2aa4e89).
    }
)
"""They read the pull request by the event or the API, and no content of the repository, by their sources."""
WITHOUT_TREE = _COMMENTS | {
    "actions-ecosystem/action-regex-match",  # src/main.ts: its inputs alone (d50fd2e).
    "actions/create-github-app-token",  # main.js, lib/main.js: a token of an App (7989d20).
    "marocchino/sticky-pull-request-comment",
    "step-security/harden-runner",
}
"""They read neither the pull request nor the tree. `find-comment` is not here: a comment may quote a test."""


def reads_pull_request(action: str, name: str, value: object) -> bool:
    """Whether an input makes an action look at the pull request."""
    return _OF_PULLS.get(action) == name and str(value).lower() not in _OFF
