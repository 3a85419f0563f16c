-- Kineto events -> staging tables. Input: new_events (one row per event, see read.sql) and new_source (one row about
-- each process of each file). What only some files have is in arrows.sql, memory.sql and counters.sql.

CREATE OR REPLACE TEMP VIEW events AS
SELECT e.*, s.rank, s.first_op_id + e.rowid AS op_id, s.base_ns + e.since_base_ns AS start_ns
FROM new_events AS e JOIN new_source AS s USING (source_id, part);

-- B and E pair per thread like brackets: the k-th B at a depth with the k-th E at that depth.
CREATE OR REPLACE TEMP TABLE paired_spans AS
WITH marks AS (
    SELECT
        *, sum(CASE ph WHEN 'B' THEN 1 ELSE -1 END)
            OVER (PARTITION BY source_id, part, pid, tid ORDER BY start_ns, op_id) + CAST(ph = 'E' AS INTEGER) AS depth
    FROM events WHERE lane = 'mark'
),
numbered AS (
    SELECT *, row_number() OVER (PARTITION BY source_id, part, pid, tid, depth, ph ORDER BY start_ns, op_id) AS nth FROM marks
)
SELECT b.source_id, b.rank, b.op_id, e.op_id AS end_op_id, b.cat, b.name, b.pid, b.tid, b.start_ns, e.start_ns - b.start_ns AS duration_ns, b.args
FROM numbered AS b
JOIN numbered AS e
    ON e.ph = 'E' AND b.source_id = e.source_id AND b.part = e.part AND b.pid IS NOT DISTINCT FROM e.pid AND b.tid IS NOT DISTINCT FROM e.tid AND b.depth = e.depth AND b.nth = e.nth
WHERE b.ph = 'B' AND b.depth > 0 AND e.start_ns >= b.start_ns;

-- X and paired B/E events become spans; what has no usable time is counted by lost.sql.
CREATE OR REPLACE TEMP VIEW spans AS
SELECT source_id, rank, op_id, cat, name, pid, tid, start_ns, duration_ns, args FROM events WHERE lane = 'span'
UNION ALL
SELECT source_id, rank, op_id, cat, name, pid, tid, start_ns, duration_ns, args FROM paired_spans;

-- json_transform reads all keys in one pass, for less than json_extract takes for one.

INSERT INTO new_gpu_ops BY NAME
WITH parsed AS (
    SELECT
        s.*,
        d.kind AS of_category,
        json_transform(s.args, '{
            "device": "VARCHAR", "context": "VARCHAR", "stream": "VARCHAR", "correlation": "VARCHAR", "bytes": "VARCHAR",
            "kind": "VARCHAR", "graph node id": "VARCHAR", "direction": "VARCHAR", "size": "VARCHAR",
            "original_stream": "VARCHAR", "graph id": "VARCHAR"
        }') AS a
    FROM spans AS s JOIN device_categories AS d ON s.cat = d.cat
)
SELECT
    rank,
    op_id,
    CASE
        WHEN of_category <> 'kernel' THEN of_category
        WHEN name = 'dma_request' AND a.direction IS NOT NULL THEN 'memcpy'
        WHEN a.kind IN ('HtoD', 'DtoH', 'DtoD', 'PtoP') THEN 'memcpy'
        -- ROCm 7.1 writes copies and fills as the kernels that do them
        WHEN starts_with(name, '__amd_rocclr_copy') THEN 'memcpy'
        WHEN starts_with(name, '__amd_rocclr_fill') THEN 'memset'
        ELSE 'kernel'
    END AS kind,
    coalesce(name, '') AS name,
    coalesce(TRY_CAST(a.device AS INTEGER), TRY_CAST(pid AS INTEGER)) AS device,
    TRY_CAST(a.context AS BIGINT) AS context,
    -- torch may show what a CUDA graph replays on another lane than the stream that it ran on
    coalesce(TRY_CAST(a.original_stream AS BIGINT), TRY_CAST(a.stream AS BIGINT), TRY_CAST(tid AS BIGINT), TRY_CAST(regexp_extract(tid, '\d+$') AS BIGINT)) AS stream,
    start_ns AS start_local_ns,
    duration_ns,
    nullif(TRY_CAST(a.correlation AS BIGINT), 0) AS correlation,
    TRY_CAST(coalesce(a.bytes, CASE WHEN a.direction IS NOT NULL THEN a.size END) AS BIGINT) AS bytes,
    CASE
        WHEN kind = 'kernel' THEN NULL
        WHEN a.direction IS NOT NULL THEN nullif(regexp_replace(a.direction, '^([HD])\w+_TO_([HD])\w+$', '\1to\2'), a.direction)
        ELSE nullif(regexp_extract(name || ' ' || coalesce(a.kind, ''), '\b([HDPA]to[HDPA])\b', 1), '')
    END AS copy_kind,
    -- CUPTI's number of a node begins with that of its graph; where it does not, nodes count from 0 in each
    CASE
        WHEN TRY_CAST(a."graph id" AS INTEGER) > 0 AND TRY_CAST(a."graph node id" AS UINTEGER) IS NOT NULL
            THEN TRY_CAST(a."graph id" AS INTEGER)::BIGINT * 4294967296 + TRY_CAST(a."graph node id" AS UINTEGER)
        ELSE nullif(TRY_CAST(a."graph node id" AS BIGINT), 0)
    END AS graph_node,
    args
