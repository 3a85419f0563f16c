-- MPI's collectives and messages, with the communicator that each ran in. Input: new_host_ops of kind 'mpi',
-- nsys_mpi_ranks, nsys_mpi_communicators.
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
        c.*, h.rank, h.tid, h.start_local_ns, h.duration_ns, r.rank AS mpi_rank,
        collective_op(h.name) AS op,
        -- MPI_Isend, MPI_Iallreduce: the call only starts the operation
        regexp_matches(h.name, '^MPI_I[a-z]') AS starts_only
    FROM calls AS c
    JOIN new_host_ops AS h USING (op_id)
    JOIN nsys_mpi_ranks AS r ON nsys_process(c.globalTid) = r.process
    WHERE h.kind = 'mpi' AND h.rank IS NOT NULL
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
    SELECT nsys_process(globalTid) AS process, requestHandle AS request, start, max("end") AS done
    FROM nsys_mpi_start_wait_events JOIN new_host_ops AS h USING (op_id)
    WHERE h.kind = 'mpi' AND regexp_matches(h.name, '^MPI_(Wait|Test)') AND "end" IS NOT NULL
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
    ON nsys_process(p.globalTid) = w.process AND p.requestHandle = w.request AND p."end" <= w.start
-- without the wait nobody knows when it ended
WHERE NOT p.starts_only OR w.done IS NOT NULL;
