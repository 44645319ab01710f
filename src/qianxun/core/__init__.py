"""What every other package shares: the values that flow, the options that may be chosen, the errors, the plug-in
points.

Read `types` first (documents, chunks, queries, results), then `options` (every option of a search or a question,
defined once) and `ports` (what can be plugged in). `filters` defines filters and their forms in JSON; `answer_types`,
`graph_types`, `layered_types`, `table_answer_types`, `explanation`, `log_types`, `model_types` and `ingest_types` are
the values of one subject each; `limits` has the bounds that several packages share; `errors` is the tree of errors.

`codec` writes values as JSON and reads them: `plain` by their declared types, `wire` as HTTP has them, `digests` to
compare them. `sse` reads event streams, `plugins` finds what other packages bring, `cache` is the one cache.

Imports nothing of ours. `options`, `filters`, `limits` and `errors` do without numpy: the command line starts with
them.
"""
