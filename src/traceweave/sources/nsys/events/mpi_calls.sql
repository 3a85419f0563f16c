-- MPI calls as host ops; mpi_collectives.sql makes collectives of them. Where nsys has no tables of them (before 2023), they are
-- NVTX ranges of a domain 'MPI', which tell a call's name and nothing else. A program may have a domain so named, too.

CREATE OR REPLACE TEMP TABLE nsys_mpi_calls AS
WITH
rows AS (
    SELECT * FROM nsys_mpi_collectives_events
    UNION ALL BY NAME SELECT * FROM nsys_mpi_p2p_events
    UNION ALL BY NAME SELECT * FROM nsys_mpi_start_wait_events
    UNION ALL BY NAME SELECT * FROM nsys_mpi_other_events
),
ranges AS (
    SELECT n.op_id, n.start, n."end", n.globalTid, coalesce(n.text, s.value) AS name
    FROM nsys_nvtx_events AS n
    JOIN nsys_nvtx_domains AS d ON nsys_process(n.globalTid) = d.process AND n.domainId = d.domain_id
    LEFT JOIN nsys_strings AS s ON n.textId = s.id
    WHERE d.name = 'MPI' AND n.eventType IN (59, 60, 70, 71) AND starts_with(coalesce(n.text, s.value), 'MPI_')
        AND NOT EXISTS (FROM rows)
)
SELECT r.*, coalesce(s.value, 'unnamed MPI call') AS name
FROM rows AS r LEFT JOIN nsys_strings AS s ON r.textId = s.id
UNION ALL BY NAME FROM ranges;

INSERT INTO new_host_ops BY NAME
SELECT
    p.rank,
    c.op_id,
    'mpi' AS kind,
    c.name,
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
FROM nsys_mpi_calls AS c
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_processes AS p ON nsys_process(c.globalTid) = p.process
WHERE nsys_timely(c.start) AND nsys_timely(coalesce(c."end", s.end_ns))
    AND coalesce(c."end", s.end_ns) >= c.start;
