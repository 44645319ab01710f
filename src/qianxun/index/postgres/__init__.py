"""The index in PostgreSQL. `index` puts together `writing`, `keywords` (over `postings`), `vectors`, `facts`, `check`;
`tables` has their layout, `server` the connections."""
