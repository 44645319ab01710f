"""Tables: `grid` turns cells into a typed table and a table into text, `cells` parses values, `pipes` finds tables
drawn with ``|`` in plain text, `from_metadata` makes one of a document whose metadata say that it is a table,
`corrected_rows` reads rows that somebody wrote anew."""
