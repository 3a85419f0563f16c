-- What is filled while the run is already looked at (levels.py), and as ranks are unfolded (views.py).
-- Levels of detail: blocks of 2^shift ns, for views of runs that are too long to be read for each.
CREATE TABLE memory.explorer.levels (shift INTEGER, lane SMALLINT, category UTINYINT, block BIGINT, busy_ns BIGINT, ops BIGINT);
-- the operations that they are made of: those of the ranks whose turn it is
CREATE TABLE memory.explorer.turn (rank INTEGER);
CREATE VIEW memory.explorer.in_turn AS
SELECT lane, code AS category, start_ns, duration_ns
FROM memory.explorer.placed
WHERE rank IN (FROM memory.explorer.turn);
-- how long each operation that carries a collective waits for the last rank
CREATE TABLE memory.explorer.waits (op_id BIGINT, wait_ns BIGINT);
-- names, to search in
CREATE TABLE memory.explorer.names (name VARCHAR, category VARCHAR, ops BIGINT);
