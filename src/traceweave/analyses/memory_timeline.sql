-- analysis: memory_timeline | how much memory was allocated and reserved over time
-- answers: How does memory grow and shrink during the recording?
-- topic: time
-- grain: one row per rank, device and stretch of the recording with memory events; one more where none follow and less is left
-- needs: ref('memory')
-- param: stretches BIGINT = 400 | number of intervals between the first and the last memory event
-- param: curves BIGINT = NULL | number of ranks and devices, those with the highest peaks, GPUs before hosts; NULL: all
-- column: rank INTEGER | global rank
-- column: device VARCHAR | device as the trace names it
-- column: start_ns BIGINT | start of the stretch, common clock
-- column: since_ns BIGINT | the same since the first memory event of the run
-- column: allocated_bytes BIGINT | most that was allocated at an event of the stretch; without events, what still is
-- column: reserved_bytes BIGINT | the same of what the allocator reserved; NULL if the trace does not say
-- column: place BIGINT | of the rank and device, by their peak: 1 is the highest
-- order: place, start_ns
-- caveat: needs memory events: profile_memory=True of the PyTorch profiler, or --cuda-memory-usage=true of nsys.
-- caveat: a stretch without a row has what the row before it has: no event changes it.
-- caveat: the highest value of a rank and device is its peak in the analysis memory.
WITH shown AS (
    SELECT rank, device, row_number() OVER (ORDER BY on_host, peak_allocated_bytes DESC, rank, device) AS place
    FROM {{ ref('memory') }}
    QUALIFY {{ param('curves') }} IS NULL OR place <= {{ param('curves') }}
),
levels AS MATERIALIZED (
    SELECT s.place, m.rank, m.device, m.at_ns, m.op_id, m.allocated_bytes, m.reserved_bytes
    FROM tw_memory_levels() AS m JOIN shown AS s ON s.rank = m.rank AND s.device IS NOT DISTINCT FROM m.device
),
ends AS (
    SELECT
        min(at_ns) AS from_ns, max(at_ns) - min(at_ns) AS span_ns,
        greatest((max(at_ns) - min(at_ns)) // {{ param('stretches') }}, 1) AS stretch_ns
    FROM levels
),
filled AS (
    SELECT
        m.place, m.rank, m.device,
        (m.at_ns - e.from_ns) // e.stretch_ns * e.stretch_ns AS since_ns,
        since_ns + e.stretch_ns AS until_ns,
        max(m.allocated_bytes) AS allocated_bytes,
        max(m.reserved_bytes) AS reserved_bytes,
        arg_max_null(m.allocated_bytes, (m.at_ns, m.op_id)) AS still_allocated_bytes,
        arg_max_null(m.reserved_bytes, (m.at_ns, m.op_id)) AS still_reserved_bytes
    FROM levels AS m CROSS JOIN ends AS e
    GROUP BY m.place, m.rank, m.device, e.stretch_ns, since_ns
),
stretches AS (
    SELECT place, rank, device, since_ns, allocated_bytes, reserved_bytes FROM filled
    UNION ALL
    SELECT f.place, f.rank, f.device, f.until_ns, f.still_allocated_bytes, f.still_reserved_bytes
    FROM filled AS f CROSS JOIN ends AS e
    ANTI JOIN filled AS n ON n.place = f.place AND n.since_ns = f.until_ns
    WHERE f.until_ns <= e.span_ns
        AND (f.still_allocated_bytes, f.still_reserved_bytes) IS DISTINCT FROM (f.allocated_bytes, f.reserved_bytes)
)
SELECT s.rank, s.device, e.from_ns + s.since_ns AS start_ns, s.since_ns, s.allocated_bytes, s.reserved_bytes, s.place
FROM stretches AS s CROSS JOIN ends AS e
ORDER BY s.place, start_ns
