-- shared: resource_answers | how much memory is in use, and how well the clocks agree, for the screen that health is
-- grain: one row per answer
-- column: line DOUBLE | where it stands in health
-- column: answer VARCHAR | this and the following as in health
-- column: value DOUBLE | the number
-- column: unit VARCHAR | its unit
-- column: verdict VARCHAR | what it says
-- column: rank INTEGER | the rank that it is about
-- column: proof VARCHAR | the analysis that shows the rows behind it
WITH memory AS (
    SELECT
        max(peak_allocated_bytes) AS allocated_bytes,
        arg_max(rank, (peak_allocated_bytes, -rank)) AS allocated_rank,
        max(peak_reserved_bytes) AS reserved_bytes,
        arg_max(rank, (peak_reserved_bytes, -rank)) AS reserved_rank,
        max(fragmentation_at_peak) AS fragmentation
    FROM {{ ref('memory') }}
    WHERE NOT on_host
    HAVING count(*) > 0
),
clocked AS (
    SELECT
        count(*) AS ranks,
        count(residual_p95_ns) AS known,
        count(*) FILTER (WHERE status NOT IN ('aligned', 'same host')) AS loose,
        max(residual_p95_ns) AS residual_ns,
        arg_max(rank, (residual_p95_ns, -rank)) AS rank,
        (SELECT violations FROM {{ ref('matching', per='run') }}) AS violations
    FROM {{ ref('clock_quality') }}
    HAVING count(*) > 0
)
SELECT CAST(line AS DOUBLE) AS line, answer, CAST(value AS DOUBLE) AS value, unit, verdict, rank, proof
FROM (
    SELECT 33 AS line, 'memory allocated' AS answer, allocated_bytes / 1e9 AS value, 'GB' AS unit, 'the most that tensors held on one device' AS verdict, allocated_rank AS rank, 'memory' AS proof
    FROM memory
    UNION ALL
    SELECT 33.1, 'memory reserved', reserved_bytes / 1e9, 'GB',
        'the most that the allocator held' || coalesce('; ' || tw_percent(fragmentation) || ' of it free at the peak', ''), reserved_rank, 'memory'
    FROM memory
    WHERE reserved_bytes IS NOT NULL
    UNION ALL
    SELECT 34, 'clock resolution', CASE WHEN known = ranks THEN residual_ns / 1e3 END, 'us',
        CASE
            WHEN ranks = 1 THEN 'one rank needs no alignment'
            WHEN loose > 0 THEN format('{} of {} ranks are not aligned', loose, ranks)
            WHEN known < ranks THEN 'unknown: ranks of a host share its clock'
            WHEN violations > 0 THEN format('{} collectives end on one rank before they begin on another', violations)
            ELSE 'differences below it are noise'
        END, rank, 'clock_quality'
    FROM clocked
)
