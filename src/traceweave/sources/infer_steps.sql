-- Steps where nobody marked them: a run that does the same again and again shows its period in the order in which its
-- kernels are launched. Adds to new_steps, for ranks that steps.sql found none for, rows with source 'inferred'.
-- Input: new_gpu_ops as link.sql leaves them, new_host_ops, new_steps, finish_source(step_range).
--
-- A kernel is taken for the beginning of a step if from each of its launches to the next exactly the same kernels are
-- launched, at least three times over, and less than one such period lies before the first and after the last. Layers
-- repeat as well, but not from the first kernel of a trace to its last. Of several such kernels the one with the most
-- launches is taken, then the one that comes first. What precedes its first launch and follows its last is in no step:
-- those may be halves of one. Steps are counted from 0 on every rank.

INSERT INTO new_steps BY NAME
WITH launched AS (
    SELECT
        g.rank,
        -- 32 bits: sums of them do not overflow
        CAST(hash(g.name) & 4294967295 AS BIGINT) AS code,
        h.start_local_ns AS at_ns,
        row_number() OVER (PARTITION BY g.rank ORDER BY h.start_local_ns, g.op_id) AS place
    FROM new_gpu_ops AS g JOIN new_host_ops AS h ON h.op_id = g.launch_op_id
    WHERE g.kind = 'kernel' AND g.rank IS NOT NULL AND g.rank NOT IN (SELECT rank FROM new_steps)
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
    SELECT rank, code, count(*) AS turns, min(place) AS first_place
    FROM turns
    GROUP BY rank, code
    HAVING count(*) > 3
        AND min(length) = max(length) AND min(content) = max(content)
        -- a loop over a few kernels is a benchmark, not a training step
        AND max(length) >= 10
        AND min(place) <= max(length) AND max(places) - max(place) < max(length)
),
best AS (
    SELECT rank, first(code ORDER BY turns DESC, first_place) AS code FROM periods GROUP BY rank
),
bounds AS (
    SELECT
        rank,
        row_number() OVER by_place - 1 AS step,
        at_ns,
        lead(at_ns) OVER by_place AS next_ns
    FROM launched JOIN best USING (rank, code)
    WINDOW by_place AS (PARTITION BY rank ORDER BY place)
)
SELECT rank, step, at_ns AS start_local_ns, next_ns - at_ns AS duration_ns, 'inferred' AS source
FROM bounds
WHERE next_ns > at_ns;
