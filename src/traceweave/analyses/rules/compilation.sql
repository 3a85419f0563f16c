-- rule: compilation | code that is compiled
-- topic: idling and copies
-- finds: torch.compile or Triton compiled code within recorded steps: at their first use, or again because inputs changed. Where no range names the compiler, time of a thread outside of calls, of a millisecond or more, at whose end it loads code. Cost: the idle time of the GPU during compilation; without a GPU the compile time of the rank that compiles longest in each step; there a straggler that compiles does not count.
-- try: Warm up before recording; find out what recompiles (`TORCH_LOGS=recompiles`).
-- proof: host_ops
-- shows: gaps compilation
WITH compiled AS (
    SELECT
        -- without a GPU the others wait in each step for the one that compiles longest
        CASE WHEN any_value(m.has_gpu) THEN sum(c.compile_ns) / any_value(m.windows)
            ELSE sum(c.compile_ns) FILTER (c.is_longest) / any_value(greatest(m.steps, 1)) END AS compile_ns,
        list(DISTINCT c.step ORDER BY c.step) FILTER (WHERE c.step IS NOT NULL) AS steps,
        list(DISTINCT c.rank ORDER BY c.rank) AS ranks,
        any_value(m.steps) AS all_steps,
        any_value(m.ranks) AS all_ranks,
        any_value(m.unit) AS unit,
        any_value(m.has_gpu) AS has_gpu
    FROM (
        SELECT *, row_number() OVER (PARTITION BY step ORDER BY compile_ns DESC, rank) = 1 AS is_longest
        FROM {{ ref('compiling') }}
        -- a straggler that compiles is told of with what replay gains without that
        WHERE (SELECT has_gpu FROM {{ ref('mean_step') }}) OR rank NOT IN (SELECT unnest(ranks) FROM {{ rule('straggler') }} WHERE contains(title, 'compiles code'))
    ) AS c
    CROSS JOIN {{ ref('mean_step') }} AS m
    HAVING count(*) > 0
)
SELECT
    tw_subject(c.ranks, 'compiles code', 'compile code') || coalesce(' in ' || CASE WHEN len(c.steps) = 1 THEN tw_steps(c.steps) END, ' while recorded') AS title,
    CASE WHEN len(c.ranks) < c.all_ranks THEN c.ranks END AS ranks,
    CASE WHEN c.has_gpu THEN coalesce(i.cost_ns, 0) + coalesce(i.stall_ns, 0) ELSE c.compile_ns END AS cost_ns,
    CASE WHEN i.stalled_steps IS NULL THEN f.scenario ELSE 'kind=compilation while=idle times=0' END AS scenario,
    format('Code is compiled for {} per {}{}{}', tw_time(c.compile_ns), c.unit,
        CASE WHEN len(c.steps) < c.all_steps THEN format(', all of it in {} ({} of {})', tw_steps(c.steps), len(c.steps), c.all_steps) ELSE '' END,
        CASE WHEN c.has_gpu THEN coalesce('. The GPU idles meanwhile for ' || tw_time(coalesce(i.cost_ns, 0) + coalesce(i.stall_ns, 0)), '. The GPU does not idle meanwhile') ELSE '' END
    ) AS evidence,
    CASE WHEN len(c.steps) < c.all_steps OR coalesce(c.all_steps, 0) < 2 THEN 'Record after the warm-up; if it recurs, inputs change' ELSE 'Inputs change in every step' END
    || ': TORCH_LOGS=recompiles shows which; mark them dynamic, or pad them to few shapes' AS advice
FROM compiled AS c
LEFT JOIN {{ ref('idling') }} AS i ON i.cause = 'compilation'
LEFT JOIN {{ ref('idle_scenarios') }} AS f ON f.cause = i.cause
UNION ALL
-- no range names the compiler: code is loaded at the end of time in which its thread makes no call
SELECT
    tw_subject(i.who, 'compiles or loads code', 'compile or load code') || ' while the GPU idles',
    i.ranks,
    i.cost_ns + coalesce(i.stall_ns, 0),
    CASE WHEN i.stalled_steps IS NULL THEN f.scenario ELSE f.stall_scenario END,
    CASE WHEN i.stalled_steps IS NULL THEN i.opening ELSE i.stall_opening END
    || ' before code is loaded: it is compiled meanwhile, or its library is read' || CASE WHEN i.stalled_steps IS NULL THEN i.details ELSE '' END,
    'Warm up before recording; compile ahead, or keep what was compiled in a cache on disk'
FROM {{ ref('idling') }} AS i JOIN {{ ref('idle_scenarios') }} AS f USING (cause)
WHERE i.cause = 'compilation' AND NOT i.is_blamed AND NOT EXISTS (FROM compiled)
