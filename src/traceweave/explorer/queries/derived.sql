-- What the explorer derives of a run when it is opened, and as ranks are unfolded.

-- query: origin
-- Where the run begins and ends, with what host and devices did, on the common clock.
CREATE TABLE memory.explorer.origin AS
WITH known AS (
    SELECT first_local_ns, last_local_ns, c.*
    FROM base.rank_sources JOIN memory.explorer.clocks AS c USING (rank)
    WHERE first_local_ns IS NOT NULL
    UNION ALL
    SELECT first_local_ns, last_local_ns, rank, offset_ns, drift_ppm, reference_local_ns, pieces FROM memory.explorer.lanes
)
SELECT
    coalesce(min(base.align_by(first_local_ns, first_local_ns, offset_ns, drift_ppm, reference_local_ns, pieces)), 0) AS origin_ns,
    coalesce(max(base.align_by(last_local_ns, last_local_ns, offset_ns, drift_ppm, reference_local_ns, pieces)), 0) AS until_ns
FROM known;

-- query: ranks
-- The ranks, and how far their clocks can be trusted.
SELECT r.rank, r.host, r.device, r.gpu_name, r.pid, c.status AS clock, c.residual_p95_ns AS resolution_ns
FROM ranks AS r LEFT JOIN (SELECT DISTINCT ON (rank) * FROM clocks ORDER BY rank, from_local_ns NULLS FIRST) AS c USING (rank)
ORDER BY r.rank

-- query: clocks
-- The clock of each rank, in one row.
CREATE TABLE memory.explorer.clocks AS FROM base.rank_clocks;

