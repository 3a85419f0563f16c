-- rule: exposed_copies | copies that run alone
-- topic: idling and copies
-- finds: Other copies and memsets, not those of pageable_copies and unified_memory, with neither compute nor communication at the same time.
-- try: For copies to and from the host a separate stream, as far as there is compute to hide them; fewer copies within the GPU.
-- proof: copies
-- shows: ops memory
WITH most AS (
    SELECT kind
    FROM (
        SELECT
            CASE WHEN kind = 'memset' THEN 'memset' ELSE copy_kind END AS kind,
            sum(time_ns - coalesce(compute_overlap_ns, 0)) AS alone_ns
        FROM {{ ref('copies') }}
        -- those have rules of their own
        WHERE host_memory IS DISTINCT FROM 'pageable' AND NOT coalesce(starts_with(copy_kind, 'UVM'), FALSE)
        GROUP BY 1
    )
    QUALIFY 2 * alone_ns >= sum(alone_ns) OVER () AND row_number() OVER (ORDER BY alone_ns DESC) = 1
),
pages AS (
    SELECT sum((c.time_ns - c.compute_overlap_ns) / r.windows) / any_value(s.ranks) AS cost_ns
    FROM {{ ref('copies') }} AS c JOIN {{ ref('rank_windows') }} AS r USING (rank) CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE starts_with(c.copy_kind, 'UVM')
),
others AS (
    SELECT coalesce(p.cost_ns, 0) + coalesce(m.cost_ns, 0) AS cost_ns, p.cost_ns IS NULL AND m.cost_ns IS NULL AS is_all
    FROM pages AS m LEFT JOIN {{ rule('pageable_copies') }} AS p ON TRUE
)
SELECT
    coalesce(upper(w.what[1]) || w.what[2:], 'Copies and memsets') || ' run without compute' AS title,
    s.exposed_memory_ns - o.cost_ns AS cost_ns,
    'ops memory ' || (
        SELECT tw_of_names(list(name))
        FROM gpu_ops
        WHERE category = 'memory' AND (m.kind IS NULL OR m.kind = CASE WHEN kind = 'memset' THEN 'memset' ELSE copy_kind END)
            AND tw_host_memory(name, NULL) IS DISTINCT FROM 'pageable' AND NOT coalesce(starts_with(copy_kind, 'UVM'), FALSE)
    ) AS shows,
    CASE WHEN o.is_all THEN 'kind=copy times=0' END AS scenario,
    -- those of the other rules gain in it too
    CASE WHEN NOT o.is_all THEN 'kind=copy times=0' END AS ceiling,
    format('Copies and memsets run alone for {} per {}{}', tw_time(s.exposed_memory_ns - o.cost_ns), s.unit, coalesce(', most of it ' || w.what, '')) AS evidence,
    CASE
        -- what is copied there is needed there: another stream would not hide it
        WHEN m.kind IN ('DtoD', 'memset') AND g.is_torch
            THEN 'Avoid them: see in copies and ranges which operators make them (contiguous, cat, clone, zeros); write results in place'
                || CASE WHEN g.is_compiled THEN '' ELSE ', or let torch.compile fuse them' END
        WHEN m.kind IN ('DtoD', 'memset') THEN 'Avoid them: use data where it lies, and write results in place'
        WHEN s.exposed_memory_ns - o.cost_ns > s.compute_ns
            THEN format('Avoid them: keep the data on the GPU, or copy less of it. Beside compute, on a separate stream, no more than {} of them can hide', tw_time(s.compute_ns))
        ELSE 'Move them to a separate stream, ahead of their use, or avoid them'
    END AS advice
FROM {{ ref('mean_step') }} AS s CROSS JOIN {{ ref('program') }} AS g CROSS JOIN others AS o LEFT JOIN most AS m ON TRUE
CROSS JOIN LATERAL (
    SELECT CASE m.kind WHEN 'DtoD' THEN 'copies within the GPU' WHEN 'HtoD' THEN 'copies to the GPU' WHEN 'DtoH' THEN 'copies from the GPU'
        WHEN 'PtoP' THEN 'copies between GPUs' WHEN 'memset' THEN 'memsets' END AS what
) AS w
