"""The gateway to GitHub: answers the ports of `queue_engine.domain.port` over HTTP.

Lives here: transport, tokens, limits, the reading of GitHub's JSON and the classing of its errors. May not live here:
decisions, retries (the engine has the one layer of them), anything about webhooks. Only `client` imports gidgethub.
"""

from bot.gateway.gateway import Gateway
from bot.gateway.http.limits import Budget

__all__ = ["Gateway", "Budget"]
