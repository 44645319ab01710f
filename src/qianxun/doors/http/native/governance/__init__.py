"""Routes of what operators account for: `audit` is the one to read first. Each module has a ``router``."""
