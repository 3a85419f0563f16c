-- Staging tables -> base tables, every op put into its step; the rest is in finish.sql. Of one source, or of several that have no rank in common.
-- Input: new_gpu_ops, new_host_ops as link.sql leaves them, classified (classify.sql), host_names,
-- updates (updates.sql), parents (nesting.py), new_steps (steps.sql), new_collective_calls, new_ranks, finish_source(format, step_range).
-- What is sorted is narrow (ids and times); the wide rows pass by once, through hash joins.

-- Where each host op lies: in its parent, and in the step it starts in.
CREATE OR REPLACE TEMP TABLE placed AS
WITH stepped AS (
    SELECT h.op_id, CASE WHEN h.start_local_ns < s.start_local_ns + s.duration_ns THEN s.step END AS step
    FROM (SELECT rank, op_id, start_local_ns FROM new_host_ops) AS h
    ASOF LEFT JOIN new_steps AS s ON h.rank = s.rank AND h.start_local_ns >= s.start_local_ns
)
SELECT op_id, p.depth, p.parent_id, s.step FROM stepped AS s LEFT JOIN parents AS p USING (op_id);

DROP TABLE parents;  -- what is dropped need not go to disk

INSERT INTO base.host_ops BY NAME
SELECT
    h.rank, h.op_id, source_of(h.op_id) AS source_id, h.kind, h.name, h.pid, h.tid, h.start_local_ns, h.duration_ns,
    p.depth, p.parent_id, p.step, h.correlation, h.sequence, h.arguments_hash, h.args
FROM new_host_ops AS h
LEFT JOIN placed AS p USING (op_id);

-- What a GPU op's launch tells of it: the step, the operator around it if that is known to do one thing, and what most questions ask
-- of the call. Narrow, so that the wide rows pass through one join.
CREATE OR REPLACE TEMP TABLE launched AS
WITH told AS (SELECT kind, name, {{ names('operators', 'name') }} AS class FROM host_names WHERE kind IN ('op', 'nvtx')),
operators AS (SELECT h.op_id, t.class FROM new_host_ops AS h JOIN told AS t USING (kind, name) WHERE t.class IS NOT NULL)
SELECT
    g.op_id, l.step, o.class AS operator_class, h.start_local_ns AS launch_start_local_ns, h.duration_ns AS launch_duration_ns,
    h.pid AS launch_pid, h.tid AS launch_tid, h.name AS launch_call
FROM (SELECT op_id, launch_op_id FROM new_gpu_ops WHERE launch_op_id IS NOT NULL) AS g
JOIN (SELECT op_id, start_local_ns, duration_ns, pid, tid, name FROM new_host_ops) AS h ON h.op_id = g.launch_op_id
JOIN placed AS l ON l.op_id = g.launch_op_id
LEFT JOIN operators AS o ON o.op_id = l.parent_id;

-- Ranks with steps: whether any launch is recorded, and whether the ranges take less than half of the time in which the GPU is: such
-- brief ones mark its steps only if they launched something.
CREATE OR REPLACE TEMP TABLE ranks_with_steps AS
SELECT rank, g.has_launches, 2 * s.marked_ns < g.recorded_ns AS is_brief
FROM (SELECT rank, sum(duration_ns) AS marked_ns FROM new_steps GROUP BY rank) AS s
JOIN (
    SELECT rank, count(launch_op_id) > 0 AS has_launches, max(start_local_ns + duration_ns) - min(start_local_ns) AS recorded_ns
    FROM new_gpu_ops GROUP BY rank
) AS g USING (rank);

-- Where no launch of a rank is recorded, an op is of the step whose range it starts in.
INSERT INTO launched BY NAME
SELECT g.op_id, s.step
FROM (
    SELECT rank, op_id, start_local_ns FROM new_gpu_ops
    WHERE rank IN (SELECT rank FROM ranks_with_steps WHERE NOT has_launches AND NOT is_brief)
) AS g
ASOF JOIN new_steps AS s ON g.rank = s.rank AND g.start_local_ns >= s.start_local_ns
WHERE g.start_local_ns < s.start_local_ns + s.duration_ns;

-- Nothing runs before it is launched: in recorded runs ops start 43 us before the call at most, as clocks go. What starts a
-- millisecond before has no time that can be used (0, or damaged), unless so many do that the device has a clock of its own.
CREATE OR REPLACE TEMP TABLE early_ops AS
WITH early AS (
    SELECT g.rank, g.op_id, g.launch_op_id, l.step, l.launch_start_local_ns > g.start_local_ns + 1000000 AS is_early
    FROM (SELECT rank, op_id, launch_op_id, start_local_ns FROM new_gpu_ops) AS g JOIN launched AS l USING (op_id)
)
SELECT rank, op_id, launch_op_id, step FROM early WHERE is_early
QUALIFY 20 * count(*) OVER (PARTITION BY rank) <= (SELECT count(*) FROM early AS e WHERE e.rank = early.rank);

DELETE FROM new_gpu_ops WHERE op_id IN (SELECT op_id FROM early_ops);
DELETE FROM new_collective_calls WHERE gpu_op_id IN (SELECT op_id FROM early_ops);
DELETE FROM launched WHERE op_id IN (SELECT op_id FROM early_ops);

-- What a kernel computes is told by its operator, else by its name.
INSERT INTO base.gpu_ops BY NAME
WITH told AS (
    SELECT
        g.*, l.* EXCLUDE (op_id), c.category, c.class AS class_of_name,
        coalesce(CASE WHEN g.kind = 'kernel' AND c.category = 'compute' THEN l.operator_class END, u.class) AS class_of_operator
    FROM new_gpu_ops AS g
    LEFT JOIN classified AS c USING (kind, name)
    LEFT JOIN launched AS l USING (op_id)
    LEFT JOIN updates AS u USING (op_id)
)
SELECT
    t.* EXCLUDE (operator_class, class_of_name, class_of_operator),
    source_of(op_id) AS source_id,
    coalesce(class_of_operator, class_of_name) AS class,
    CASE WHEN kind = 'kernel' THEN CASE WHEN class_of_operator IS NULL THEN 'name' ELSE 'operator' END END AS class_source
FROM told AS t;
