-- Operations of temp.hits that are long enough to be seen, the longest first if they are too many. wait_ns: how long a collective
-- waits for its last rank.
WITH shown AS (
    SELECT * FROM hits WHERE duration_ns >= $least_ns ORDER BY duration_ns DESC, op_id LIMIT $most
)
SELECT s.lane, s.category, s.op_id, s.start_ns, s.duration_ns, s.class, s.name, coalesce(s.step, -1) AS step, coalesce(w.wait_ns, 0) AS wait_ns
FROM shown AS s LEFT JOIN memory.explorer.waits AS w USING (op_id)
ORDER BY s.lane, s.start_ns, s.duration_ns DESC, s.op_id
