"""GitHub's words when it refuses a merge, and a front entry whose merge it refused."""

RULESET = "Repository rule violations found\n\n{}\n\n"


WORKFLOWS = [
    "refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml` "
    "without `workflows` permission",
    "refusing to allow a Personal Access Token to create or update workflow `.github/workflows/ci.yml` "
    "without `workflow` scope",
]
