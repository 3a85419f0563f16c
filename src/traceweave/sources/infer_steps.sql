-- Steps where nobody marked them, for ranks that steps.sql found none for. Adds rows to new_steps.
-- Input: new_gpu_ops as link.sql leaves them, new_host_ops, host_names, new_steps, new_ranks, finish_source(step_range).
-- Steps are counted from 0 on every rank. What precedes the first beginning and follows the last is in no step: those
-- may be halves of one.

-- The model, where the profiler recorded modules (with_stack): the module that is in no other one and takes most of the
-- time is called once per step. One call is one pass: then nothing that repeats within it is a step.
CREATE OR REPLACE TEMP TABLE model_calls AS
WITH modules AS (
    SELECT
        rank, pid, tid, name, op_id, start_local_ns, duration_ns,
        coalesce(start_local_ns >= max(start_local_ns + duration_ns) OVER (
            PARTITION BY rank, pid, tid ORDER BY start_local_ns, duration_ns DESC, op_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), TRUE) AS is_outermost
    FROM new_host_ops
    WHERE kind = 'python' AND starts_with(name, 'nn.Module: ') AND rank IS NOT NULL AND rank NOT IN (SELECT rank FROM new_steps)
),
models AS (
    SELECT rank, arg_max(name, (total_ns, name)) AS name
    FROM (SELECT rank, name, sum(duration_ns) AS total_ns FROM modules WHERE is_outermost GROUP BY rank, name)
    GROUP BY rank
)
SELECT rank, op_id, start_local_ns FROM modules JOIN models USING (rank, name) WHERE is_outermost;

INSERT INTO new_steps BY NAME
SELECT rank, step, start_local_ns, next_ns - start_local_ns AS duration_ns, 'module' AS source, NULL AS kind
FROM (
    SELECT
        rank, start_local_ns,
        row_number() OVER by_time - 1 AS step,
        lead(start_local_ns) OVER by_time AS next_ns
    FROM model_calls
    WINDOW by_time AS (PARTITION BY rank ORDER BY start_local_ns, op_id)
)
WHERE next_ns > start_local_ns;

