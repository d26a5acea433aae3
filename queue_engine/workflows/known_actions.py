"""Actions of others of which it is known that the event decides nothing of their result.

An action may read the event's payload by itself: tj-actions/changed-files, dorny/paths-filter and nrwl/nx-set-shas do
nothing else. So what is not listed here is unknown.
"""

_SAME: dict[str, str] = {
    "actions": "checkout cache cache/restore cache/save configure-pages download-artifact upload-artifact "
    "upload-artifact/merge setup-dotnet setup-go setup-java setup-node setup-python",
    "actions-rs": "cargo toolchain",
    "actions-rust-lang": "setup-rust-toolchain",
    "abatilo": "actions-poetry",
    "aquasecurity": "setup-trivy trivy-action",
    "arduino": "setup-protoc setup-task",
    "astral-sh": "ruff-action setup-uv",
    "awalsh128": "cache-apt-pkgs-action",
    "aws-actions": "configure-aws-credentials",
    "azure": "setup-helm setup-kubectl",
    "baptiste0928": "cargo-install",
    "bazel-contrib": "setup-bazel",
    "bazelbuild": "setup-bazelisk",
    "biomejs": "setup-biome",
    "browser-actions": "setup-chrome setup-firefox",
    "bufbuild": "buf-setup-action",
    "cachix": "cachix-action install-nix-action",
    "cargo-bins": "cargo-binstall",
    "chartboost": "ruff-action",
    "coactions": "setup-xvfb",
    "conda-incubator": "setup-miniconda",
    "coursier": "setup-action",
    "crate-ci": "typos",
    "dart-lang": "setup-dart",
    "davidanson": "markdownlint-cli2-action",
    "denoland": "setup-deno",
    "determinatesystems": "magic-nix-cache-action nix-installer-action",
    "docker": "bake-action build-push-action login-action setup-buildx-action setup-docker-action setup-qemu-action",
    "dsherret": "rust-toolchain-file",
    "dtolnay": "install rust-toolchain",
    "easimon": "maximize-build-space",
    "embarkstudios": "cargo-deny-action",
    "erlef": "setup-beam",
    "excitedleigh": "setup-nox",
    "extractions": "setup-crate setup-just",
    "github": "codeql-action/analyze codeql-action/autobuild codeql-action/init",
    "golangci": "golangci-lint-action",
    "google-github-actions": "auth setup-gcloud",
    "gradle": "actions/setup-gradle actions/wrapper-validation gradle-build-action wrapper-validation-action",
    "hadolint": "hadolint-action",
    "hashicorp": "setup-terraform",
    "haskell-actions": "setup",
    "helm": "kind-action",
    "hendrikmuhs": "ccache-action",
    "hynek": "setup-cached-uv",
    "ibiqlik": "action-yamllint",
    "ilammy": "msvc-dev-cmd setup-nasm",
    "jakebailey": "pyright-action",
    "jdx": "mise-action",
    "jetli": "wasm-bindgen-action wasm-pack-action",
    "jlumbroso": "free-disk-space",
    "julia-actions": "cache julia-buildpkg julia-runtest setup-julia",
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
    "pre-commit": "action",
    "prefix-dev": "setup-pixi",
    "psf": "black",
    "pyo3": "maturin-action",
    "pypa": "cibuildwheel",
    "r-lib": "actions/check-r-package actions/setup-pandoc actions/setup-r actions/setup-r-dependencies",
    "raven-actions": "actionlint",
    "re-actors": "alls-green",
    "reactivecircus": "android-emulator-runner",
    "ruby": "setup-ruby",
    "rui314": "setup-mold",
    "sbt": "setup-sbt",
    "seanmiddleditch": "gha-setup-ninja",
    "shivammathur": "setup-php",
    "sigstore": "cosign-installer",
    "snok": "install-poetry",
    "step-security": "harden-runner",
    "subosito": "flutter-action",
    "supercharge": "mongodb-github-action redis-github-action",
    "swatinem": "rust-cache",
    "swift-actions": "setup-swift",
    "taiki-e": "cache-cargo-install-action install-action",
    "vmactions": "freebsd-vm netbsd-vm omnios-vm openbsd-vm solaris-vm",
    "volta-cli": "action",
    "wntrblm": "nox",
}
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
SAME = _names(_SAME) | REPORTS
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
NEW_ISSUES = ("golangci/golangci-lint-action", "only-new-issues")
"""An input that makes an action look at the pull request's changes."""
