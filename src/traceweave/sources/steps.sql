-- The host's step ranges: new_steps (rank, step, start_local_ns, duration_ns, source, kind). Input: new_host_ops,
-- host_names (its kinds and names), finish_source(step_range).
-- Where the user says which ranges are steps (a regular expression on their names), those: numbered by the last number in
-- what it matches, or else by counting them from 0. Otherwise as the run marks them: ProfilerStep#N of the PyTorch
-- profiler; else the ranges in which an inference engine runs one batch (vLLM's execute_context_2(..)_generation_30(..),
-- SGLang's step[DECODE bs=30] and forward_extend), of which the outermost are counted from 0; else the numbered ranges
-- ("step 3", "iteration_3", "iter 3/100") of the name that marks most of them. What nobody marks is in infer_steps.sql.

CREATE OR REPLACE TEMP TABLE step_names AS
WITH
names AS (SELECT DISTINCT name FROM host_names WHERE kind IN ('annotation', 'nvtx')),
marks AS (
    SELECT
        name, step_range,
        regexp_extract(
            name, '^(ProfilerStep#|(?i:(?:train(?:ing)?[ _-]?)?(?:step|iter|iteration)[ _#:=-]*))(\d{1,15})(?: ?(?:/|of) ?\d+)?$',
            ['family', 'number']
        ) AS mark,
        regexp_extract(
            name, '^(?:execute_(?:\d+_)?(?:context|new)_(\d+)(?:\(.*?\))?_(?:generation|cached)_(\d+)|step\[([A-Z_]+)\b.*\]$|forward_(extend|decode|prefill|mixed|idle)$)',
            ['begun', 'continued', 'mode', 'forward']
        ) AS batch,
        CASE WHEN step_range IS NOT NULL AND regexp_matches(name, step_range) THEN regexp_extract(name, step_range) END AS matched
    FROM names CROSS JOIN finish_source
)
SELECT name, 'step range' AS family, TRY_CAST(regexp_extract(matched, '(\d+)\D*$', 1) AS BIGINT) AS number, NULL AS kind
FROM marks WHERE matched IS NOT NULL
UNION ALL
SELECT name, mark.family, CAST(mark.number AS BIGINT), NULL FROM marks WHERE step_range IS NULL AND mark.number <> ''
UNION ALL
SELECT
    name, 'engine', NULL,
    CASE
        WHEN batch.begun <> '' THEN CASE
            WHEN ltrim(batch.begun, '0') = '' THEN 'decode' WHEN ltrim(batch.continued, '0') = '' THEN 'prefill' ELSE 'mixed' END
        WHEN lower(batch.mode || batch.forward) = 'extend' THEN 'prefill'
        ELSE lower(batch.mode || batch.forward)
    END
FROM marks
WHERE
    step_range IS NULL AND batch.begun || batch.mode || batch.forward <> ''
    -- a batch of no request is none: the engine takes leave of those that are done
    AND NOT (batch.begun <> '' AND ltrim(batch.begun || batch.continued, '0') = '');

-- A number that occurs twice in a file keeps its longest range, of several as long the first.
CREATE OR REPLACE TEMP TABLE new_steps AS
WITH ranges AS (
    SELECT
        h.rank, h.op_id, h.start_local_ns, h.duration_ns, n.family, n.number, n.kind,
        -- an engine's batch may lie in a wider range of another of its names
        n.family = 'engine' AND coalesce(h.start_local_ns < max(h.start_local_ns + h.duration_ns) OVER (
            PARTITION BY h.rank, n.family ORDER BY h.start_local_ns, h.duration_ns DESC, h.op_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), FALSE) AS is_inner
    FROM new_host_ops AS h JOIN step_names AS n USING (name)
    WHERE h.kind IN ('annotation', 'nvtx') AND h.rank IS NOT NULL AND h.duration_ns > 0
),
marked AS (
    SELECT * EXCLUDE (number), coalesce(number, row_number() OVER (PARTITION BY rank, family, number ORDER BY start_local_ns, op_id) - 1) AS number
    FROM ranges WHERE NOT is_inner
),
families AS (
    SELECT rank, family, count(DISTINCT number) AS numbers, sum(duration_ns) AS total_ns FROM marked GROUP BY rank, family
),
best AS (
    SELECT rank, arg_max(family, (family = 'ProfilerStep#', family = 'engine', numbers, total_ns)) AS family FROM families GROUP BY rank
)
SELECT
    rank,
    number AS step,
    arg_max(start_local_ns, (duration_ns, -start_local_ns)) AS start_local_ns,
    max(duration_ns) AS duration_ns,
    CASE WHEN family = 'ProfilerStep#' THEN 'ProfilerStep' WHEN family = 'engine' THEN 'engine' ELSE 'nvtx' END AS source,
    arg_max(kind, (duration_ns, -start_local_ns)) AS kind
FROM marked JOIN best USING (rank, family)
GROUP BY rank, family, number;

-- The profiler marks a step when the one before is over, whether or not another follows: the last, in which the rank calls nothing, is none.
DELETE FROM new_steps WHERE (rank, step) IN (
    SELECT (s.rank, any_value(s.step))
    FROM (
        SELECT rank, arg_max(step, start_local_ns) AS step, max(start_local_ns) AS from_ns, arg_max(start_local_ns + duration_ns, start_local_ns) AS to_ns
        FROM new_steps WHERE source = 'ProfilerStep' GROUP BY rank HAVING count(*) > 1
    ) AS s
    JOIN new_host_ops AS h ON h.rank = s.rank AND h.kind IN ('op', 'runtime', 'driver')
    GROUP BY s.rank
    HAVING NOT bool_or(h.start_local_ns BETWEEN s.from_ns AND s.to_ns)
);
