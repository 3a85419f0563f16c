-- Parents of ranges that cross others of their thread. Input: parents, crossed_ranges, and parents_apart, which says how those
-- of one nesting lie in each other.

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
    SELECT k.op_id, k.end_ns, c.op_id AS outer_id, c.start_ns AS outer_start_ns, c.end_ns AS outer_end_ns, c.place
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