FROM parsed;

INSERT INTO new_host_ops BY NAME
WITH parsed AS (
    SELECT
        s.*,
        -- some versions write the ranges of Python code that torch itself marks as operators
        CASE WHEN k.kind = 'op' AND regexp_matches(s.name, '^(ProfilerStep|Optimizer\.\w+|enumerate\(DataLoader\))#') THEN 'annotation' ELSE k.kind END AS kind,
        CASE WHEN k.kind IN ('op', 'runtime', 'driver') THEN json_transform(s.args, '{
            "correlation": "VARCHAR", "Sequence number": "VARCHAR", "Input Dims": "VARCHAR", "Input type": "VARCHAR",
            "Concrete Inputs": "VARCHAR", "kernel_flop": "VARCHAR", "kernel_num_gb": "VARCHAR"
        }') END AS a
    FROM spans AS s JOIN host_categories AS k ON s.cat = k.cat
)
SELECT
    rank,
    op_id,
    kind,
    coalesce(name, '') AS name,
    TRY_CAST(pid AS BIGINT) AS pid,
    TRY_CAST(tid AS BIGINT) AS tid,
    start_ns AS start_local_ns,
    duration_ns,
    0 AS nesting,
    CASE WHEN kind <> 'op' THEN nullif(TRY_CAST(a.correlation AS BIGINT), 0) END AS correlation,
    CASE WHEN kind = 'op' THEN TRY_CAST(a."Sequence number" AS BIGINT) END AS sequence,
    -- 40 bits keep the file small; of an operator with a thousand different calls two share a hash once in two million times
    CASE
        WHEN kind = 'op' AND coalesce(a."Input Dims", a."Input type", a."Concrete Inputs", a.kernel_flop, a.kernel_num_gb) IS NOT NULL
            THEN CAST(hash(a."Input Dims", a."Input type", a."Concrete Inputs", a.kernel_flop, a.kernel_num_gb) & 1099511627775 AS BIGINT)
    END AS arguments_hash,
    args
FROM parsed;

-- arrows.sql fills it; where a file has no arrows it stays empty.
CREATE OR REPLACE TEMP TABLE paired_arrow_ends (rank INTEGER, event_id BIGINT, side VARCHAR, cat VARCHAR, id VARCHAR, op_id BIGINT);

INSERT INTO base.other_events BY NAME
SELECT
    rank, op_id, source_id,
    ph AS phase, cat AS category, name, pid, tid, start_ns AS start_local_ns, duration_ns, args
FROM events WHERE lane = 'other'
UNION ALL
SELECT
    rank, op_id, source_id,
    'X' AS phase, cat AS category, name, pid, tid, start_ns AS start_local_ns, duration_ns, args
FROM spans
WHERE cat IS NULL OR cat NOT IN (
    SELECT cat FROM host_categories UNION ALL SELECT cat FROM device_categories
);
