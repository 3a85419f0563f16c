-- rule: fragmentation | fragmented memory
-- topic: what costs no time
-- finds: At least `fragmentation` (20 %) of the reserved memory is not allocated at the peak, and no less than `idle_cache_bytes` (1 GB). A warning if 90 % of `gpu_memory_bytes` is reserved; traces do not have the size of the GPU's memory, so pass it.
-- try: `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.
-- proof: memory
-- param: fragmentation DOUBLE = 0.2 | memory is fragmented if at least this share of the reserved memory is not allocated at the peak
-- param: idle_cache_bytes BIGINT = 1000000000 | less reserved memory than this that is not allocated is no fragmentation: the allocator keeps segments of 20 MB and more for what comes next
-- param: gpu_memory_bytes BIGINT = NULL | memory of the GPU; fragmentation is a warning where 90 % of it is reserved; NULL: not known
SELECT
    CASE WHEN max(peak_reserved_bytes) >= 0.9 * {{ param('gpu_memory_bytes') }} THEN 'warning' END AS severity,
    tw_subject(list(rank ORDER BY rank), 'holds', 'hold') || format(' fragmented memory: {} unused at peak',
        tw_size(arg_max(reserved_at_peak_bytes - peak_allocated_bytes, fragmentation_at_peak))) AS title,
    list(rank ORDER BY rank) AS ranks,
    format('{} of {} reserved memory is not allocated at the peak ({}), most on rank {}',
        tw_size(arg_max(reserved_at_peak_bytes - peak_allocated_bytes, fragmentation_at_peak)),
        tw_size(arg_max(reserved_at_peak_bytes, fragmentation_at_peak)), tw_percent(max(fragmentation_at_peak)),
        arg_max(rank, fragmentation_at_peak)) AS evidence,
    'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; fewer different sizes' AS advice
FROM {{ ref('memory') }}
WHERE fragmentation_at_peak >= {{ param('fragmentation') }} AND reserved_at_peak_bytes - peak_allocated_bytes >= {{ param('idle_cache_bytes') }}
HAVING count(*) > 0
