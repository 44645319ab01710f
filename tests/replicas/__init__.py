"""Several engines on one database: PostgreSQL for the records and for the index."""
