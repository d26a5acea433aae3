"""Judge the address to which GitHub sends the App's webhooks. Pure."""

from urllib.parse import urlsplit

from bot.settings.safe_values import is_private

PATH = "/webhook"

_EXAMPLE = "imq.example.com"


def address_fault(address: str, public_url: str | None, relay_url: str | None = None) -> str | None:
    """Return the remedy of a wrong webhook address; None if no fault is known.

    `public_url` is the address at which people and GitHub reach IMQ, if the operator gave it.
    `relay_url` is the channel of a webhook relay, which counts more.
    """
    if relay_url:
        return None if address == relay_url else f"Set the App's webhook URL to {relay_url}."
    if public_url:
        wanted = public_url.rstrip("/") + PATH
        return None if address == wanted else f"Set the App's webhook URL to {wanted}."
    if not address:
        return f"The App has no webhook URL: set it to IMQ's public address with {PATH} at its end."
    parts = urlsplit(address)
    if parts.hostname == _EXAMPLE:
        return f"The webhook URL is the example of app.yml: set it to IMQ's public address with {PATH} at its end."
    if not parts.path.endswith(PATH):
        return f"IMQ receives webhooks at {PATH}: put that at the end of the webhook URL."
    if parts.scheme != "https" and not is_private(parts.hostname or ""):
        return "The webhook URL is plain http, over which everybody on the way reads the webhooks: make it https."
    return None
