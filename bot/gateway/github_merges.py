"""Disable GitHub's auto-merge, which only GraphQL does.

GitHub asks for `contents: write` and `pull_requests: write` (kubevirt-plugin #4513, pylegifrance #67, csshw #234).
"""

from bot.gateway.http import graphql
from bot.gateway.http.answers import parse_answer
from bot.gateway.http.connection import Connection
from bot.gateway.http.graphql import QueryAnswer, Unsupported
from queue_engine.domain.errors import Forbidden, NotFound
from queue_engine.domain.model import Repository

_DISABLE = """mutation DisableAutoMerge($pull: ID!) {
  disablePullRequestAutoMerge(input: {pullRequestId: $pull}) { clientMutationId }
}"""
_NOTHING_TO_DISABLE = "UNPROCESSABLE"


async def disable_auto_merge(connection: Connection, repository: Repository, node_id: str) -> bool:
    """`disablePullRequestAutoMerge`; False if it was not enabled any more.

    Raises Forbidden where IMQ lacks the permission, or this GitHub has no such mutation.
    """
    call = graphql.query(connection.api_url, _DISABLE, {"pull": node_id})
    try:
        answer = parse_answer(QueryAnswer, (await connection.call(repository, call)).data)
        if any(error.type == _NOTHING_TO_DISABLE for error in answer.errors):
            return False
        graphql.check(answer, [("disablePullRequestAutoMerge",)])
    except (NotFound, Unsupported) as missing:
        raise Forbidden(f"GitHub offers no way to disable auto-merge: {missing}", status=403) from missing
    return True