-- The period in which kernels are launched, where a run does the same again and again: a kernel is taken for the
-- beginning of a step if from each of its launches to the next exactly the same kernels are launched, at least three
-- times over. Layers repeat as well. But what is before the first of them and after the last is no part of a layer (an
-- embedding, a head), and of steps it is the end of one and the beginning of another: all kernels of the rank have to be
-- of the period, unless the host waits for the device in each: it looks at what a step gave, not at a layer. One model
-- call or one annotation around everything says that all is one pass. Of several such kernels the one with the most
-- launches is taken, then the one that comes first.
INSERT INTO new_steps BY NAME
WITH launched AS (
    SELECT
        g.rank,
        -- 32 bits: sums of them do not overflow
        CAST(hash(g.name) & 4294967295 AS BIGINT) AS code,
        h.start_local_ns AS at_ns,
        row_number() OVER (PARTITION BY g.rank ORDER BY h.start_local_ns, g.op_id) AS place
    FROM new_gpu_ops AS g JOIN new_host_ops AS h ON h.op_id = g.launch_op_id
    WHERE g.kind = 'kernel' AND g.rank IS NOT NULL
        AND g.rank NOT IN (SELECT rank FROM new_steps UNION ALL SELECT rank FROM model_calls)
        AND (SELECT step_range IS NULL FROM finish_source)
),
summed AS (
    SELECT
        *,
        sum(code) OVER (PARTITION BY rank ORDER BY place ROWS UNBOUNDED PRECEDING) AS codes,
        count(*) OVER (PARTITION BY rank) AS places
    FROM launched
),
turns AS (
    SELECT
        *,
        place - lag(place) OVER again AS length,
        codes - lag(codes) OVER again AS content
    FROM summed
    WINDOW again AS (PARTITION BY rank, code ORDER BY place)
),
periods AS (
    SELECT rank, code, count(*) AS turns, min(place) AS first_place, max(place) AS last_place, max(length) AS length
    FROM turns
    GROUP BY rank, code
    HAVING count(*) > 3
        AND min(length) = max(length) AND min(content) = max(content)
        -- a loop over a few kernels is a benchmark, not a training step
        AND max(length) >= 10
        AND min(place) <= max(length) AND max(places) - max(place) < max(length)
),
best AS MATERIALIZED (
    SELECT
        rank,
        first(code ORDER BY turns DESC, first_place) AS code,
        first(first_place ORDER BY turns DESC, first_place) AS first_place,
        first(last_place ORDER BY turns DESC, first_place) AS last_place,
        first(length ORDER BY turns DESC, first_place) AS length
    FROM periods
    GROUP BY rank
),
-- launches before the first period and after the last that are not of one
strange AS (
    SELECT l.rank
    FROM launched AS l JOIN best AS b USING (rank)
    GROUP BY l.rank, l.code
    HAVING greatest(count(*) FILTER (l.place < b.first_place), count(*) FILTER (l.place >= b.last_place))
        > count(*) FILTER (l.place >= b.first_place AND l.place < b.first_place + b.length)
),
waits AS (
    SELECT h.rank, h.start_local_ns AS at_ns
    FROM new_host_ops AS h
    JOIN (FROM host_names WHERE kind IN ('runtime', 'driver') AND {{ names('synchronizing', 'name') }} IN ('device', 'stream', 'event', 'copy')) AS n
        USING (kind, name)
    WHERE h.rank IN (SELECT rank FROM strange)
),
-- whether the host waits in every period
waited AS (
    SELECT p.rank
    FROM (
        SELECT l.rank, l.at_ns, lead(l.at_ns) OVER (PARTITION BY l.rank ORDER BY l.place) AS next_ns
        FROM launched AS l JOIN best USING (rank, code)
    ) AS p
    ASOF LEFT JOIN waits AS w ON w.rank = p.rank AND p.at_ns <= w.at_ns
    WHERE p.next_ns IS NOT NULL
    GROUP BY p.rank
    HAVING bool_and(coalesce(w.at_ns < p.next_ns, FALSE))
),
enclosed AS (
    SELECT h.rank
    FROM (
        SELECT rank, start_local_ns, start_local_ns + duration_ns AS end_ns
        FROM new_host_ops
        WHERE kind IN ('annotation', 'nvtx')
        QUALIFY count(*) OVER (PARTITION BY rank, name) = 1
    ) AS h
    JOIN (SELECT rank, min(at_ns) AS first_ns, max(at_ns) AS last_ns FROM launched GROUP BY rank) AS l USING (rank)
    WHERE h.start_local_ns <= l.first_ns AND h.end_ns >= l.last_ns
),
bounds AS (
    SELECT
        rank,
        row_number() OVER by_place - 1 AS step,
        at_ns,
        lead(at_ns) OVER by_place AS next_ns
    FROM launched JOIN best USING (rank, code)
    WHERE rank NOT IN (SELECT rank FROM enclosed)
        AND (rank NOT IN (SELECT rank FROM strange) OR rank IN (SELECT rank FROM waited))
    WINDOW by_place AS (PARTITION BY rank ORDER BY place)
)
SELECT rank, step, at_ns AS start_local_ns, next_ns - at_ns AS duration_ns, 'inferred' AS source, NULL AS kind
FROM bounds
WHERE next_ns > at_ns;

-- Of several recordings of a rank, each: nothing is known of the time between them.
INSERT INTO new_steps BY NAME
SELECT
    rank, recording AS step, min(start_local_ns) AS start_local_ns,
    max(start_local_ns + duration_ns) - min(start_local_ns) AS duration_ns, 'recording' AS source, NULL AS kind
FROM (SELECT rank, start_local_ns, duration_ns FROM new_host_ops UNION ALL SELECT rank, start_local_ns, duration_ns FROM new_gpu_ops)
JOIN (SELECT DISTINCT rank, recording FROM new_ranks WHERE recording IS NOT NULL) USING (rank)
WHERE rank NOT IN (SELECT rank FROM new_steps)
GROUP BY rank, recording
HAVING duration_ns > 0;
