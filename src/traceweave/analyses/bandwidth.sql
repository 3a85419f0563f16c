-- analysis: bandwidth | bandwidth of every kind of collective, excluding waiting
-- answers: Which bandwidth do the collectives reach, and where is it lower than it should be?
-- topic: communication
-- grain: one row per operation, process group and size
-- needs: collective_instances
-- page: table-bandwidth
-- param: slow_factor DOUBLE = 2 | a transfer that takes more than this many times the median of its row counts as slow
-- column: op VARCHAR | which operation; 'send_recv' for a send matched with its recv
-- column: group_id INTEGER | process group; NULL if the operation could not be assigned to one
-- column: ranks INTEGER | members of the group, 2 for send_recv; NULL if unknown
-- column: bytes BIGINT | size S as nccl-tests defines it; NULL if the trace does not say
-- column: instances BIGINT | matched operations of this size
-- column: measured BIGINT | those seen on two ranks or more and not buffered, which the transfer times are of
-- column: transfer_p50_ns BIGINT | median time from the last rank's start to the last rank's end; NULL if nothing was measured
-- column: transfer_best_ns BIGINT | shortest one that the clocks resolve; NULL if there is none
-- column: algbw_p50_gbps DOUBLE | bytes / transfer_p50_ns, decimal GB/s; NULL: see note
-- column: algbw_best_gbps DOUBLE | bytes / transfer_best_ns, decimal GB/s
-- column: busbw_p50_gbps DOUBLE | algbw_p50_gbps times the operation's factor of nccl-tests
-- column: busbw_best_gbps DOUBLE | algbw_best_gbps times the same
-- column: unresolved BIGINT | measured transfers that are below the clock resolution, or not positive
-- column: slow BIGINT | measured transfers longer than slow_factor medians
-- column: transfer_min_p50_ns BIGINT | median of the shortest duration over the ranks: the transfer time without any clock
-- column: busbw_free_p50_gbps DOUBLE | bus bandwidth from transfer_min_p50_ns, without any clock; a lower bound, since the shortest duration may include waiting
-- column: peer_ratio DOUBLE | transfer_p50_ns / the median of it over all groups with the same operation, size, number of ranks and link; NULL if there is no other group
-- column: incomplete BIGINT | measured operations that lack a member of the group: their transfer may include waiting for it
-- column: ranks_seen BIGINT | members of the group that recorded them: the fewest of any measured operation; NULL if there is none
-- column: bus_factor DOUBLE | busbw / algbw of the operation as nccl-tests defines it; NULL: see note
-- column: algorithm VARCHAR | NCCL's algorithm for this group, operation and size, by its logs (nccl_choices); NULL if not known, and if it ran several: see note
-- column: protocol VARCHAR | NCCL's protocol; the same holds, and some algorithms have none
-- column: note VARCHAR | why a bandwidth is NULL, what a transfer may include, and the algorithms where NCCL ran several; NULL if there is nothing to say
-- column: buffered BIGINT | messages seen on both ranks whose send was over before its receive began (is_buffered of collective_instances): they have no transfer time, since the receiver found the bytes there
-- column: link VARCHAR | where the group's bytes go (groups): 'intra-node', 'inter-node' or 'mixed'; NULL if unknown
-- column: via VARCHAR | what they go over (groups): 'NVLink 4', 'IB'; NULL if unknown
-- column: peak_gbps DOUBLE | bus bandwidth that this has at most (link_gbps of groups); NULL if unknown, and where no ring's formula holds: see note
-- column: peak_share DOUBLE | busbw_p50_gbps / peak_gbps
-- main: op, group_id, link, bytes, instances, transfer_p50_ns, algbw_p50_gbps, busbw_p50_gbps, peak_share, slow, algorithm, protocol, note
-- order: op, group_id NULLS LAST, bytes NULLS LAST
-- caveat: a transfer is unresolved if it is shorter than resolution_ns of collective_instances; where that is NULL none is resolved.
-- caveat: an unrecorded rank may have come last: where members are missing, transfers are upper bounds and bandwidths lower ones.
-- caveat: operations that share the links at the same moment share the bandwidth too.
-- caveat: peer_ratio above 1 points at a slow group, hence a slow host or link among its ranks.
-- caveat: where switches reduce (NVLS, SHARP), busbw is no rate of a link; without NCCL's log that is not known: a peak_share above 1 says so.
WITH timed AS (
    SELECT
        i.op,
        i.group_id,
        i.ranks_expected AS ranks,
        i.bytes,
        i.transfer_min_ns,
        i.ranks_seen,
        i.bus_factor,
        i.is_buffered,
        g.link,
        g.via,
        g.link_gbps,
        -- one rank alone cannot tell transfer from waiting, and who receives from a buffer does not use the link
        CASE WHEN i.ranks_seen > 1 AND NOT i.is_buffered THEN i.transfer_ns END AS transfer_ns,
        CASE WHEN i.ranks_seen > 1 AND NOT i.is_buffered AND i.transfer_ns > 0 AND i.transfer_ns >= i.resolution_ns
            THEN i.transfer_ns END AS resolved_ns
    FROM collective_instances AS i LEFT JOIN groups AS g USING (group_id)
),
medians AS (
    SELECT
        *,
        tw_percentile(transfer_ns, 0.5) OVER (PARTITION BY op, group_id, ranks, bytes) AS transfer_p50_ns
    FROM timed
),
measured AS (
    SELECT
        op,
        group_id,
        ranks,
        bytes,
        count(*) AS instances,
        count(*) FILTER (WHERE is_buffered) AS buffered,
        count(transfer_ns) AS measured,
        any_value(transfer_p50_ns) AS transfer_p50_ns,
        min(resolved_ns) AS transfer_best_ns,
        count(transfer_ns) - count(resolved_ns) AS unresolved,
        count(*) FILTER (WHERE transfer_ns > {{ param('slow_factor') }} * transfer_p50_ns) AS slow,
        tw_percentile(CASE WHEN transfer_ns IS NOT NULL THEN transfer_min_ns END, 0.5) AS transfer_min_p50_ns,
        -- the median is resolved if the row's middle is: more than half of the transfers are
        2 * count(resolved_ns) > count(transfer_ns) AS is_resolved,
        count(transfer_ns) FILTER (WHERE ranks_seen < ranks) AS incomplete,
        min(ranks_seen) FILTER (WHERE transfer_ns IS NOT NULL) AS ranks_seen,
        any_value(bus_factor) AS bus_factor,
        any_value(link) AS link,
        any_value(via) AS via,
        any_value(link_gbps) AS link_gbps
    FROM medians
    GROUP BY op, group_id, ranks, bytes
),
rated AS (
    SELECT
        *,
        CASE WHEN is_resolved AND transfer_p50_ns > 0 THEN bytes / transfer_p50_ns END AS algbw_p50_gbps,
        bytes / transfer_best_ns AS algbw_best_gbps,
        CASE WHEN count(*) OVER peers > 1 THEN tw_percentile(transfer_p50_ns, 0.5) OVER peers END AS peer_p50_ns
    FROM measured
    WINDOW peers AS (PARTITION BY op, ranks, bytes, link)
),
held AS (
    SELECT
        r.*, n.algorithm, n.protocol, n.ways,
        coalesce(tw_in_switches(array_to_string(n.ways, ' ')), FALSE) OR s.op IS NOT NULL AS in_switches,
        CASE
            WHEN in_switches THEN NULL
            -- of an exchange between hosts and in them, bytes go over both kinds of link; of two GPUs with a link of their own, over that
            WHEN r.link = 'mixed' AND r.op NOT IN ('all_reduce', 'all_gather', 'reduce_scatter', 'broadcast', 'reduce') THEN NULL
            WHEN r.op = 'send_recv' AND r.via = 'Infinity Fabric' THEN NULL
            ELSE r.link_gbps END AS peak_gbps
    FROM rated AS r
    LEFT JOIN tw_choices() AS n ON n.op = r.op AND n.group_id = r.group_id AND n.bytes = r.bytes
    LEFT JOIN tw_switched() AS s ON s.op = r.op AND s.group_id = r.group_id AND s.bytes IS NOT DISTINCT FROM r.bytes
)
SELECT
    r.op,
    r.group_id,
    ranks,
    r.bytes,
    instances,
    measured,
    transfer_p50_ns,
    transfer_best_ns,
    algbw_p50_gbps,
    algbw_best_gbps,
    algbw_p50_gbps * bus_factor AS busbw_p50_gbps,
    algbw_best_gbps * bus_factor AS busbw_best_gbps,
    unresolved,
    slow,
    transfer_min_p50_ns,
    r.bytes / nullif(transfer_min_p50_ns, 0) * bus_factor AS busbw_free_p50_gbps,
    CASE WHEN peer_p50_ns > 0 THEN transfer_p50_ns / peer_p50_ns END AS peer_ratio,
    incomplete,
    ranks_seen,
    bus_factor,
    algorithm,
    protocol,
    nullif(concat_ws('; ',
        CASE
            WHEN measured = 0 AND buffered = 0 THEN 'seen on one rank only: waiting and transfer cannot be separated'
            WHEN measured = 0 THEN NULL -- tw_buffered says why
            WHEN r.bytes IS NULL THEN 'the trace does not say how many bytes'
            WHEN algbw_p50_gbps IS NULL THEN 'at least half of the transfers are below the clock resolution'
            WHEN bus_factor IS NULL THEN 'no bus factor: nccl-tests does not define the operation, or the group is unknown'
        END,
        tw_missing_ranks(incomplete, measured, ranks_seen, ranks, 'transfer is an upper bound, bandwidth a lower bound'),
        tw_buffered(buffered, instances),
        tw_several_ways(ways),
        CASE WHEN in_switches THEN 'switches reduce (NVLS or SHARP): no peak of a ring holds' END), '') AS note,
    buffered,
    r.link,
    via,
    peak_gbps,
    algbw_p50_gbps * bus_factor / peak_gbps AS peak_share
FROM held AS r
ORDER BY r.op, r.group_id NULLS LAST, r.bytes NULLS LAST
