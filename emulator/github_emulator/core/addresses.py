"""Where GitHub is served."""

from dataclasses import dataclass


@dataclass(slots=True)
class Addresses:
    """What links in answers start with; a server sets both to its own address."""

    api_url: str = "https://api.github.test"
    html_url: str = "https://github.test"
