"""The queries of snapshots: of one pull request, or of several in one request by aliases (GraphQL's "Field Alias").

Names and types are those of GitHub's public schema, which a test holds.
"""

_REPOSITORY = """
    nameWithOwner mergeCommitAllowed squashMergeAllowed rebaseMergeAllowed
    defaultBranchRef { name }
"""
_PULL_REQUEST = """
      id number title body state isDraft updatedAt totalCommentsCount
      autoMergeRequest { mergeMethod }
      author { __typename login }
      assignees(first: 20) { nodes { login } }
      labels(first: 100) { nodes { name } }
      headRefOid headRefName headRepository { nameWithOwner owner { __typename } } baseRefName
      baseRef {
        compare(headRef: $head) @include(if: $compared) {
          aheadBy behindBy baseTarget { oid } headTarget { oid }
        }
        associatedPullRequests(first: 5, states: [OPEN]) {
          nodes { number baseRefName baseRepository { nameWithOwner } }
        }
      }
      mergeable canBeRebased mergeStateStatus maintainerCanModify mergeCommit { oid }
      commits(last: 1) {
        nodes { commit { oid tree { oid } parents(first: 10) { nodes { oid } } statusCheckRollup { state } } } }
      reviewDecision
      latestOpinionatedReviews(first: 100, writersOnly: true) { nodes { state author { __typename login } } }
      reviewRequests(first: 20) {
        nodes { asCodeOwner requestedReviewer { ... on User { login } ... on Team { combinedSlug } } }
      }
      reviewThreads(first: 100) { nodes { id isResolved } pageInfo { hasNextPage endCursor } }
"""
_COLLABORATORS = """
    collaborators(login: $login, first: 1) @include(if: $person) { edges { permission node { login databaseId } } }
"""
PULL_REQUEST = f"""
query PullRequest(
  $owner: String!, $name: String!, $number: Int!
  $login: String!, $person: Boolean!, $head: String!, $compared: Boolean!
) {{
  repository(owner: $owner, name: $name) {{
    {_REPOSITORY.strip()}
    {_COLLABORATORS.strip()}
    pullRequest(number: $number) {{
      {_PULL_REQUEST.strip()}
    }}
  }}
}}
"""
THREADS = """
query ReviewThreads($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      reviewThreads(first: 100, after: $after) { nodes { id isResolved } pageInfo { hasNextPage endCursor } }
    }
  }
}
"""


def with_stacks(query: str) -> str:
    """Return a query with the stacks of pull requests, for a GitHub whose schema has them (gh-stack, "GraphQL API")."""
    return query.replace("reviewDecision\n", "reviewDecision stack { baseRefName }\n")


def of_several(pulls: int, logins: int) -> str:
    """Return the query of so many pull requests, `pull_0` and so on, and of so many people's permissions.

    Its variables are `number_0`, `head_0` and `login_0`, and so on.
    """
    variables = [f"$number_{each}: Int!, $head_{each}: String!" for each in range(pulls)]
    variables += [f"$login_{each}: String!" for each in range(logins)]
    fields = [
        f"collaborators_{each}: collaborators(login: $login_{each}, first: 1) {{"
        " edges { permission node { login databaseId } } }"
        for each in range(logins)
    ]
    compared = _PULL_REQUEST.strip().replace(" @include(if: $compared)", "")
    fields += [
        f"pull_{each}: pullRequest(number: $number_{each}) {{\n{compared.replace('$head', f'$head_{each}')}\n}}"
        for each in range(pulls)
    ]
    return f"""
query PullRequests($owner: String!, $name: String!, {", ".join(variables)}) {{
  repository(owner: $owner, name: $name) {{
    {_REPOSITORY.strip()}
    {" ".join(fields)}
  }}
}}
"""
