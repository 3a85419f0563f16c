-- analysis: memory | allocated and reserved memory at the peak, and fragmentation
-- answers: How much memory was allocated and reserved at the peak, when, and how fragmented was it?
-- topic: time
-- grain: one row per rank and device, or per rank, device and step
-- needs: memory_events
-- page: table-memory
-- within: rank
-- param: per VARCHAR = 'run' | where the peak is searched
-- choice: per 'run' | the whole trace
-- choice: per 'step' | every step, by its range on the host; step is NULL for events outside any
-- column: rank INTEGER | global rank
-- column: device VARCHAR | device as the trace names it
-- column: step BIGINT | step; NULL: the whole trace, or outside any step
-- column: events BIGINT | allocations and releases
-- column: allocations BIGINT | allocations
-- column: allocation_bytes BIGINT | sum of their sizes
-- column: first_allocated_bytes BIGINT | allocated after the first event
-- column: last_allocated_bytes BIGINT | allocated after the last event
-- column: peak_allocated_bytes BIGINT | most that was allocated at once
-- column: peak_at_ns BIGINT | when that was first reached, common clock
-- column: reserved_at_peak_bytes BIGINT | reserved by the allocator at that moment; NULL if the trace does not say
-- column: peak_reserved_bytes BIGINT | most that was reserved at once
-- column: fragmentation_at_peak DOUBLE | share of the reserved memory that was not allocated at the peak, 0 to 1
-- column: fragmentation_max DOUBLE | largest such share at any event
-- column: note VARCHAR | where the numbers come from and why one is NULL; NULL if there is nothing to say
-- column: on_host BOOLEAN | memory of the host, not of a GPU
-- main: rank, device, step, allocations, peak_allocated_bytes, peak_reserved_bytes, fragmentation_max, on_host, note
-- order: rank, device, step NULLS FIRST
-- caveat: needs memory events: profile_memory=True of the PyTorch profiler, or --cuda-memory-usage=true of nsys.
-- caveat: nsys counts what CUDA gave to the process, which is what PyTorch's caching allocator calls reserved; it starts at 0 when the recording starts.
-- caveat: reserved but unallocated memory is not all lost: the allocator hands it out again where the sizes fit.
WITH counted AS (
    SELECT rank, device, at_local_ns AS at_ns, op_id, value, is_summed, allocated_bytes, reserved_bytes
    FROM tw_memory_levels()
),
placed AS (
    SELECT c.*, CASE WHEN c.at_ns < s.start_local_ns + s.duration_ns THEN s.step END AS step
    FROM counted AS c
    ASOF LEFT JOIN (SELECT * FROM steps WHERE {{ param('per') }} = 'step') AS s ON s.rank = c.rank AND c.at_ns >= s.start_local_ns
),
summed AS (
    SELECT
        rank,
        device,
        step,
        count(*) AS events,
        count(CASE WHEN value > 0 THEN 1 END) AS allocations,
        CAST(coalesce(sum(CASE WHEN value > 0 THEN value END), 0) AS BIGINT) AS allocation_bytes,
        arg_min(allocated_bytes, (at_ns, op_id)) AS first_allocated_bytes,
        arg_max(allocated_bytes, (at_ns, op_id)) AS last_allocated_bytes,
        max(allocated_bytes) AS peak_allocated_bytes,
        first(at_ns ORDER BY allocated_bytes DESC, at_ns, op_id) AS peak_at_ns,
        first(reserved_bytes ORDER BY allocated_bytes DESC, at_ns, op_id) AS reserved_at_peak_bytes,
        max(reserved_bytes) AS peak_reserved_bytes,
        max(tw_ratio(reserved_bytes - allocated_bytes, reserved_bytes)) AS fragmentation_max,
        bool_or(is_summed) AS is_summed
    FROM placed
    GROUP BY rank, device, step
)
SELECT
    m.rank,
    device,
    step,
    events,
    allocations,
    allocation_bytes,
    first_allocated_bytes,
    last_allocated_bytes,
    peak_allocated_bytes,
    aligned_ns(peak_at_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS peak_at_ns,
    reserved_at_peak_bytes,
    peak_reserved_bytes,
    tw_ratio(reserved_at_peak_bytes - peak_allocated_bytes, reserved_at_peak_bytes) AS fragmentation_at_peak,
    fragmentation_max,
    nullif(concat_ws('; ',
        CASE WHEN is_summed THEN 'allocated is the sum of the recorded events: earlier allocations are not in it' END,
        CASE WHEN peak_reserved_bytes IS NULL THEN 'nothing is reserved here, or the trace does not say: no fragmentation' END
    ), '') AS note,
    coalesce(starts_with(lower(device), 'cpu'), FALSE) AND peak_reserved_bytes IS NULL AS on_host
FROM summed AS m
LEFT JOIN clock_spans AS c ON c.rank = m.rank AND m.peak_at_ns >= c.from_local_ns AND m.peak_at_ns < c.until_local_ns
ORDER BY m.rank, device, step NULLS FIRST
