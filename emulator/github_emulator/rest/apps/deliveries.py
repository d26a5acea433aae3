"""Endpoints of an app's webhook deliveries: listing them, and asking for one again."""

from typing import Any

from github_emulator.callers.errors import Refusal, not_found
from github_emulator.rest import fields
from github_emulator.rest.answer import Access, Answer
from github_emulator.rest.call import Call
from github_emulator.rest.paging import link, page_of
from github_emulator.rest.routing import Routes
from github_emulator.state import Delivery

routes = Routes("apps/webhooks")
_APP = Access("app")


@routes.add("GET", "/app/hook/deliveries", _APP, docs="#list-deliveries-for-an-app-webhook")
def list_deliveries(call: Call) -> Answer:
    """Newest first; pages go by cursor, and only the next one is named."""
    newest = _deliveries(call)[::-1]
    status = call.query.get("status")
    if status == "success":
        newest = [one for one in newest if 200 <= one.status_code < 400]
    elif status == "failure":
        # Documented as "400 to 599": what never reached its receiver has no such code.
        newest = [one for one in newest if 400 <= one.status_code < 600]
    _, size = page_of(call.query)
    cursor = call.query.get("cursor")
    if cursor is not None:
        newest = [one for one in newest if one.id <= _cursor(cursor)]
    rest = newest[size:]
    changes = {"next": {"cursor": f"v1_{rest[0].id}", "per_page": size}} if rest else {}
    return Answer([fields.delivery(one) for one in newest[:size]], headers=link(call.url, call.query, changes))


@routes.add("GET", "/app/hook/deliveries/{delivery_id}", _APP, docs="#get-a-delivery-for-an-app-webhook")
def get_delivery(call: Call) -> Answer:
    """One delivery with its request and its response."""
    return Answer(fields.delivery_detail(_delivery(call)))


@routes.add(
    "POST", "/app/hook/deliveries/{delivery_id}/attempts", _APP, docs="#redeliver-a-delivery-for-an-app-webhook"
)
def redeliver(call: Call) -> Answer:
    """Send the same payload under the same GUID again, as a new delivery."""
    call.github.webhooks.redeliver(_delivery(call).id)
    empty: dict[str, Any] = {}
    return Answer(empty, 202)


def _deliveries(call: Call) -> list[Delivery]:
    # What is still on its way is no delivery yet.
    return [one for one in call.github.state.deliveries if one.app is call.app and one.status != "pending"]


def _delivery(call: Call) -> Delivery:
    wanted = call.number("delivery_id")
    found = next((one for one in _deliveries(call) if one.id == wanted), None)
    if found is None:
        raise not_found()
    return found


def _cursor(text: str) -> int:
    number = text.removeprefix("v1_")
    if not number.isdigit():
        raise Refusal(400, "Invalid cursor")
    return int(number)
