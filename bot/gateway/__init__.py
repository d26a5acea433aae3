"""The gateway to GitHub: answers the ports of `queue_engine.domain.port` over HTTP."""

from bot.gateway.gateway import Gateway
from bot.gateway.http.limits import Budget

__all__ = ["Gateway", "Budget"]
