"""What every other package shares: the values that flow, the options that may be chosen, the errors, the plug-in
points.

Read `types` first (documents, chunks, queries, results), then `options` (every option of a search or a question,
defined once, as `option_fields` has it) and `ports` (what can be plugged in). `filters` defines filters and their forms
in JSON; `answer_types`, `graph_types`, `layered_types`, `explanation`, `evaluation_types`, `log_types`, `model_types`
and `ingest_types` are the values of one subject each, `governance` those of what people decide; `limits` has the bounds
that several packages share; `errors` is the tree of errors.

`codec` writes values as JSON and reads them, `plugins` finds what other packages bring, `foreign` takes models of other
libraries as ours, `system` has what is asked of the machine: durable files, memory, slots, the one cache.

Imports nothing of ours. `options`, `filters`, `limits` and `errors` do without numpy: the command line starts with
them.
"""
