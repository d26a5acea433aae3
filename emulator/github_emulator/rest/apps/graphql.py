"""The one endpoint of the GraphQL API."""

from github_emulator.callers.errors import Refusal, not_found
from github_emulator.graphql.execution import Execution
from github_emulator.rest.answer import Access, Answer
from github_emulator.rest.call import Call
from github_emulator.rest.routing import Routes

routes = Routes("graphql")
_DOCS = "https://docs.github.com/graphql/guides/forming-calls-with-graphql#authenticating-with-graphql"
TEMPLATE = "POST /graphql"


@routes.add("POST", "/graphql", Access("anyone"), resource="graphql")
def query(call: Call) -> Answer:
    """Status 200 whatever the fields answer; refusals are in `errors`. Costs points of a limit of its own."""
    if not call.github.behaviour.graphql:
        raise not_found()
    if call.caller.actor is None:
        raise Refusal(401, "This endpoint requires you to be authenticated.", docs=_DOCS)
    text, variables, operation = call.data.get("query"), call.data.get("variables"), call.data.get("operationName")
    if not isinstance(text, str):
        return Answer({"errors": [{"message": "A query attribute must be specified and must be a string."}]})
    if not isinstance(variables or {}, dict):
        return Answer({"errors": [{"message": "Variables must be an object."}]})
    execution = Execution(call.github, call.caller, text, variables or {}, operation, branches=call.branches)
    call.limits.create_check_runs(call.caller.key, TEMPLATE, execution.check_runs)
    # One point is counted for every request already.
    call.limits.spend(call.caller.key, "graphql", execution.cost.points - 1)
    return Answer(execution.answer(call.limits.budget(call.caller.key, "graphql")))
