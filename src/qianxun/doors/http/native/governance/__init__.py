"""Routes of what operators account for: `audit`, the one to read first. Each module has a ``router``."""
