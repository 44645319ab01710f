"""The keyword half of the index in a folder: BM25 over words and grams, on tantivy.

Read `tantivy_index.Keywords` first: the index and its views. The order of the rest:

    open_indexes    which of them are open
    population      BM25 among some of the entries, as if there were no others
    saved_postings  where terms occur, kept from one opening to the next
    live_scores     the scores of live rows alone, where many have died
"""
