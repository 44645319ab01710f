"""The database under the records: `open` connects and migrates, `statements` runs, `counters` number, `postgres` and
`ownership` are about servers, `disk_errors` about files, `acknowledged` counts what was committed."""
