-- analysis: contention | what compute loses to communication and copies that run beside it, against the same work alone
-- answers: What does overlap cost the compute beside it, by class and by operation, and what is gained after that?
-- topic: communication
-- grain: one row per class of kernels and what ran beside them; with per = 'kernel' also per kernel name, with per = 'rank' also per rank
-- needs: gpu_ops
-- param: per VARCHAR = 'class' | what rows are of, beside class and operation
-- choice: per 'class' | all ranks and kernels together
-- choice: per 'kernel' | each kernel name
-- choice: per 'rank' | each rank
-- column: rank INTEGER | global rank; NULL: the mean over ranks
-- column: beside VARCHAR | what ran at the same time: 'all_reduce' and other operations of collectives, 'communication' (all of them), or 'copy' (copies and memsets, where no communication ran)
-- column: class VARCHAR | class of the kernels; NULL: all of them
-- column: kernel VARCHAR | their name; NULL: all of the class
-- column: calls BIGINT | kernels beside it, over all ranks and steps
-- column: compared BIGINT | those of them whose work was also done alone, at least 3 times, and beside it at least 3 times, on the same rank
-- column: beside_ns DOUBLE | time of these kernels in which it ran; this and the following times are per step, mean over the ranks
-- column: compared_ns DOUBLE | of that, in compared kernels
-- column: slowdown DOUBLE | in the compared time: how long work takes beside it / how long alone; NULL: see note
-- column: slower_share DOUBLE | share of the compared time in work that takes longer beside it, 0 to 1
-- column: lost_ns DOUBLE | time that compared kernels take longer than alone; NULL: see note
-- column: overlap_ns DOUBLE | of 'communication' and all classes: time in which compute and communication both ran, as in breakdown
-- column: effective_overlap_ns DOUBLE | overlap_ns less lost_ns: what overlap saves; at most, where not all is compared
-- column: note VARCHAR | how much is not compared, and mostly why; NULL: all is
-- main: rank, beside, class, kernel, calls, compared, beside_ns, compared_ns, slowdown, lost_ns, overlap_ns, effective_overlap_ns, note
-- order: rank NULLS FIRST, beside_ns DESC, beside, class NULLS FIRST, kernel NULLS FIRST
-- caveat: needs kernels beside communication or copies: without any there are no rows.
-- caveat: calls do the same work if name, grid and block are equal, and so are the shapes and types of their operator's inputs, or the node of a CUDA graph; where shapes are not recorded (record_shapes), if they have the same place among as many equal launches of their steps. Equal shapes may still differ in layout: a slowdown below 1 shows it.
-- caveat: kernels beside other compute are not compared, nor what takes less than 5 ticks of the trace's clock, or varies by 1.5 times when alone.
-- caveat: what communication loses to compute is not in it.
WITH kernels AS MATERIALIZED (
    SELECT
        CASE WHEN {{ param('per') }} = 'rank' THEN g.rank END AS rank,
        CASE WHEN {{ param('per') }} = 'kernel' THEN g.name END AS kernel,
        unnest(CASE t.beside WHEN 'copy' THEN ['copy'] ELSE [t.operation, 'communication'] END) AS beside,
        g.class, t.beside_ns, t.lost_ns, t.why,
        -- a mean over ranks of means over steps, or of one rank
        1 / (r.windows * CASE WHEN {{ param('per') }} = 'rank' THEN 1 ELSE s.ranks END) AS weight
    FROM tw_contention AS t
    JOIN gpu_ops AS g USING (op_id)
    JOIN {{ ref('rank_windows') }} AS r ON r.rank = g.rank
    CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE tw_counts(g.rank, g.step)
),
summed AS (
    SELECT
        rank, beside, class, kernel,
        count(*) AS calls,
        count(lost_ns) AS compared,
        sum(beside_ns * weight) AS beside_ns,
        coalesce(sum(beside_ns * weight) FILTER (WHERE lost_ns IS NOT NULL), 0) AS compared_ns,
        sum(beside_ns * weight) FILTER (WHERE lost_ns > 0) AS slower_ns,
        sum(lost_ns * weight) AS lost_ns
    FROM kernels
    GROUP BY GROUPING SETS ((rank, beside, class, kernel), (rank, beside))
),
reasons AS (
    SELECT rank, beside, class, kernel, why, sum(beside_ns * weight) AS why_ns
    FROM kernels
    WHERE why IS NOT NULL
    GROUP BY GROUPING SETS ((rank, beside, class, kernel, why), (rank, beside, why))
    QUALIFY row_number() OVER (PARTITION BY rank, beside, class, kernel ORDER BY sum(beside_ns * weight) DESC, why) = 1
),
hidden AS (
    SELECT CASE WHEN {{ param('per') }} = 'rank' THEN rank END AS rank, avg(overlap_ns) AS overlap_ns
    FROM {{ ref('budget') }}
    GROUP BY ALL
)
SELECT
    u.rank,
    u.beside,
    u.class,
    u.kernel,
    u.calls,
    u.compared,
    u.beside_ns,
    u.compared_ns,
    u.compared_ns / nullif(u.compared_ns - u.lost_ns, 0) AS slowdown,
    CASE WHEN u.compared > 0 THEN tw_ratio(coalesce(u.slower_ns, 0), u.compared_ns) END AS slower_share,
    u.lost_ns,
    o.overlap_ns,
    o.overlap_ns - u.lost_ns AS effective_overlap_ns,
    CASE WHEN w.why IS NOT NULL THEN format('{} of the time beside it is not compared, mostly since {}',
        tw_percent(1 - u.compared_ns / u.beside_ns), w.why) END AS note
FROM summed AS u
LEFT JOIN reasons AS w
    ON w.rank IS NOT DISTINCT FROM u.rank AND w.beside = u.beside AND w.class IS NOT DISTINCT FROM u.class AND w.kernel IS NOT DISTINCT FROM u.kernel
LEFT JOIN hidden AS o ON o.rank IS NOT DISTINCT FROM u.rank AND u.beside = 'communication' AND u.class IS NULL
ORDER BY u.rank NULLS FIRST, u.beside_ns DESC, u.beside, u.class NULLS FIRST, u.kernel NULLS FIRST
