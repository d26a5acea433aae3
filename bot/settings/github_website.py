"""Find GitHub's website beside its API. Pure."""

from urllib.parse import urlsplit


def website(api_url: str) -> str:
    """Return the origin of the website of this API: github.com, ghe.com (`api.`), or Enterprise Server (`/api/v3`)."""
    parts = urlsplit(api_url)
    host = parts.netloc
    if parts.path.rstrip("/") in ("", "/") and host.startswith("api."):
        host = host.removeprefix("api.")
    return f"{parts.scheme}://{host}"
