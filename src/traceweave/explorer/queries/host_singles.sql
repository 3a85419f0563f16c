-- Operations of a rank's threads that are long enough to be seen, the longest first.
WITH shown AS (
    SELECT * FROM memory.explorer.host_within($from_ns, $until_ns, $low, $high, $short, $rank)
    WHERE duration_ns >= $least_ns
    ORDER BY duration_ns DESC, op_id
    LIMIT $most
)
SELECT
    thread,
    depth,
    CAST(list_position(['op', 'annotation', 'python', 'runtime', 'driver', 'nvtx', 'os', 'mpi'], kind) - 1 AS UTINYINT) AS kind,
    op_id,
    start_ns,
    duration_ns,
    name
FROM shown
ORDER BY thread, depth, start_ns
