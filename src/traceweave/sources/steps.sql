-- The host's step ranges: new_steps (rank, step, start_local_ns, duration_ns, source). Input: new_host_ops,
-- host_names (its kinds and names), finish_source(step_range).
-- Where the user says which ranges are steps (a regular expression on their names), those: numbered by the last number in
-- what it matches, or else by counting them from 0. Otherwise as the run marks them: ProfilerStep#N of the PyTorch
-- profiler, else the numbered ranges ("step 3", "iteration_3", "iter 3/100") of the name that marks most of them.

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
        CASE WHEN step_range IS NOT NULL AND regexp_matches(name, step_range) THEN regexp_extract(name, step_range) END AS matched
    FROM names CROSS JOIN finish_source
)
SELECT name, 'step range' AS family, TRY_CAST(regexp_extract(matched, '(\d+)\D*$', 1) AS BIGINT) AS number
FROM marks WHERE matched IS NOT NULL
UNION ALL
SELECT name, mark.family, CAST(mark.number AS BIGINT) FROM marks WHERE step_range IS NULL AND mark.number <> '';

-- A number that occurs twice in a file keeps its longest range, of several as long the first.
CREATE OR REPLACE TEMP TABLE new_steps AS
WITH marked AS (
    SELECT
        h.rank, h.start_local_ns, h.duration_ns, n.family,
        coalesce(n.number, row_number() OVER (PARTITION BY h.rank, n.number ORDER BY h.start_local_ns, h.op_id) - 1) AS number
    FROM new_host_ops AS h JOIN step_names AS n USING (name)
    WHERE h.kind IN ('annotation', 'nvtx') AND h.rank IS NOT NULL AND h.duration_ns > 0
),
families AS (
    SELECT rank, family, count(DISTINCT number) AS numbers, sum(duration_ns) AS total_ns FROM marked GROUP BY rank, family
),
best AS (
    SELECT rank, arg_max(family, (family = 'ProfilerStep#', numbers, total_ns)) AS family FROM families GROUP BY rank
)
SELECT
    rank,
    number AS step,
    arg_max(start_local_ns, (duration_ns, -start_local_ns)) AS start_local_ns,
    max(duration_ns) AS duration_ns,
    CASE WHEN family = 'ProfilerStep#' THEN 'ProfilerStep' ELSE 'nvtx' END AS source
FROM marked JOIN best USING (rank, family)
GROUP BY rank, family, number;
