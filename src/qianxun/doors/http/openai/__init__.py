"""Routes in OpenAI's format, so that its clients work with a changed address: ``/v1/chat/completions`` (`chat`, the one
to read first), ``/v1/responses``, ``/v1/vector_stores/{id}/search``, ``/v1/files``, ``/v1/embeddings``, ``/v1/models``.

A knowledge base is a model that chats, and a vector store. Errors have the form `error_formats.openai`. Each module
has a ``router`` that `qianxun.doors.http.app` includes; nothing else is imported from here.
"""
