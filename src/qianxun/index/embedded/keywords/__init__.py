"""The keyword half of the index in a folder: BM25 over words and grams, on tantivy.

Read `search.match` first: the best entries for a query. The order of the rest:

    tantivy_index   the index: created, written, opened; its views
    checksums       its files, compared with what was written
    open_indexes    which of them are open
    postings        where a term occurs and how often; searches among some of the entries
    saved_postings  the same, kept from one opening to the next
    population      BM25 among some of the entries, as if there were no others
    live_scores     the scores of live rows alone, where many have died
"""
