-- rule: allocator | memory allocated and freed in every step
-- topic: idling and copies
-- finds: The host was in calls that allocate or free memory of the GPU (cudaMalloc, cudaFree and their kin) in every step: its caching allocator does not keep what the step needs. What hits few steps only is one_off_stall.
-- try: Leave memory for the cache; `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`; no `empty_cache()` in the loop.
-- proof: idle_causes
SELECT
    i.ranks,
    i.cost_ns,
    i.opening || ' while the host allocates or frees its memory' || i.details AS evidence,
    CASE
        WHEN p.is_torch THEN 'No empty_cache() in the loop; leave memory free for the cache; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; shapes that repeat'
        ELSE 'Allocate once and use it again, or allocate in the order of a stream (cudaMallocAsync)'
    END AS advice
FROM shared_idling() AS i CROSS JOIN shared_program() AS p
WHERE i.cause = 'allocator' AND NOT i.is_blamed
