"""What operators do to a set-up, mostly without an engine: the command line is its door.

`database` opens the records that the settings name, also while another process owns the data folder; read it first.
`keys`, `bases`, `models`, `examples`, `doctor` and `copy` build on it. `sync`, `graph`, `evaluate`, `evaluation_sets`
and `tune` work with an engine: folders that a base follows, graphs built in one go, experiments on labelled datasets,
labelled questions that stay with a base, settings tried on them; `sessions` are those of browsers that signed in with a
key. A value of a lower package that a door needs is exported by the module that returns it. Imported by doors; imports
anything below `engine`, and `engine`.
"""
