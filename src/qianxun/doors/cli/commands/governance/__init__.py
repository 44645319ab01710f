"""Commands about what operators account for: `audit` is the one to read first."""
