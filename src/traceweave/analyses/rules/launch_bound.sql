-- rule: launch_bound | a host that launches too late
-- topic: idling and copies
-- finds: The device was idle before the next kernel was launched, and the host was in none of the calls that other rules cover. Stalls in few steps are one_off_stall. Where hosts launch late by turns, all ranks wait for them: if at least half of the waiting that single late ranks cause is for such hosts (cause host_bound, detail launch_bound of `stragglers`), a tenth of that for others than the worst of them, the finding is about all ranks, and that waiting is part of its bound. Its scenario takes all time of the hosts away, which CUDA graphs come near: an upper bound; what-if with times=0.5 leaves half of it. Where a moment of it lies in a gap that lasts `stall_share` of the step, on average, the host does other work there than launching, and the advice is about that.
-- try: Where long gaps are most of it, move what the host does there off the path of the step. Else, where work repeats, CUDA graphs, torch.compile, fused operators, larger batches; where ranks take turns launching late, also their cores: other load, binding.
-- proof: idle_causes
-- shows: gaps launch_bound
SELECT
    CASE
        WHEN l.wait_ns IS NULL THEN tw_subject(i.who, 'launches late', 'launch late')
        WHEN l.is_mostly_worst THEN format('Ranks launch late, rank {} most, and the others wait', l.worst)
        ELSE 'Ranks launch late in turn, and the others wait'
    END AS title,
    CASE WHEN l.wait_ns IS NULL THEN i.ranks END AS ranks,
    CASE WHEN l.wait_ns IS NULL THEN i.cost_ns ELSE i.mean_ns + l.wait_ns END AS cost_ns,
    CASE WHEN l.wait_ns IS NULL THEN f.scenario ELSE f.everywhere END AS scenario,
    -- a gap has one cause, and the host was late in those of this one too
    CASE WHEN EXISTS (FROM {{ ref('idling') }} WHERE cause = 'sync') THEN 'what the host does after it waited for the GPU' END AS also,
    i.opening || ' because the host launches late' || i.details
    || coalesce(format('. {}, and the others wait {} per {} for them',
        CASE WHEN l.is_mostly_worst THEN format('Ranks launch late, rank {} most', l.worst) ELSE 'Ranks take turns launching late' END, tw_time(l.wait_ns), s.unit), '') AS evidence,
    CASE
        WHEN p.is_graphed THEN 'Launch the next graph sooner: less on the host between two of them, more of the step in one'
        WHEN p.is_cuda AND NOT p.repeats THEN 'Launch sooner: less on the host before what runs on the GPU, and between'
        WHEN i.long_gaps IS NOT NULL THEN format('Most of it is {} without launches. ', i.long_gaps) || CASE
            WHEN p.has_cpu_optimizer AND {{ names('optimizer_ranges', 'i.host_op') }} IS NOT NULL
                THEN 'The optimizer runs on the CPU: keep parameters and states on the GPU, or take an optimizer that is fused for CPUs'
            WHEN p.is_torch THEN 'See what the host does there (gaps, record_function). Move it to loader workers or another thread, or do it less often'
            ELSE 'See what the host does there (gaps, NVTX ranges). Move it to another thread, or do it less often'
        END
        WHEN p.is_compiled AND p.is_cuda THEN 'CUDA graphs, fewer graph breaks, less Python between compiled regions; larger batches per kernel'
        WHEN p.is_torch AND p.is_cuda THEN 'CUDA graphs, torch.compile, fused operators, fewer Python layers; larger batches per kernel'
        WHEN p.is_cuda THEN 'CUDA graphs, fewer and larger kernels; launch ahead of the GPU'
        ELSE 'Fewer and larger kernels; launch ahead of the device'
    END
    || CASE WHEN l.wait_ns IS NULL THEN '' ELSE '; no other load on the CPU cores, ranks bound to them. The cost is the limit of infinitely fast hosts: what-if with times=0.5 replays hosts twice as fast' END AS advice
FROM {{ ref('idling') }} AS i JOIN {{ ref('idle_scenarios') }} AS f USING (cause) CROSS JOIN {{ ref('program') }} AS p
CROSS JOIN {{ ref('mean_step') }} AS s LEFT JOIN {{ ref('late_hosts') }} AS l ON TRUE
WHERE i.cause = 'launch_bound' AND (l.wait_ns IS NOT NULL OR NOT i.is_blamed)
