"""Retrieval: from a query to ranked, explained results. Read `run.recall` first, then the steps in its order:

    query_plan        documents that the text names, rewritings, a guessed correction
    arms/, run_arms   the ways of finding chunks, side by side, each under the deadline
    fuse              one ranking of candidates, weighted by signal
    candidate_pool    keys meet the records: what has been deleted or is filtered out goes no further
    rerank_and_tiers  which candidates become results, and in which order
    run               the whole search, and the cached and logged one
    explain           why a chunk was, or was not, returned
    recall_cache, search_log, timings, terms/ (related words of a query), hybrid_search (for the writing platform)
    layered/          prose and tables, layer by layer

Imported by `graph`, `answer`, `jobs` and `engine`, module by module. May import `core`, `text`, `records`, `rank`,
`models`, `bases` and `answer.tables`.
"""
