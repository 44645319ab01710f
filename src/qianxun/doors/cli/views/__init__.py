"""What the commands print for people, and the JSON of what they print.

Read `drawing` first: it has what several commands draw alike, and the labels of ``labels.toml``, which name the keys of
the engine in both languages. The other modules are one a command or group of commands. A view takes a value, prints it
to a console, and does nothing else. Imported by `commands` only; imports types of `core` and `engine`, and at the time
of drawing `engine.display`.
"""