-- query: steps
-- When each step begins and ends: by its device windows over all ranks, where there are any; at most 20,000 of them.
WITH known AS (
    SELECT
        step,
        min(coalesce(device_start_ns, start_ns)) - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns,
        max(coalesce(device_end_ns, end_ns)) - (SELECT origin_ns FROM memory.explorer.origin) AS end_ns,
        bool_or(source IN ('inferred', 'module', 'recording')) AS is_inferred
    FROM steps
    GROUP BY step
)
SELECT step, start_ns, end_ns, is_inferred
FROM known
QUALIFY (row_number() OVER (ORDER BY start_ns, step) - 1) % (count(*) OVER () // 20000 + 1) = 0
ORDER BY start_ns, step

-- query: recorded_gpu
-- The operations that are drawn, each on its rank's own clock.
CREATE VIEW memory.explorer.recorded AS
SELECT rank, device, stream, op_id, category, class, name, step, start_local_ns, duration_ns
FROM run.base.gpu_ops
WHERE rank IS NOT NULL;

-- query: recorded_cpu
-- The operations that are drawn in a run without GPU activity, each on its rank's own clock: what `device_ops` has for it.
CREATE TABLE memory.explorer.recorded AS
SELECT rank, device, stream, op_id, category, CASE category WHEN 'communication' THEN 'collective' ELSE 'op' END AS class, name, step, start_local_ns, duration_ns
FROM device_ops
ORDER BY rank, start_local_ns;

-- query: lanes
-- What the explorer draws on: one row per stream of every rank (in a run without a GPU per host thread), with the rank's clock,
-- so that one join aligns its operations. `lane` numbers them in the order in which they are shown.
CREATE TABLE memory.explorer.lanes AS
WITH streams AS (
    SELECT
        rank,
        device,
        stream,
        count(*) AS ops,
        CAST(sum(duration_ns) AS BIGINT) AS busy_ns,
        min(start_local_ns) AS first_local_ns,
        max(start_local_ns + duration_ns) AS last_local_ns,
        sum(duration_ns) FILTER (category = 'compute') AS compute_ns,
        sum(duration_ns) FILTER (category = 'communication') AS communication_ns
    FROM memory.explorer.recorded
    GROUP BY rank, device, stream
)
SELECT
    CAST(row_number() OVER (ORDER BY s.rank, s.device, coalesce(compute_ns, 0) < coalesce(communication_ns, 0), busy_ns DESC, s.stream) - 1
        AS SMALLINT) AS lane,
    s.rank,
    s.device,
    s.stream,
    CASE
        WHEN coalesce(compute_ns, 0) >= busy_ns / 2 THEN 'compute'
        WHEN coalesce(communication_ns, 0) >= busy_ns / 2 THEN 'communication'
        ELSE 'copies'
    END AS label,
    s.ops,
    s.busy_ns,
    s.first_local_ns,
    s.last_local_ns,
    c.* EXCLUDE (rank)
FROM streams AS s JOIN memory.explorer.clocks AS c USING (rank)
ORDER BY lane;

-- query: placed
-- The operations on their lanes; times count from the beginning of the run.
CREATE VIEW memory.explorer.placed AS
SELECT
    l.lane,
    l.rank,
    CAST(CASE o.category WHEN 'compute' THEN 0 WHEN 'communication' THEN 1 ELSE 2 END AS UTINYINT) AS code,
    o.* EXCLUDE (rank),
    run.base.align_by(o.start_local_ns, o.start_local_ns, l.offset_ns, l.drift_ppm, l.reference_local_ns, l.pieces)
        - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns
FROM memory.explorer.recorded AS o
JOIN memory.explorer.lanes AS l
    ON l.rank = o.rank AND l.device IS NOT DISTINCT FROM o.device AND l.stream IS NOT DISTINCT FROM o.stream;

-- query: threads
-- Host threads of the ranks that were unfolded (threads_of_rank).
CREATE TABLE memory.explorer.threads (
    rank INTEGER, thread INTEGER, pid BIGINT, tid BIGINT, label VARCHAR, depths INTEGER, ops BIGINT
);

-- query: threads_of_rank
INSERT INTO memory.explorer.threads
WITH names AS (
    SELECT
        TRY_CAST(pid AS BIGINT) AS pid, TRY_CAST(tid AS BIGINT) AS tid,
        min(regexp_extract(args ->> '$.name', '\(([^()]+)\)\s*$', 1)) AS name
    FROM other_events
    WHERE rank = $rank AND phase = 'M' AND name = 'thread_name'
    GROUP BY ALL
),
threads AS (
    SELECT
        pid, tid, max(coalesce(depth, 0)) + 1 AS depths, count(*) AS ops, bool_or(starts_with(name, 'autograd::engine')) AS autograd
    FROM base.host_ops
    WHERE rank = $rank
    GROUP BY pid, tid
)
SELECT
    $rank,
    row_number() OVER (ORDER BY t.pid IS DISTINCT FROM t.tid, NOT t.autograd, t.ops DESC, t.pid, t.tid) - 1,
    t.pid,
    t.tid,
    CASE WHEN t.pid = t.tid THEN 'main' WHEN t.autograd THEN 'autograd' ELSE nullif(n.name, '') END,
    t.depths,
    t.ops
FROM threads AS t LEFT JOIN names AS n ON n.pid IS NOT DISTINCT FROM t.pid AND n.tid IS NOT DISTINCT FROM t.tid

-- query: threads_shown
SELECT thread, pid, tid, label, depths, ops FROM memory.explorer.threads WHERE rank = $rank ORDER BY thread

-- query: computed
-- What analyses said of ranks that were asked about (analysed.py), times from the beginning of the run.
CREATE TABLE memory.explorer.gaps (rank INTEGER, start_ns BIGINT, duration_ns BIGINT, cause VARCHAR, host_op VARCHAR);
CREATE TABLE memory.explorer.path (rank INTEGER, start_ns BIGINT, duration_ns BIGINT, kind VARCHAR, what VARCHAR);

-- query: names
-- Names and how many operations have each, for searching.
INSERT INTO memory.explorer.names SELECT name, any_value(category), count(*) FROM memory.explorer.recorded GROUP BY name

-- query: waits
-- How long each operation that carries a collective waited for the last rank, within its length. A send half waits for nobody.
INSERT INTO memory.explorer.waits
SELECT coalesce(k.gpu_op_id, k.host_op_id) AS op_id, max(least(greatest(i.awaited_ns - k.start_ns, 0), k.duration_ns))
FROM collectives AS k JOIN collective_instances AS i USING (collective_id)
WHERE i.ranks_seen >= 2 AND NOT i.is_buffered AND awaits_others(i.op, i.root, k.rank) AND k.receive_op_id IS NULL AND coalesce(k.gpu_op_id, k.host_op_id) IS NOT NULL
GROUP BY ALL

-- query: later
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

-- query: turn
-- Whose operations are looked at next (later).
CREATE OR REPLACE TABLE memory.explorer.turn AS SELECT unnest($ranks) AS rank

-- query: level
-- A level of the ranks whose turn it is, from their operations.
INSERT INTO memory.explorer.levels
SELECT $shift, * FROM memory.explorer.blocks('memory.explorer.in_turn', 0, $until_ns, $shift)
ORDER BY lane, block

-- query: coarser_level
INSERT INTO memory.explorer.levels
SELECT $shift + $by, lane, category, block >> $by, sum(busy_ns), sum(ops)
FROM memory.explorer.levels
WHERE shift = $shift AND lane IN (SELECT lane FROM memory.explorer.lanes WHERE list_contains($ranks, rank))
GROUP BY lane, category, block >> $by
ORDER BY lane, block >> $by
