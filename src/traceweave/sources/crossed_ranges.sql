-- Ranges of threads on which some cross, each nesting by itself. Input: parents and nested_ranges of nesting.py.

-- If any two ranges of a thread cross, the later of the first such pair sticks out of its parent.
CREATE OR REPLACE TEMP TABLE crossed_ranges AS
WITH suspects AS (
    SELECT * FROM nested_ranges SEMI JOIN (SELECT thread FROM parents WHERE crosses) USING (thread)
),
mixed AS (SELECT thread FROM suspects GROUP BY thread HAVING count(DISTINCT nesting) > 1)
SELECT
    hash(thread, nesting) AS thread, thread AS of_thread, start_ns, end_ns, op_id,
    row_number() OVER (PARTITION BY of_thread ORDER BY start_ns, end_ns DESC, op_id) AS place
FROM suspects SEMI JOIN mixed USING (thread)
ORDER BY thread, start_ns, end_ns DESC, op_id;
