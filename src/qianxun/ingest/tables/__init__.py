"""Tables: a grid of cells to a typed table, and a table to text.

grid            cells as a file has them, merged ones in every slot
headers         which rows are the header, the title and the notes
read_table      the table of a grid (read this first); its columns typed by `cells`
render          a table as lines of text
pipes           tables drawn with ``|`` in plain text
from_metadata   a document whose metadata say that it is a table
corrected_rows  rows that somebody wrote anew
"""
