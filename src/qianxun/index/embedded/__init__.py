"""The index in a folder. `backend.create` opens it: an `index.EmbeddedIndex` for every base.

index      reads and writes one index, of the two halves: the files of `store`, and `keywords/` (tantivy)
store      the files of rows, vectors, facts and codes, which `extents` appends to and checks
rows       rows in memory
vectors    nearest vectors, one by one or by `codes`; `precision`, `products`, `saved_lists` serve them
facts      what filters are about
members    which rows belong to a population
reader     the same index in a process that only searches
"""
