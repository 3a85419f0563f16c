-- MPI calls as host ops; mpi_collectives.sql makes collectives of them.

INSERT INTO new_host_ops BY NAME
WITH
calls AS (
    SELECT * FROM nsys_mpi_collectives_events
    UNION ALL BY NAME SELECT * FROM nsys_mpi_p2p_events
    UNION ALL BY NAME SELECT * FROM nsys_mpi_start_wait_events
    UNION ALL BY NAME SELECT * FROM nsys_mpi_other_events
)
SELECT
    p.rank,
    c.op_id,
    'mpi' AS kind,
    coalesce(n.value, 'unnamed MPI call') AS name,
    nsys_pid(c.globalTid) AS pid,
    nsys_tid(c.globalTid) AS tid,
    c.start + s.base_ns AS start_local_ns,
    coalesce(c."end", s.end_ns) - c.start AS duration_ns,
    -3 AS nesting,
    nsys_args(concat_ws(',',
        nsys_number('size', c.size),
        nsys_number('receive size', c.recvSize),
        nsys_number('root rank', c.rootRank),
        nsys_number('remote rank', c.remoteRank),
        nsys_number('tag', c.tag),
        nsys_number('communicator', c.commHandle),
        nsys_number('communicator uid', c.commUid),
        nsys_number('request', c.requestHandle),
        nsys_member('open', CASE WHEN c."end" IS NULL THEN TRUE END)
    )) AS args
FROM calls AS c
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_strings AS n ON c.textId = n.id
LEFT JOIN nsys_processes AS p ON nsys_process(c.globalTid) = p.process
WHERE nsys_timely(c.start) AND nsys_timely(coalesce(c."end", s.end_ns))
    AND coalesce(c."end", s.end_ns) >= c.start;
