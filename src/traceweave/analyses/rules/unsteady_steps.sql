-- rule: unsteady_steps | unsteady steps
-- topic: ranks and waiting
-- finds: The mean step exceeds the median by `unsteady_share` (5 %) or more, with three steps at least; lengths are those of `steps`. The evidence names what grew most in the longest step, by `slow_steps`; where at least half of communication that grew is waiting for one rank, as far as the clocks tell, beyond what it is in the other steps, also that rank. Cost: mean less median.
-- try: See what grew in the long steps: evaluation, checkpoints, garbage collection, recompilation, memory that is reallocated.
-- proof: slow_steps
-- param: unsteady_share DOUBLE = 0.05 | steps are unsteady if their mean exceeds their median by this share
WITH grown AS (
    SELECT s.step, s.grew, sum(s.grew_ns) / count(*) AS grew_ns, list(s.rank) AS ranks
    FROM analysis_slow_steps() AS s
    WHERE s.step = (SELECT longest FROM shared_steadiness()) AND s.grew IS NOT NULL
    GROUP BY s.step, s.grew
    QUALIFY row_number() OVER (ORDER BY sum(s.grew_ns) DESC, s.grew) = 1
),
-- how much longer than in a mean other step those ranks waited there for one
late AS (
    SELECT late_rank AS rank, least(late_ns, grew_ns) AS late_ns
    FROM (
        SELECT
            e.late_rank,
            any_value(g.grew_ns) AS grew_ns,
            sum(CASE WHEN e.step = g.step THEN e.late_ns ELSE -e.late_ns / (t.steps - 1) END) / len(any_value(g.ranks)) AS late_ns
        FROM grown AS g CROSS JOIN shared_steadiness() AS t JOIN shared_exposed_calls() AS e ON list_contains(g.ranks, e.rank)
        WHERE g.grew = 'exposed_comm' AND e.late_rank IS NOT NULL AND e.step IS NOT NULL AND NOT e.is_staged AND NOT e.is_start
        GROUP BY e.late_rank
    )
    WHERE 2 * late_ns >= grew_ns
    QUALIFY row_number() OVER (ORDER BY late_ns DESC, late_rank) = 1
)
SELECT
    t.mean_ns - t.p50_ns AS cost_ns,
    format('Steps take {} at the median, {} on average; the longest, step {}, {}', tw_time(t.p50_ns), tw_time(t.mean_ns), t.longest, tw_time(t.max_ns))
    || coalesce(format(': there {} grew by {}', CASE g.grew
        WHEN 'compute' THEN CASE WHEN k.compile_ns > g.grew_ns / 2 THEN 'compilation' ELSE 'compute' END
        WHEN 'exposed_comm' THEN 'communication that no compute hides'
        WHEN 'exposed_memory' THEN 'time in which only copies run'
        ELSE 'idle time' || CASE WHEN m.has_gpu OR c.cause = 'data_loading' THEN ' (' || coalesce(c.words, 'no cause') || ')' ELSE '' END
    END, tw_time(g.grew_ns)), '')
    || coalesce(format(', {} of it waiting for rank {}', CASE WHEN l.late_ns < g.grew_ns THEN tw_time(l.late_ns) ELSE 'all' END, l.rank), '') AS evidence,
    CASE
        WHEN g.grew IN ('compute', 'idle: compilation') AND k.compile_ns > g.grew_ns / 2 THEN 'It compiled there: warm up before measuring; if it recurs, TORCH_LOGS=recompiles says why'
        WHEN g.grew = 'compute' THEN CASE WHEN m.has_gpu THEN 'See which kernels took longer in that step: evaluation, longer inputs, clock rates'
            ELSE format('See which operators took longer in it (host_ops -p step={}): evaluation, longer inputs, other load on the cores', t.longest) END
        WHEN g.grew = 'exposed_comm' THEN 'See stragglers for that step: the rank that the others waited for did something else there'
        WHEN g.grew = 'idle: allocator' THEN 'The cache of the allocator was flushed or grew: leave memory free; warm up before measuring'
        WHEN g.grew = 'idle: data_loading' THEN 'Find out why that batch came late; prefetch more batches'
        ELSE 'See what happened in the long steps: compilation, checkpoints, evaluation, garbage collection; warm up before measuring'
    END AS advice
FROM shared_steadiness() AS t
LEFT JOIN grown AS g ON TRUE
LEFT JOIN late AS l ON TRUE
LEFT JOIN tw_gap_causes() AS c ON g.grew = 'idle: ' || c.cause
LEFT JOIN (SELECT step, avg(compile_ns) AS compile_ns FROM shared_compiling() GROUP BY step) AS k ON k.step = t.longest
CROSS JOIN shared_mean_step() AS m
LEFT JOIN shared_exposure() AS e ON TRUE
WHERE t.steps >= 3 AND t.mean_ns - t.p50_ns >= $unsteady_share * t.p50_ns
    -- a first step that is long because ranks began to record at different moments says nothing of steps
    AND NOT coalesce(t.longest = (SELECT min(step) FROM shared_budget()) AND 3 * e.start_ns * m.windows / m.ranks >= t.max_ns - t.p50_ns, FALSE)
