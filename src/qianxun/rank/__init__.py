"""Ranking, as pure functions over rankings and results. Read `fuse.weighted` first.

    fuse        several rankings to one, and the weights that fit a base
    calibrate   from a fused score to one that means the same for every model
    tiers       strict, document or fuzzy: by similarity and matched words
    rerank      a reranker's scores beside the fused ones; `rank_results`, with
    freshness   what age costs a result, and
    diversify   no result twice
    codes       a code in a question names one thing, which comes first
    mix         a graph's ranking beside a search's

Every constant is defined once, in the module that uses it, with where it comes from. May import `core` and `text`.
"""
