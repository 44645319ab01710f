"""The engine: what the doors, and users, call. Wires settings, records, index, models and the packages that use them.

Read `engine.Engine` first: opening, tenants, knowledge bases, adding, searching, asking, deleting; `facades` has
`Engine.admin` and `Engine.logs`; `wiring` makes one of settings. `open_bases` opens, creates and deletes bases;
`configure` checks and applies a base's configuration. `settings` reads files and environment, alone in the package;
`storage`, `embedding_models` and `model_catalog` turn settings into backends and models, plug-ins included.
`blocking` and `shared_engines` are other ways to hold an engine; `example_library` and `standalone_models` open the
example library and models without one. `admin/` is what operators do; `answer_steps`, `display`, `graph_mirror`,
`local_files`, `models_by_name`, `multi_base_search` and `across_tenants` (keys, sizes, why storage failed) are what
doors need besides.

Imports everything below; imported by the doors. Its modules import what only some calls need inside those calls: a
process that searches loads a quarter of the code (`wiring.preload` has the rest, for services).
"""
