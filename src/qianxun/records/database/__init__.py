"""The database under the records: `open` connects and migrates, `statements` runs, `counters` number. What differs
between servers is in `server`, with `postgres` and `mysql` behind it; `ownership` and `clock` are about processes that
share one, `migrating` about changes that nothing undoes, `disk_errors` about files."""
