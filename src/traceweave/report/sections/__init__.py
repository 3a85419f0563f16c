"""The sections of the report, one module each: rows from the database, then their layout."""
