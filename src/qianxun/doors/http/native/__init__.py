"""Qianxun's own routes, under ``/v1``: `retrieval` (the one to read first), `layered`, `explain`, `query`; `bases`,
`documents` and `uploads`, `events`; `logs`, `models` (of users), `health`, and `api_docs`, the page ``/docs``.

Responses are in `responses.Envelope`. Each module has a ``router`` that `qianxun.doors.http.app` includes. The
routes of other products' formats reuse response models of `retrieval` and `query`; nothing else is imported.
"""
