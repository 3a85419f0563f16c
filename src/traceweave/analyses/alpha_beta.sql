-- analysis: alpha_beta | latency and bandwidth behind the collectives of each group: transfer = alpha + effective bytes / beta
-- answers: What is the latency of a group's collectives, and their bandwidth beyond it?
-- topic: communication
-- grain: one row per operation and process group
-- needs: ref('bandwidth')
-- page: table-alpha-beta
-- param: time VARCHAR = 'transfer' | which time is fitted
-- choice: time 'transfer' | from the last rank's start to the last rank's end, where the clocks resolve it
-- choice: time 'shortest' | the shortest duration over the ranks: needs no clock, but may include waiting
-- param: min_span DOUBLE = 2 | largest / smallest size that a fit needs at least
-- param: small_bytes
-- column: op VARCHAR | which operation; 'send_recv' for a send matched with its recv
-- column: group_id INTEGER | process group; NULL if the operation could not be assigned to one
-- column: ranks INTEGER | members of the group, 2 for send_recv; NULL if unknown
-- column: alpha_ns BIGINT | latency; of a single size, or where larger ones (none above small_bytes) do not take longer, what they take beyond 1 GB/s, if that is most of it; NULL: see note
-- column: beta_gbps DOUBLE | bus bandwidth, decimal GB/s; NULL: see note
-- column: half_bytes BIGINT | size whose transfer is half latency: smaller ones waste the bandwidth; NULL without alpha_ns
-- column: sizes BIGINT | different sizes in the fit
-- column: instances BIGINT | operations of these sizes
-- column: bytes_min BIGINT | smallest of these sizes
-- column: bytes_max BIGINT | largest
-- column: error_p50_share DOUBLE | median over the sizes of |median time - fit| / median time; NULL with fewer than three sizes, which a line always fits
-- column: error_max_share DOUBLE | largest of the same
-- column: unresolved_sizes BIGINT | sizes left out because at least half of their transfers are below the clock resolution
-- column: bus_factor DOUBLE | effective bytes / bytes, as nccl-tests defines it; NULL: see note
-- column: algorithm VARCHAR | NCCL's algorithm for all sizes in the fit, by its logs; NULL if not known of all, and if they ran several: see note
-- column: protocol VARCHAR | NCCL's protocol; the same holds, and some algorithms have none
-- column: note VARCHAR | why a value is NULL, what the times may include, and the algorithms where the sizes ran several; NULL if there is nothing to say
-- main: op, group_id, ranks, alpha_ns, beta_gbps, half_bytes, sizes, instances, error_p50_share, note
-- order: op, group_id NULLS LAST
-- caveat: the fit is Theil and Sen's: beta is the median of the slopes between any two sizes, alpha the median of what is left, both over the median time of each size; up to 29 % of the sizes may be off without moving it far.
-- caveat: effective bytes are bytes times the operation's factor of nccl-tests, so beta is comparable with busbw and, over operations, with the links.
-- caveat: an unrecorded rank may have come last: where members are missing, waiting for them counts as latency and as slow bandwidth.
-- caveat: a library that changes its algorithm or protocol with the size follows no single line: see the errors, and the note where NCCL's logs tell.
WITH rated AS (
    SELECT
        op,
        group_id,
        ranks,
        bytes,
        instances,
        measured,
        buffered,
        incomplete,
        ranks_seen,
        bus_factor,
        bytes * bus_factor AS effective_bytes,
        CASE WHEN {{ param('time') }} = 'shortest' THEN transfer_min_p50_ns
             WHEN algbw_p50_gbps IS NOT NULL THEN transfer_p50_ns END AS time_ns
    FROM {{ ref('bandwidth') }}
),
sizes AS MATERIALIZED (
    SELECT
        op, group_id, 0 AS bytes_from, bytes, instances, CAST(effective_bytes AS DOUBLE) AS x, CAST(time_ns AS DOUBLE) AS y,
        -- what a link of 1 GB/s does not explain
        CASE WHEN 2 * effective_bytes < time_ns THEN time_ns - effective_bytes END AS beyond_ns
    FROM rated
    WHERE effective_bytes > 0 AND time_ns > 0
),
counted AS (
    SELECT
        r.op,
        r.group_id,
        any_value(r.ranks) AS ranks,
        any_value(r.bus_factor) AS bus_factor,
        bool_or(r.measured > 0) AS is_measured,
        CAST(sum(r.buffered) AS BIGINT) AS buffered,
        CAST(sum(r.instances) AS BIGINT) AS recorded,
        bool_or(r.bytes > 0 AND r.measured > 0) AS has_bytes,
        bool_or(r.effective_bytes > 0) AS has_factor,
        count(*) FILTER (WHERE r.effective_bytes > 0 AND r.measured > 0 AND r.time_ns IS NULL) AS unresolved_sizes,
        CAST(sum(r.measured) FILTER (WHERE r.time_ns IS NOT NULL) AS BIGINT) AS measured,
        CAST(sum(r.incomplete) FILTER (WHERE r.time_ns IS NOT NULL) AS BIGINT) AS incomplete,
        min(r.ranks_seen) FILTER (WHERE r.time_ns IS NOT NULL) AS ranks_seen
    FROM rated AS r
    GROUP BY r.op, r.group_id
),
spans AS (
    SELECT
        op,
        group_id,
        count(*) AS sizes,
        CAST(sum(instances) AS BIGINT) AS instances,
        min(bytes) AS bytes_min,
        max(bytes) AS bytes_max,
        CASE WHEN count(beyond_ns) = count(*) AND (count(*) = 1 OR max(bytes) BETWEEN {{ param('min_span') }} * min(bytes) AND {{ param('small_bytes') }}) THEN median(beyond_ns) END AS beyond_ns
    FROM sizes
    GROUP BY op, group_id
),
slopes AS (
    SELECT a.op, a.group_id, median((b.y - a.y) / (b.x - a.x)) AS ns_per_byte
    FROM sizes AS a
    JOIN sizes AS b ON b.op = a.op AND b.group_id IS NOT DISTINCT FROM a.group_id AND b.x > a.x
    GROUP BY a.op, a.group_id
),
lines AS (
    SELECT s.op, s.group_id, l.ns_per_byte, median(s.y - l.ns_per_byte * s.x) AS alpha_ns
    FROM sizes AS s JOIN slopes AS l ON l.op = s.op AND l.group_id IS NOT DISTINCT FROM s.group_id
    GROUP BY s.op, s.group_id, l.ns_per_byte
),
errors AS (
    SELECT
        s.op,
        s.group_id,
        median(abs(s.y - l.alpha_ns - l.ns_per_byte * s.x) / s.y) AS error_p50_share,
        max(abs(s.y - l.alpha_ns - l.ns_per_byte * s.x) / s.y) AS error_max_share
    FROM sizes AS s JOIN lines AS l ON l.op = s.op AND l.group_id IS NOT DISTINCT FROM s.group_id
    GROUP BY s.op, s.group_id
),
judged AS (
    SELECT
        c.*,
        n.algorithm,
        n.protocol,
        n.ways,
        coalesce(s.sizes, 0) AS sizes,
        s.instances,
        s.bytes_min,
        s.bytes_max,
        l.alpha_ns,
        s.beyond_ns,
        l.ns_per_byte,
        e.error_p50_share,
        e.error_max_share,
        CASE
            WHEN NOT is_measured THEN 'not computable: ' || coalesce(tw_buffered(buffered, recorded), 'seen on one rank only')
            WHEN has_bytes IS NOT TRUE THEN 'not computable: the trace does not say how many bytes'
            WHEN has_factor IS NOT TRUE THEN 'not computable: nccl-tests does not define the operation, or the group is unknown'
            WHEN sizes IS NULL THEN 'not computable: its transfers are below the clock resolution'
            WHEN sizes = 1 AND beyond_ns IS NOT NULL THEN 'one size only: alpha_ns is what it takes beyond a bandwidth of 1 GB/s'
            WHEN sizes = 1 THEN 'not computable: there is one size only'
            WHEN bytes_max < {{ param('min_span') }} * bytes_min THEN 'not computable: its sizes are too similar'
            WHEN ns_per_byte <= 0 AND beyond_ns IS NOT NULL THEN 'larger sizes do not take longer: alpha_ns is what they take beyond a bandwidth of 1 GB/s'
            WHEN ns_per_byte <= 0 THEN 'not computable: larger sizes do not take longer'
        END AS obstacle
    FROM counted AS c
    LEFT JOIN spans AS s ON s.op = c.op AND s.group_id IS NOT DISTINCT FROM c.group_id
    LEFT JOIN lines AS l ON l.op = c.op AND l.group_id IS NOT DISTINCT FROM c.group_id
    LEFT JOIN errors AS e ON e.op = c.op AND e.group_id IS NOT DISTINCT FROM c.group_id
    LEFT JOIN tw_chosen('sizes') AS n ON n.op = c.op AND n.group_id IS NOT DISTINCT FROM c.group_id
)
SELECT
    op,
    group_id,
    ranks,
    CAST(round(CASE WHEN obstacle IS NULL THEN CASE WHEN alpha_ns >= 0 THEN alpha_ns END ELSE beyond_ns END) AS BIGINT) AS alpha_ns,
    CASE WHEN obstacle IS NULL THEN 1 / ns_per_byte END AS beta_gbps,
    CAST(round(CASE
        WHEN obstacle IS NOT NULL THEN beyond_ns / bus_factor
        WHEN alpha_ns >= 0 THEN alpha_ns / ns_per_byte / bus_factor
    END) AS BIGINT) AS half_bytes,
    sizes,
    coalesce(instances, 0) AS instances,
    bytes_min,
    bytes_max,
    CASE WHEN obstacle IS NULL AND sizes > 2 THEN error_p50_share END AS error_p50_share,
    CASE WHEN obstacle IS NULL AND sizes > 2 THEN error_max_share END AS error_max_share,
    unresolved_sizes,
    bus_factor,
    algorithm,
    protocol,
    nullif(concat_ws('; ',
        CASE
            WHEN obstacle IS NOT NULL THEN obstacle
            WHEN alpha_ns < 0 THEN 'no latency: the fit is negative at size 0, its sizes are too large to tell'
            WHEN sizes = 2 THEN 'no errors: a line always fits two sizes'
        END,
        CASE WHEN obstacle IS NULL THEN
            tw_missing_ranks(incomplete, measured, ranks_seen, ranks, 'waiting for them counts as transfer')
        END,
        CASE WHEN is_measured THEN tw_buffered(buffered, recorded) END,
        tw_several_ways(ways)), '') AS note
FROM judged
ORDER BY op, group_id NULLS LAST
