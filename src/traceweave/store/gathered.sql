-- What weaving needs to know of GPU ops, so that matching and clocks read nothing else of the large tables. Views in a database file,
-- tables in that of a run folder: there each batch of ranks hands in the rows of its own.

-- the kernels of calls that no group is named for
CREATE VIEW base.call_kernels AS
SELECT c.call_id, c.source_id, g.name, json_extract_string(g.args, '$.grid') AS grid
FROM base.known_calls AS c JOIN base.gpu_ops AS g ON g.op_id = c.gpu_op_id
WHERE c.group_name IS NULL AND c.comm_id IS NULL;

-- the streams that also compute, asked only where there are such calls
CREATE VIEW base.compute_streams AS
SELECT DISTINCT rank, source_id, stream
FROM base.gpu_ops
WHERE category = 'compute' AND rank IS NOT NULL
    AND EXISTS (FROM base.known_calls WHERE group_name IS NULL AND comm_id IS NULL);
