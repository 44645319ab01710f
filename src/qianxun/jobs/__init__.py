"""What runs in the background of an open engine, beside the tasks that learn words and extract graph facts.

`background.run_indexer` works through the outbox and the retries of all bases; `graph_worker.run_graph_models` has
language models read bases for their graphs; `follow_writes` begins what follows the writes of other processes. They go
on until they are cancelled. `repair.Repairs` rebuilds indexes that searches find damaged; `operations.Operations` runs
what people start and look at again later; `redis_events` takes document events from a stream; `webhooks` sends events
to the addresses of tenants. Started by `engine`.
"""
