-- analysis: memory_timeline | how much memory was allocated and reserved over time
-- answers: How does memory grow and shrink during the recording?
-- topic: time
-- grain: one row per rank, device and stretch of the recording with memory events
-- needs: ref('memory')
-- param: stretches BIGINT = 400 | number of intervals between the first and the last memory event
-- param: curves BIGINT = NULL | number of ranks and devices, those with the highest peaks, GPUs before hosts; NULL: all
-- column: rank INTEGER | global rank
-- column: device VARCHAR | device as the trace names it
-- column: start_ns BIGINT | start of the stretch, common clock
-- column: since_ns BIGINT | the same since the first memory event of the run
-- column: allocated_bytes BIGINT | most that was allocated at an event of the stretch
-- column: reserved_bytes BIGINT | most that was reserved by the allocator at one; NULL if the trace does not say
-- column: place BIGINT | of the rank and device, by their peak: 1 is the highest
-- order: place, start_ns
-- caveat: needs memory events: profile_memory=True of the PyTorch profiler, or --cuda-memory-usage=true of nsys.
-- caveat: a stretch without events has no row: what was allocated and reserved before still is.
-- caveat: the highest value of a rank and device is its peak in the analysis memory.
WITH shown AS (
    SELECT rank, device, row_number() OVER (ORDER BY on_host, peak_allocated_bytes DESC, rank, device) AS place
    FROM {{ ref('memory') }}
    QUALIFY {{ param('curves') }} IS NULL OR place <= {{ param('curves') }}
),
levels AS MATERIALIZED (
    SELECT s.place, m.rank, m.device, m.at_ns, m.allocated_bytes, m.reserved_bytes
    FROM tw_memory_levels() AS m JOIN shown AS s ON s.rank = m.rank AND s.device IS NOT DISTINCT FROM m.device
),
ends AS (
    SELECT min(at_ns) AS from_ns, greatest((max(at_ns) - min(at_ns)) // {{ param('stretches') }}, 1) AS stretch_ns FROM levels
)
SELECT
    m.rank,
    m.device,
    e.from_ns + (m.at_ns - e.from_ns) // e.stretch_ns * e.stretch_ns AS start_ns,
    (m.at_ns - e.from_ns) // e.stretch_ns * e.stretch_ns AS since_ns,
    max(m.allocated_bytes) AS allocated_bytes,
    max(m.reserved_bytes) AS reserved_bytes,
    m.place
FROM levels AS m CROSS JOIN ends AS e
GROUP BY m.place, m.rank, m.device, e.from_ns, e.stretch_ns, since_ns
ORDER BY m.place, start_ns
