"""Plain pages, whose texts are escaped."""

from html import escape

from aiohttp import web

_STYLE = (
    "body{font:16px/1.5 sans-serif;margin:0;color:#1f2328}header{background:#24292f;color:#fff;padding:12px 24px}"
    "main{max-width:640px;margin:32px auto;padding:0 16px}input[type=text]{width:100%;padding:6px;font:inherit;"
    "box-sizing:border-box}button{background:#1f883d;color:#fff;border:0;border-radius:6px;padding:8px 16px;"
    "font:inherit;margin-top:16px}.error{background:#ffebe9;border:1px solid #ff8182;border-radius:6px;padding:8px}"
)


def page(title: str, content: str, *, status: int = 200) -> web.Response:
    """A page of this GitHub; `content` is HTML."""
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f"<header>GitHub (emulator)</header><main><h1>{escape(title)}</h1>{content}</main></html>"
    )
    return web.Response(text=text, content_type="text/html", status=status)


def form(action: str, hidden: dict[str, str], content: str, button: str) -> str:
    """A form with one button, as HTML; `content` is HTML."""
    fields = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">' for name, value in hidden.items()
    )
    return (
        f'<form method="post" action="{escape(action)}">{fields}{content}'
        f'<button type="submit">{escape(button)}</button></form>'
    )


def errors(sentences: list[str]) -> str:
    """What is wrong, as HTML."""
    return "".join(f'<p class="error">Error {escape(sentence)}</p>' for sentence in sentences)
