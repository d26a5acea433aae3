"""Find misspelt settings, which would otherwise leave the default. Pure."""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches

PREFIX = "IMQ_"

_TESTS = "IMQ_TEST_"
"""The prefix of variables of IMQ's own tests; no setting may begin with it."""

OF_AUTHORS = frozenset({"IMQ_URL", "IMQ_TOKEN"})
"""Variables of the commands for authors, which are no settings of a server."""

_SIMILARITY = 0.8
"""The least similarity of a misspelt name, as difflib measures it."""

_SERVICE_NAME = re.compile(r"_SERVICE_(?:HOST|PORT)(?:_\w+)?$|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?$")
_SERVICE_VALUE = re.compile(r"(?:tcp|udp|sctp)://")
"""What Kubernetes sets in every container for a service that is called `imq`, `IMQ_PORT` among it (Kubernetes docs:
Service, environment variables)."""


def unknown_names(environ: Mapping[str, str], known: Collection[str]) -> dict[str, str | None]:
    """Return the variables with IMQ's prefix that are no settings, each with the most similar setting."""
    unknown = sorted(
        name
        for name, value in environ.items()
        if name.upper().startswith(PREFIX)
        and name not in known
        and name not in OF_AUTHORS
        and not name.startswith(_TESTS)
        and not _SERVICE_NAME.search(name)
        and not _SERVICE_VALUE.match(value)
    )
    return {name: nearest(name, known) for name in unknown}


def nearest(name: str, known: Collection[str]) -> str | None:
    """Return the most similar setting: by the same words, by similarity, or as the only one with its words."""
    upper = name.upper()
    for meant in (upper, upper.removeprefix(PREFIX)):
        if meant in known:
            return meant
    if similar := get_close_matches(upper, sorted(known), n=1, cutoff=_SIMILARITY):
        return similar[0]
    words = set(filter(None, upper.removeprefix(PREFIX).split("_")))
    longer = [each for each in known if words and words <= set(each.split("_"))]
    return longer[0] if len(longer) == 1 else None
