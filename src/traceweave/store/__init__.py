"""The tables: their definition, documentation, and the life of a database file."""
