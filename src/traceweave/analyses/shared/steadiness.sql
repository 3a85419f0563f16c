-- shared: steadiness | how steady the steps are, by the length that the analysis steps gives them
-- grain: one row; none without steps
-- column: steps BIGINT | different steps
-- column: mean_ns DOUBLE | mean length
-- column: p50_ns BIGINT | median length
-- column: p95_ns BIGINT | 95th percentile
-- column: max_ns BIGINT | longest
-- column: longest BIGINT | the longest step
-- column: rank INTEGER | the rank that was longest in it
-- column: source VARCHAR | 'device' or 'host': what the lengths are of
-- column: device_min_ns BIGINT | shortest device window over the steps, mean over the ranks; NULL without any
-- column: device_max_ns BIGINT | longest
-- column: inferred_from VARCHAR | what steps are inferred from, in words; NULL: ranges mark them
-- column: long_steps BIGINT[] | those that take longer than the median by half of what the longest does, or more
WITH lengths AS (
    SELECT s.*, w.device_ns
    FROM {{ ref('steps') }} AS s
    LEFT JOIN (
        SELECT step, CAST(avg(device_end_local_ns - device_start_local_ns) AS BIGINT) AS device_ns FROM steps GROUP BY step
    ) AS w USING (step)
    -- a step that launched nothing, in a run that has a GPU, is none
    WHERE s.length_source = 'device' OR s.device_ranks > 0 OR NOT EXISTS (FROM steps WHERE device_start_local_ns IS NOT NULL)
)
SELECT t.*, (SELECT list(step ORDER BY step) FROM lengths WHERE 2 * (length_ns - t.p50_ns) >= t.max_ns - t.p50_ns) AS long_steps
FROM (
    SELECT
        count(*) AS steps,
        avg(length_ns) AS mean_ns,
        tw_percentile(length_ns, 0.5) AS p50_ns,
        tw_percentile(length_ns, 0.95) AS p95_ns,
        max(length_ns) AS max_ns,
        arg_max(step, (length_ns, -step)) AS longest,
        arg_max(longest_rank, (length_ns, -step)) AS rank,
        any_value(length_source) AS source,
        min(device_ns) AS device_min_ns,
        max(device_ns) AS device_max_ns,
        (SELECT CASE WHEN bool_or(source = 'inferred') THEN 'kernels that repeat' WHEN bool_or(source = 'module') THEN 'calls of the model'
            WHEN bool_or(source = 'recording') THEN 'recordings, each of which counts as one' END FROM steps) AS inferred_from
    FROM lengths
    HAVING count(*) > 0
) AS t
