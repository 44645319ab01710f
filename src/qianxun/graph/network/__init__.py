"""The graph in memory: a pure function of the facts of chunks, searched without the records.

Read `knowledge_graph.KnowledgeGraph` first. `columns` has the facts as numbers, `aliases` which names are one entity's,
`relations` their columns, weights and centrality, `communities` the partition. `entity_linking` finds entities in a
question, `local_search` (with `walk`) and `global_search` answer it, `summaries` describes communities. Imports `core`,
`text`, `question` and `graph.extract`.
"""
