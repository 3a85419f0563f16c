-- rule: allocator | memory that is allocated and freed
-- topic: idling and copies
-- finds: The host was in calls that allocate or free memory of the GPU (cudaMalloc, cudaFree and similar) in every step: its caching allocator does not keep the memory that a step needs. Stalls in few steps are one_off_stall.
-- try: Leave memory for the cache; `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`; no `empty_cache()` in the loop.
-- proof: idle_causes
-- shows: gaps allocator
SELECT
    tw_subject(i.who, 'allocates or frees GPU memory', 'allocate or free GPU memory') AS title,
    i.ranks,
    i.cost_ns,
    f.scenario,
    i.opening || ' while the host allocates or frees its memory' || i.details AS evidence,
    CASE
        -- nothing is given back to be asked for again
        WHEN NOT p.repeats OR (s.steps < 2 AND NOT m.frees) THEN 'Memory is allocated where it is first used: allocate it before what is measured, or less of it'
        WHEN p.is_torch THEN 'No empty_cache() in the loop; leave memory free for the cache; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; fewer different shapes'
        ELSE 'Allocate once and reuse it, or use stream-ordered allocation (cudaMallocAsync)'
    END AS advice
FROM {{ ref('idling') }} AS i JOIN {{ ref('idle_scenarios') }} AS f USING (cause) CROSS JOIN {{ ref('program') }} AS p
CROSS JOIN {{ ref('mean_step') }} AS s
CROSS JOIN (
    SELECT count(*) > 0 AS frees
    FROM tw_holds AS h JOIN tw_call_names AS n USING (name)
    WHERE h.sort = 'allocator' AND n.allocates <> 'allocate'
) AS m
WHERE i.cause = 'allocator' AND NOT i.is_blamed
