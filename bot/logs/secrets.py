"""Mask secrets anywhere in a line."""

import re
from collections.abc import Sequence

from structlog.typing import WrappedLogger

_MASK = "[secret]"

_SECRETS: Sequence[tuple[re.Pattern[str], str]] = (
    # A private key, with real or escaped newlines, also if it is truncated.
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL), _MASK),
    (re.compile(r"\bgh[a-z]_[A-Za-z0-9_]{4,}"), _MASK),
    (re.compile(r"\bgithub_pat_\w+"), _MASK),
    (re.compile(r"\bimq_[\w-]{40,}"), _MASK),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), _MASK),
    (re.compile(r"(?i)\b(bearer|token) +(?!\[secret\])[\w.~+/=-]{12,}"), rf"\1 {_MASK}"),
    (re.compile(r"(://[^:/@\s\"']*:)[^@/\s\"']+(?=@)"), rf"\1{_MASK}"),
)


def mask(text: str) -> str:
    """Mask everything in `text` that looks like a GitHub token, a JWT, a private key or a URL's password."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def mask_rendered(_logger: WrappedLogger, _method: str, rendered: str) -> str:
    """Mask the rendered line, as the last processor, so that no value or traceback is left out."""
    return mask(rendered)
