-- analysis: copies | bytes, time, rate and overlap of copies and memsets, by direction and kind of host memory
-- answers: What is copied, how fast, from pageable or pinned memory, and does compute hide it?
-- topic: time
-- grain: one row per rank, direction, host memory and, with interval_ns, time interval
-- needs: gpu_ops
-- within: rank
-- param: interval_ns BIGINT = NULL | length of time intervals, for the rate over time; NULL: one interval per rank
-- column: rank INTEGER | global rank
-- column: kind VARCHAR | 'memcpy' or 'memset'; 'kernel' for a copy that a kernel does (AMD)
-- column: copy_kind VARCHAR | 'HtoD', 'DtoH', 'DtoD', 'PtoP' ...; NULL for a memset or if the trace does not say
-- column: host_memory VARCHAR | 'pageable', 'pinned' or 'managed': kind of host memory; NULL if none is involved or the trace does not say
-- column: interval_start_ns BIGINT | start of the interval, common clock; without interval_ns the first copy of the rank
-- column: count BIGINT | copies that began in it
-- column: bytes BIGINT | bytes moved in it; NULL if the trace does not say
-- column: bytes_max BIGINT | largest copy that began in it
-- column: time_ns BIGINT | sum of the durations within it
-- column: min_ns BIGINT | shortest copy that began in it
-- column: p50_ns BIGINT | median of their durations
-- column: max_ns BIGINT | longest
-- column: rate_gbps DOUBLE | bytes / time_ns, decimal GB/s; NULL without bytes or time
-- column: rate_p50_gbps DOUBLE | median of the rates of the copies that began in it
-- column: rate_max_gbps DOUBLE | largest of them
-- column: compute_overlap_ns BIGINT | part of time_ns in which compute ran on the rank
-- column: hidden_fraction DOUBLE | compute_overlap_ns / time_ns, 0 to 1; NULL without time
-- column: note VARCHAR | why a value is NULL; NULL if there is nothing to say
-- main: rank, interval_start_ns, kind, copy_kind, host_memory, count, bytes, time_ns, rate_gbps, hidden_fraction, note
-- order: rank, time_ns DESC, kind, copy_kind NULLS LAST, host_memory NULLS LAST, interval_start_ns
-- caveat: durations add up over streams: two copies at once count twice, in time_ns as in compute_overlap_ns.
-- caveat: a copy that spans several intervals is spread over them evenly.
WITH named AS MATERIALIZED (
    SELECT
        op_id,
        rank,
        kind,
        copy_kind,
        CASE WHEN kind = 'memcpy' THEN tw_host_memory(name, NULL) END AS host_memory,
        bytes,
        start_local_ns AS start_ns,
        start_local_ns + duration_ns AS end_ns,
        start_local_ns - min(start_local_ns) OVER (PARTITION BY rank) AS since_first_ns,
        duration_ns AS length_ns,
        duration_ns
    FROM gpu_ops
    WHERE category = 'memory'
),
-- arguments only where the name does not tell: reading them takes longer than all the rest
told AS (
    SELECT op_id, tw_host_memory(NULL, args) AS host_memory
    FROM gpu_ops
    WHERE op_id IN (SELECT op_id FROM named WHERE kind = 'memcpy' AND host_memory IS NULL)
),
moved AS MATERIALIZED (
    SELECT n.* REPLACE (coalesce(n.host_memory, t.host_memory) AS host_memory)
    FROM named AS n LEFT JOIN told AS t USING (op_id)
),
pieces AS (
    SELECT
        *,
        since_first_ns // {{ param('interval_ns') }} AS first_piece,
        unnest(CASE
            WHEN {{ param('interval_ns') }} IS NULL THEN [0]
            ELSE range(
                since_first_ns // {{ param('interval_ns') }},
                (since_first_ns + greatest(length_ns, 1) - 1) // {{ param('interval_ns') }} + 1
            )
        END) AS piece
    FROM moved
),
cut AS (
    SELECT
        *,
        coalesce(piece = first_piece, TRUE) AS begins,
        start_ns - since_first_ns + coalesce(piece * {{ param('interval_ns') }}, 0) AS interval_start_ns,
        greatest(start_ns, coalesce(start_ns - since_first_ns + piece * {{ param('interval_ns') }}, start_ns)) AS from_ns,
        least(end_ns, coalesce(start_ns - since_first_ns + (piece + 1) * {{ param('interval_ns') }}, end_ns)) AS until_ns
    FROM pieces
),
edges AS (
    SELECT rank, from_ns AS at_ns FROM cut
    UNION
    SELECT rank, until_ns AS at_ns FROM cut
),
compute AS NOT MATERIALIZED (
    SELECT rank, category, start_ns, end_ns
    FROM tw_own_ops()
    WHERE category = 'compute' AND rank IN (SELECT DISTINCT rank FROM moved)
),
-- how long compute has run up to each of these moments
computed AS MATERIALIZED (
    SELECT rank, at_ns, compute_ns FROM tw_busy_until('compute', 'edges')
),
-- one at a time: of both joins at once DuckDB may take the pairs of a rank first
begun AS MATERIALIZED (
    SELECT cut.*, a.compute_ns AS computed_ns
    FROM cut JOIN computed AS a ON a.rank = cut.rank AND a.at_ns = cut.from_ns
),
overlapped AS (
    SELECT b.*, z.compute_ns - b.computed_ns AS compute_overlap_ns
    FROM begun AS b JOIN computed AS z ON z.rank = b.rank AND z.at_ns = b.until_ns
),
summed AS (
    SELECT
        rank,
        kind,
        copy_kind,
        host_memory,
        interval_start_ns,
        CAST(sum(CAST(begins AS INTEGER)) AS BIGINT) AS count,
        -- up to the end of the piece minus up to its start, both rounded down: the pieces of a copy add up to it
        CAST(sum(CASE
            WHEN length_ns = 0 THEN bytes
            ELSE bytes::HUGEINT * (until_ns - start_ns) // length_ns - bytes::HUGEINT * (from_ns - start_ns) // length_ns
        END) AS BIGINT) AS bytes,
        max(CASE WHEN begins THEN bytes END) AS bytes_max,
        CAST(sum(until_ns - from_ns) AS BIGINT) AS time_ns,
        min(CASE WHEN begins THEN duration_ns END) AS min_ns,
        tw_percentile(CASE WHEN begins THEN duration_ns END, 0.5) AS p50_ns,
        max(CASE WHEN begins THEN duration_ns END) AS max_ns,
        tw_percentile(CASE WHEN begins THEN tw_ratio(bytes, duration_ns) END, 0.5) AS rate_p50_gbps,
        max(CASE WHEN begins THEN tw_ratio(bytes, duration_ns) END) AS rate_max_gbps,
        CAST(sum(compute_overlap_ns) AS BIGINT) AS compute_overlap_ns
    FROM overlapped
    GROUP BY rank, kind, copy_kind, host_memory, interval_start_ns
)
SELECT
    s.rank,
    kind,
    copy_kind,
    host_memory,
    aligned_ns(interval_start_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS interval_start_ns,
    count,
    bytes,
    bytes_max,
    time_ns,
    min_ns,
    p50_ns,
    max_ns,
    tw_ratio(bytes, time_ns) AS rate_gbps,
    rate_p50_gbps,
    rate_max_gbps,
    compute_overlap_ns,
    tw_ratio(compute_overlap_ns, time_ns) AS hidden_fraction,
    CASE WHEN bytes IS NULL THEN 'the trace does not say how many bytes: no rates' END AS note
FROM summed AS s
LEFT JOIN clock_spans AS c
    ON c.rank = s.rank AND s.interval_start_ns >= c.from_local_ns AND s.interval_start_ns < c.until_local_ns
ORDER BY s.rank, time_ns DESC, kind, copy_kind NULLS LAST, host_memory NULLS LAST, interval_start_ns
