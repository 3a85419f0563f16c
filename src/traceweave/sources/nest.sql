-- How host ops lie in each other: parents (op_id, depth, parent_id), the parent being the innermost range of the same
-- thread that encloses the op (as in `nsys stats nvtx_pushpop_trace`). Input: new_host_ops.
-- Ranges of one nesting close in the reverse order they opened; those of two (two NVTX domains) may cross. Where none
-- cross, which is nearly always, all ranges of a thread nest as one and a single sweep does; the rest is mended after it.
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

-- If any two ranges of a thread cross, the later of the first such pair sticks out of its parent.
CREATE OR REPLACE TEMP TABLE crossed_ranges AS
WITH suspects AS (
    SELECT * FROM nested_ranges SEMI JOIN (SELECT thread FROM parents WHERE crosses) USING (thread)
),
mixed AS (SELECT thread FROM suspects GROUP BY thread HAVING count(DISTINCT nesting) > 1)
SELECT
    hash(thread, nesting) AS thread, thread AS of_thread, start_ns, end_ns, op_id,
    row_number() OVER (PARTITION BY of_thread ORDER BY start_ns, end_ns DESC, op_id) AS place
FROM suspects SEMI JOIN mixed USING (thread);

CREATE OR REPLACE TEMP TABLE parents_apart AS FROM nest('crossed_ranges');

-- In each nesting of its thread, a range lies in the last one opened before it, or in the innermost of what that lies in
-- that ends late enough. Of these, one per nesting, the shortest is the parent.
CREATE OR REPLACE TEMP TABLE crossed_parents AS
WITH RECURSIVE
nestings AS (SELECT DISTINCT of_thread, thread FROM crossed_ranges),
climbing AS (
    SELECT r.op_id, r.end_ns, c.op_id AS outer_id, c.start_ns AS outer_start_ns, c.end_ns AS outer_end_ns, c.place
    FROM (SELECT r.op_id, r.end_ns, r.place, n.thread FROM crossed_ranges AS r JOIN nestings AS n USING (of_thread)) AS r
    ASOF JOIN crossed_ranges AS c ON r.thread = c.thread AND r.place > c.place
    UNION ALL
    SELECT k.op_id, k.end_ns, c.op_id, c.start_ns, c.end_ns, c.place
    FROM climbing AS k
    JOIN parents_apart AS p ON k.outer_id = p.op_id
    JOIN crossed_ranges AS c ON p.parent_id = c.op_id
    WHERE k.outer_end_ns < k.end_ns
)
SELECT op_id, arg_max(outer_id, (outer_start_ns - outer_end_ns, place)) AS parent_id
FROM climbing WHERE outer_end_ns >= end_ns GROUP BY op_id;

CREATE OR REPLACE TEMP TABLE mended AS
WITH RECURSIVE descending AS (
    SELECT op_id, 0 AS depth, NULL::BIGINT AS parent_id FROM crossed_ranges ANTI JOIN crossed_parents USING (op_id)
    UNION ALL
    SELECT c.op_id, d.depth + 1, c.parent_id FROM descending AS d JOIN crossed_parents AS c ON d.op_id = c.parent_id
)
FROM descending;

UPDATE parents SET depth = mended.depth, parent_id = mended.parent_id FROM mended WHERE parents.op_id = mended.op_id;
