-- What is too short to be seen of the threads of a rank, in stretches of 2^shift ns: by where it begins.
SELECT
    thread,
    depth,
    CAST(list_position(['op', 'annotation', 'python', 'runtime', 'driver', 'nvtx', 'os', 'mpi'], kind) - 1 AS UTINYINT) AS kind,
    start_ns >> $shift AS block,
    CAST(sum(duration_ns) AS BIGINT) AS busy_ns,
    count(*) AS ops
FROM memory.explorer.host_within($from_ns, $until_ns, $low, $high, $short, $rank)
WHERE duration_ns < $least_ns
GROUP BY ALL
