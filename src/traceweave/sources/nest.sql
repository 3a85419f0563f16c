-- How host ops lie in each other: parents (op_id, depth, parent_id), the parent being the innermost range of the same
-- thread that encloses the op (as in `nsys stats nvtx_pushpop_trace`). Input: new_host_ops.
-- Ranges of one nesting close in the reverse order they opened; those of two (two NVTX domains) may cross. Where none
-- cross, which is nearly always, all ranges of a thread nest as one and a single sweep does; the rest is mended after it
-- by mend_nesting.sql.
-- What is sorted is narrow (ids and times).

-- A range of no length counts as 1 ns so that it closes after it opened.
CREATE OR REPLACE TEMP TABLE nested_ranges AS
SELECT
    hash(rank, pid, tid) AS thread, nesting,
    start_local_ns AS start_ns, start_local_ns + greatest(duration_ns, 1) AS end_ns, op_id
FROM new_host_ops WHERE nesting IS NOT NULL;

-- Depths and parents within each thread of `ranges` (thread, start_ns, end_ns, op_id): starts and ends in time order, ends
-- first, longer ranges first; the parent is the range one level up that opened last.
CREATE OR REPLACE TEMP MACRO nest(ranges) AS TABLE
WITH edges AS (
    SELECT thread, start_ns AS at_ns, 1 AS change, end_ns, op_id FROM query_table(ranges)
    UNION ALL
    SELECT thread, end_ns AS at_ns, -1 AS change, end_ns, op_id FROM query_table(ranges)
),
counted AS (
    SELECT *, sum(change) OVER (PARTITION BY thread ORDER BY at_ns, change, end_ns DESC, op_id ROWS UNBOUNDED PRECEDING) - 1 AS depth
    FROM edges
),
opened AS (
    SELECT thread, CAST(depth AS INTEGER) AS depth, at_ns AS start_ns, end_ns, op_id FROM counted WHERE change = 1
)
SELECT
    c.thread, c.op_id, c.depth,
    CASE WHEN p.end_ns > c.start_ns THEN p.op_id END AS parent_id,
    coalesce(p.end_ns < c.end_ns, FALSE) AS crosses
FROM opened AS c
ASOF LEFT JOIN opened AS p ON c.thread = p.thread AND c.depth = p.depth + 1 AND c.start_ns >= p.start_ns;

CREATE OR REPLACE TEMP TABLE parents AS FROM nest('nested_ranges');
