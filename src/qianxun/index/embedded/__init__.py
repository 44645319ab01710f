"""The index in a folder. `index` puts together `keywords/` (tantivy) and `store` (rows, `vectors`, `facts`, `codes`),
whose files `extents` appends to and checks."""
