-- Names and how many operations have each, for searching.
INSERT INTO memory.explorer.names SELECT name, any_value(category), count(*) FROM memory.explorer.recorded GROUP BY name
