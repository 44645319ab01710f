"""What people decide about documents, in tables: `validity` is the one to read first. Imports `core` and `records`."""
