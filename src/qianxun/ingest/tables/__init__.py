"""Tables: `grid` turns cells into a typed table and a table into text, `cells` parses values, `pipes` finds tables
drawn with ``|`` in plain text."""
