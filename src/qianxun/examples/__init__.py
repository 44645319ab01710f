"""The example library: four categories of dialogues (问答、病历记录、查询、问候) that show a model how to answer.

Read `library.ExampleLibrary` first: it searches. `schema` has the tables, `store` opens and migrates them, `importing`
takes files (`files`: Excel, JSON) and `insert` their rows; `exact` and `pgvector` find the nearest on SQLite and
PostgreSQL, `keywords` adds words, `results` ranks and formats. `revision` detects changes, `reembed` changes the model,
`statistics` counts. Imports `core`, `text` and `records`; the embedding model is always an argument.
"""
