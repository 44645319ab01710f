"""Templates become responses: every value is escaped, every page has its language, navigation and form token.

In templates: ``t(zh, en)`` or ``t(Text)`` is the text in the reader's language, ``url("/console/…", name=value)`` an
address relative to this page (a proxy may have put the service below a path), ``asset(name)`` that of a file of
``static/``. `parts.html` has the macros that pages share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context

from qianxun.core.filters import written_filters
from qianxun.core.system.version import installed_version
from qianxun.core.unicode import UNSAFE, visible_controls
from qianxun.doors.http.console import charts
from qianxun.doors.http.console.assets import assets
from qianxun.doors.http.console.forms import TOKEN_FIELD, VISIT_COOKIE, browser_secret, new_visit, token_of
from qianxun.doors.http.console.headers import HEADERS
from qianxun.doors.http.console.page import LANGUAGES, Language, Page, Text

TEMPLATES: Final = Path(__file__).parent / "templates"
LANGUAGE_COOKIE: Final = "qianxun_lang"
NOTE_COOKIE: Final = "qianxun_note"  # what was just done, for the next page
A_YEAR: Final = 365 * 24 * 3600
NOTE_SECONDS: Final = 30
NOTE_LIMIT: Final = 300  # characters


@cache
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_visible,
    )
    made.globals |= {"version": installed_version()}
    made.globals |= {"line_plot": charts.line_plot, "bar_plot": charts.bar_plot, "score_bar": charts.score_bar}
    made.filters |= {"percent": _percent, "size": _size, "moment": _moment, "iso": _iso, "grouped": "{:,}".format}
    made.filters |= {"shown": _shown, "pair": _pair, "base_pair": lambda base: (base.id, base.name)}
    made.filters["wire_filter"] = lambda where: json.dumps(written_filters(where), ensure_ascii=False)
    return made


def _visible(value: Any) -> Any:
    """Nothing of a document turns the page's text round, or is lost in it."""
    if not isinstance(value, str) or not UNSAFE.search(value):
        return value
    return type(value)(visible_controls(value))


def language_of(request: Request) -> Language:
    """Chinese, unless the reader chose otherwise: by ``?lang=``, which is remembered."""
    for chosen in (request.query_params.get("lang"), request.cookies.get(LANGUAGE_COOKIE)):
        if chosen in LANGUAGES:
            return chosen
    return "zh"


def translate(request: Request, text: Text | str, english: str = "") -> str:
    """A `Text`, or a pair, in the reader's language."""
    zh, en = text if isinstance(text, Text) else (text, english)
    return en if language_of(request) == "en" else zh


def relative(request: Request, path: str, **parameters: Any) -> str:
    """The address of ``path`` as seen from this request: ``../../console/bench``."""
    up = "../" * (request.scope["path"].count("/") - 1)
    pairs = [(name, value) for name, value in parameters.items() if value not in (None, "")]
    given = ((n, v) for n, value in pairs for v in (value if isinstance(value, list | tuple) else [value]))
    query = urlencode([(name, value) for name, value in given if value not in (None, "")])
    return f"{up or './'}{quote(path.removeprefix('/'), safe='/')}" + (f"?{query}" if query else "")


def render(request: Request, template: str, /, status: int = 200, **values: Any) -> Response:
    """A page, or a part of one for htmx: a template whose name begins with ``_``."""
    secret = browser_secret(request)
    is_new = not secret
    secret = secret or new_visit()
    content = environment().get_template(template).render(_common(request, secret), **values)
    response = HTMLResponse(content, status, HEADERS)
    if is_new:
        response.set_cookie(VISIT_COOKIE, secret, httponly=True, samesite="strict", path="/")
    if request.query_params.get("lang") in LANGUAGES:
        language = language_of(request)
        response.set_cookie(LANGUAGE_COOKIE, language, A_YEAR, httponly=True, samesite="strict", path="/")
    if NOTE_COOKIE in request.cookies and not template.startswith("_"):
        response.delete_cookie(NOTE_COOKIE, path="/", httponly=True, samesite="strict")
    return response


def render_part(request: Request, template: str, /, **values: Any) -> str:
    """A part of a page as text: for what is sent in an event of a stream."""
    return environment().get_template(template).render(_common(request, browser_secret(request)), **values)


def redirect(request: Request, path: str, note: str = "", **parameters: Any) -> Response:
    """After a form: on to another page, with a note on what was done."""
    response = Response(status_code=303, headers={**HEADERS, "location": relative(request, path, **parameters)})
    if "hx-request" in request.headers:
        response = Response(headers={**HEADERS, "hx-redirect": relative(request, path, **parameters)})
    if note:
        shown = quote(note[:NOTE_LIMIT])
        response.set_cookie(NOTE_COOKIE, shown, NOTE_SECONDS, httponly=True, samesite="strict", path="/")
    return response


def _common(request: Request, secret: str) -> dict[str, Any]:
    """What every template has."""
    state = request.scope.get("state", {})
    access, path = state.get("access", ""), request.scope["path"]
    pages: Sequence[Page] = getattr(request.app.state, "console_pages", ())
    language = language_of(request)
    other: Language = "zh" if language == "en" else "en"
    return {
        "t": lambda text, english="": translate(request, text, english),
        "lang": language,
        "other_language": _with_language(request, other),
        "url": lambda to, **parameters: relative(request, to, **parameters),
        "asset": lambda name: relative(request, f"/console/static/{name}", v=assets()[name].digest),
        "token": token_of(secret),
        "token_field": TOKEN_FIELD,
        "pages": [page for page in pages if access == "write" or not page.needs_write],
        "current": next((page for page in pages if path == page.path or path.startswith(f"{page.path}/")), None),
        "may_write": access == "write",
        "is_signed_in": state.get("key_id") is not None,
        "is_inside": bool(access),
        "tenant": state.get("tenant", ""),
        "note": unquote(request.cookies.get(NOTE_COOKIE, "")),
        "is_part": "hx-request" in request.headers,
    }


def _with_language(request: Request, language: Language) -> str:
    """This page in another language. A form that was submitted is not submitted again: its page is shown."""
    rest: Mapping[str, list[str]] = {
        name: request.query_params.getlist(name) for name in request.query_params if name != "lang"
    }
    return relative(request, request.scope["path"], **rest, lang=language)


# ── filters ──────────────────────────────────────────────────────────────────────────────────────


def _shown(value: Any) -> str:
    """A value of the metadata."""
    return "、".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@pass_context
def _pair(context: Context, value: str, named: Any = None, table: str = "") -> tuple[str, str]:
    """(value, what it is called) for `parts.select`; ``named(table, value)`` is its `Text`."""
    return value, context["t"](named(table, value)) if named else value


def _percent(share: float, digits: int = 0) -> str:
    return f"{share:.{digits}%}"


def _size(count: float) -> str:
    """Bytes for people: 3.2 MB."""
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GB"


def _time(moment: datetime | str) -> datetime:
    """Without a zone it is UTC, as the records write it."""
    parsed = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _moment(moment: datetime | str) -> str:
    """In the service's own time zone; a script shows the reader's."""
    return _time(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _iso(moment: datetime | str) -> str:
    return _time(moment).astimezone(UTC).isoformat(timespec="seconds")
