"""Build HTML pages whose texts are always escaped, with headers that keep everything else out. Pure."""

import base64
import hashlib
from xml.etree.ElementTree import Element, tostring

from aiohttp import web

Node = Element | str

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --accent: #1a7f37; }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0 auto; max-width: 44rem; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
label { display: block; margin: .9rem 0; }
label.choice { border-top: 1px solid var(--line); margin: 0; padding: .7rem 0 .7rem 2rem; position: relative; }
label.choice input { left: .2rem; position: absolute; top: 1rem; }
input[type=text] { box-sizing: border-box; display: block; font: inherit; margin-top: .25rem; padding: .5rem;
  width: 100%; }
code { font: .95em ui-monospace, monospace; overflow-wrap: anywhere; }
small { display: block; opacity: .8; }
button, a.button { background: var(--accent); border: 0; border-radius: .4rem; color: #fff; cursor: pointer;
  display: inline-block; font: inherit; font-weight: 600; margin-top: 1.2rem; padding: .6rem 1.2rem;
  text-decoration: none; }
.state { border: 2px solid var(--line); border-radius: .5rem; margin: 1.2rem 0; padding: .8rem 1rem; }
.green { border-color: var(--accent); background: #1a7f3722; }
.red { border-color: #cf222e; background: #cf222e1c; }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


def tag(name: str, /, *children: Node, **attributes: str) -> Element:
    """Return an element. `class_` stands for `class`, and an underscore within a name for a hyphen."""
    element = Element(name, {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()})
    last: Element | None = None
    for child in children:
        if isinstance(child, Element):
            element.append(child)
            last = child
        elif last is None:
            element.text = (element.text or "") + child
        else:
            last.tail = (last.tail or "") + child
    return element


def form(action: str, *children: Node, button: str, hidden: dict[str, str] | None = None) -> Element:
    """Return a form that is sent by POST with one button."""
    fields = [tag("input", type="hidden", name=name, value=value) for name, value in (hidden or {}).items()]
    return tag("form", *fields, *children, tag("button", button, type="submit"), method="post", action=action)


def page(title: str, *content: Node, status: int = 200, posts_to: str = "", refresh: int | None = None) -> web.Response:
    """Return a page that loads nothing, runs nothing, and is not kept.

    Its forms send to IMQ and to the origin `posts_to`; `refresh` is in seconds.
    """
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} · IMQ"),
        tag("style", _STYLE),
    ]
    if refresh is not None:
        head.append(tag("meta", http_equiv="refresh", content=str(refresh)))
    html = tag("html", tag("head", *head), tag("body", tag("main", tag("h1", title), *content)), lang="en")
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self' {posts_to}".rstrip()
        + "; base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {
        "Content-Security-Policy": policy,
        "Referrer-Policy": "strict-origin",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    text = "<!doctype html>" + tostring(html, encoding="unicode", method="html")
    return web.Response(text=text, content_type="text/html", charset="utf-8", status=status, headers=headers)
