"""The commands, one module a command or group of commands; `app` puts them together.

A command parses its options, works with an engine or a client (`session`), and prints what came of it: as JSON with
``--json``, else with a view. `documents` is a good one to read first. Imported by `app` and by other commands; imports
of `core` and `engine` what is light, and the rest within the command, so that help pages come at once.
"""
