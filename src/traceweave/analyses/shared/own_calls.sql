-- shared: own_calls | how long each rank without a GPU runs each operator on the same arguments in each step
-- grain: one row per rank, step, name and arguments
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which it was called; NULL outside any step
-- column: name VARCHAR | its name
-- column: arguments_hash BIGINT | as in host_ops
-- column: n BIGINT | how often
-- column: ns BIGINT | how long, without the operators inside, and without asking for collectives: only what does the work has the shapes that tell how much it is
WITH RECURSIVE
-- the parts between which an operator waited are one call
operators AS MATERIALIZED (
    SELECT op_id, any_value(rank) AS rank, any_value(step) AS step, any_value(name) AS name, sum(duration_ns) AS ns
    FROM device_ops
    WHERE timeline = 'cpu' AND category = 'compute'
    GROUP BY op_id
),
-- what asks for a collective is none, but lies in one (AccumulateGrad)
asking AS (
    SELECT op_id, duration_ns AS ns
    FROM host_ops
    WHERE kind = 'op' AND op_id IN (SELECT host_op_id FROM collectives) AND {{ names('collective_ranges', 'name') }} = 'issue'
),
timed AS (
    SELECT op_id, ns FROM operators
    UNION ALL
    FROM asking
),
-- ranges may lie between an operator and those inside it
around AS (
    SELECT op_id, parent_id FROM host_ops WHERE op_id IN (SELECT op_id FROM timed) AND parent_id IS NOT NULL
    UNION ALL
    SELECT a.op_id, h.parent_id FROM around AS a JOIN host_ops AS h ON h.op_id = a.parent_id WHERE h.kind = 'annotation' AND h.parent_id IS NOT NULL
),
inside AS (
    SELECT a.parent_id AS op_id, sum(o.ns) AS ns FROM timed AS o JOIN around AS a USING (op_id) GROUP BY ALL
)
SELECT o.rank, o.step, o.name, h.arguments_hash, count(*) AS n, CAST(sum(o.ns - coalesce(i.ns, 0)) AS BIGINT) AS ns
FROM operators AS o JOIN host_ops AS h USING (op_id) LEFT JOIN inside AS i USING (op_id)
GROUP BY ALL
