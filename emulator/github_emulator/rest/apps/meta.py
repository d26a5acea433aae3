"""Endpoints about the caller's limits and about accounts."""

from github_emulator.callers.errors import not_found
from github_emulator.rest import fields
from github_emulator.rest.answer import Access, Answer
from github_emulator.rest.call import Call
from github_emulator.rest.routing import Routes

routes = Routes("rate-limit/rate-limit")
_ANYONE = Access("anyone")


@routes.add("GET", "/rate_limit", _ANYONE, docs="#get-rate-limit-status-for-the-authenticated-user")
def rate_limit(call: Call) -> Answer:
    """What the caller has left; asking is free."""
    core = call.limits.budget(call.caller.key).body()
    search = {"limit": 30, "used": 0, "remaining": 30, "reset": core["reset"]}
    graphql = call.limits.budget(call.caller.key, "graphql").body()
    return Answer({"resources": {"core": core, "search": search, "graphql": graphql}, "rate": core})


@routes.add("GET", "/users/{username}", _ANYONE, docs="users/users#get-a-user")
def get_user(call: Call) -> Answer:
    """An account's public profile."""
    user = call.github.state.users.get(call.params["username"].lower())
    if user is None:
        raise not_found()
    return Answer(fields.public_user(call.github, user))


@routes.add("GET", "/user", _ANYONE, docs="users/users#get-the-authenticated-user")
def get_own_user(call: Call) -> Answer:
    """The person whose token it is."""
    return Answer(fields.public_user(call.github, call.person.user))


@routes.add("GET", "/user/{account_id}", _ANYONE, docs="users/users#get-a-user-using-their-id")
def get_user_by_id(call: Call) -> Answer:
    """The same for an id, which stays when the login changes."""
    wanted = call.params["account_id"]
    user = next((each for each in call.github.state.users.values() if str(each.id) == wanted), None)
    if user is None:
        raise not_found()
    return Answer(fields.public_user(call.github, user))
