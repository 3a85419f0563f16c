-- Whose operations are looked at next (later.sql).
CREATE OR REPLACE TABLE memory.explorer.turn AS SELECT unnest($ranks) AS rank
