"""The console: server-rendered pages over the engine, at ``/`` for browsers. Read `routes` first, then one of `pages`.

How a page is made
    A page is one module of `pages` and one template. The module has ``PAGE`` (`page.Page`: path, title, one
    line) and ``router = APIRouter(route_class=ConsoleRoute)``; `routes.MODULES` lists it, and the navigation
    has it. Handlers take ``engine: TenantEngine`` and return ``render(request, "name.html", …)`` or, after a
    form, ``redirect(…)`` with a note. A template whose name begins with ``_`` is a part of a page: included
    by it, and rendered alone for htmx, at an address as deep as that of its page: addresses in it are relative.

Texts
    Chinese first, in place, with its English beside it: ``{{ t("检索", "Search") }}``; in Python ``Text(zh,
    en)`` for data and ``translate(request, zh, en)`` for messages. The engine's own messages are in Chinese.

Forms
    Every form that changes something is a POST with ``{{ csrf() }}`` and answers with ``redirect``.
    `ConsoleRoute` checks the token before the handler runs; `forms.form` reads the fields. A page shows no
    button to who may not use it (``may_write``), and the guard refuses the request of a read-only key anyway:
    a POST that only reads is listed in ``guard.READ_PATHS``. What is looked for is a GET: it can be shared,
    reloaded and gone back to.

Safety
    The content security policy has no ``unsafe-inline`` and nothing from elsewhere (`headers`): no
    ``<style>``, ``style=``, ``onclick=``, ``hx-on`` or ``<script>`` with text. Widths and plots are SVG
    (`charts`). Values are escaped by the environment; ``|safe`` and ``Markup`` are for `charts` and `marks`,
    which escape what they are given. Addresses are made by ``url(…)``; an address that comes from a document
    is shown as text, never as a link.

Scripts
    htmx for parts that are loaded later (``hx-get``, ``hx-target``); an ES module in ``static/`` only where a
    page must have one. Without any, the same links and forms load whole pages.

Sessions
    The guard reads the cookie of `qianxun.engine.admin.sessions` for pages and nowhere else; `pages.sign_in` sets
    it.
"""
