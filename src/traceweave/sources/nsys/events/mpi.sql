-- MPI calls as host ops, and of its collectives and messages which communicator they ran in. Input also: nsys_mpi_ranks,
-- nsys_mpi_communicators.

INSERT INTO new_host_ops BY NAME
WITH calls AS (
    SELECT * FROM nsys_mpi_collectives_events
    UNION ALL BY NAME SELECT * FROM nsys_mpi_p2p_events
    UNION ALL BY NAME SELECT * FROM nsys_mpi_start_wait_events
    UNION ALL BY NAME SELECT * FROM nsys_mpi_other_events
)
SELECT
    c.rank,
    c.op_id,
    'mpi' AS kind,
    coalesce(n.value, 'unnamed MPI call') AS name,
    c.pid,
    c.tid,
    c.start_local_ns,
    c.duration_ns,
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
FROM calls AS c LEFT JOIN nsys_strings AS n ON c.textId = n.id;

-- What nsys 2023.4 writes as sizes, measured on known buffers (n: ranks of the communicator): a collective's `size` and
-- `recvSize` count what one rank exchanges with all others, so an all-reduce of B bytes has size n * B.
INSERT INTO new_collective_calls BY NAME
WITH
calls AS (
    SELECT * FROM nsys_mpi_collectives_events
    UNION ALL BY NAME SELECT * FROM nsys_mpi_p2p_events
),
named AS (
    SELECT
        c.*, r.rank AS mpi_rank,
        collective_op(h.name) AS op,
        -- MPI_Isend, MPI_Iallreduce: the call only starts the operation
        regexp_matches(h.name, '^MPI_I[a-z]') AS starts_only
    FROM calls AS c
    JOIN new_host_ops AS h USING (op_id)
    JOIN nsys_mpi_ranks AS r ON c.process = r.process
    WHERE c.rank IS NOT NULL
),
-- handles are addresses in a process, used again after a communicator is freed
placed AS (
    SELECT n.*, m.comm, m.comm_rank, m.size AS comm_size
    FROM named AS n
    ASOF LEFT JOIN nsys_mpi_communicators AS m
        ON n.mpi_rank = m.mpi_rank AND n.commHandle = m.handle AND n.start >= m.created
    WHERE n.op <> 'unknown'
),
waits AS (
    SELECT w.process, requestHandle AS request, start, max("end") AS done
    FROM nsys_mpi_start_wait_events AS w JOIN new_host_ops AS h USING (op_id)
    WHERE regexp_matches(h.name, '^MPI_(Wait|Test)') AND "end" IS NOT NULL
    GROUP BY ALL
)
SELECT
    p.rank,
    p.op_id AS host_op_id,
    p.op,
    p.comm AS group_name,
    p.comm_size AS group_size,
    p.comm AS comm_id,
    p.comm_rank,
    nullif(greatest(p.remoteRank, -1), -1) AS comm_peer,
    CASE
        WHEN p.op = 'all_reduce' THEN p.size // p.comm_size
        WHEN p.op = 'broadcast' THEN coalesce(p.recvSize, p.size // p.comm_size)
        WHEN p.op = 'all_gather' THEN p.recvSize
        WHEN p.op = 'gather' THEN p.size * p.comm_size
        WHEN p.op = 'scatter' THEN p.recvSize * p.comm_size
        WHEN p.op <> 'barrier' THEN p.size
    END AS bytes,
    p.tid AS stream,
    p.start_local_ns,
    CASE WHEN p.starts_only THEN w.done - p.start ELSE p.duration_ns END AS duration_ns,
    'host op' AS evidence
FROM placed AS p
ASOF LEFT JOIN waits AS w
    ON p.process = w.process AND p.requestHandle = w.request AND p."end" <= w.start
-- without the wait nobody knows when it ended
WHERE NOT p.starts_only OR w.done IS NOT NULL;
