"""The knowledge graph of a base: facts extracted from chunks, the graph derived from them, and modes that search it.

Read `build.graph_of` first: it returns the current graph. `extract` finds names, relations and aliases in one chunk,
without a model (`extract.chunk`) or with one (`extract.llm`); `network` derives and searches the graph in memory.
`llm_build` runs extraction by a language model over a base, `summaries` has the summaries of communities, `context` the
graph context of a question, `modes` the query modes, `curate` what people see and correct. Imports `bases`, `records`,
`retrieve`, `rank`, `question`, `text` and `core`; not `engine`, `indexing` or `answer`.
"""
