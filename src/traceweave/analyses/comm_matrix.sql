-- analysis: comm_matrix | bytes sent between each pair of ranks, by send and recv and by all_to_all
-- answers: Between which ranks do the bytes go, and how long does it take?
-- topic: parallelism
-- grain: one row per process group, operation, sender and receiver
-- column: group_id INTEGER | process group; NULL if the operations could not be assigned to one
-- column: op VARCHAR | 'send_recv', 'all_to_all', or of experts 'dispatch' or 'combine'
-- column: from_rank INTEGER | the rank that sends; NULL if the traces do not say
-- column: to_rank INTEGER | the rank that receives; NULL: all other members of the group together, which the traces do not list
-- column: messages BIGINT | operations
-- column: bytes BIGINT | sum of their sizes; NULL if the traces have none
-- column: transfer_ns BIGINT | sum of the times from the last start to the last end, of the operations seen on two ranks or more and not buffered (is_buffered of collective_instances); NULL if there are none
-- column: busy_ns BIGINT | sum of how long the sender was in them (the receiver, if the sender was not recorded), waiting included
-- column: transfer_p50_ns BIGINT | median of the transfers
-- column: bandwidth_gbps DOUBLE | send_recv: bytes / transfer_ns over the operations with both, decimal GB/s; NULL for all_to_all, whose transfers are shared by all pairs
-- column: parts VARCHAR | where the bytes of a pair come from: 'message', 'split sizes', 'equal parts' (an assumption), or 'mixed'
-- column: note VARCHAR | why a value is NULL, and what the times leave out
-- main: group_id, op, from_rank, to_rank, messages, bytes, transfer_ns, bandwidth_gbps, note
-- order: group_id NULLS LAST, op, from_rank NULLS LAST, to_rank NULLS LAST
-- caveat: the part of an all_to_all that stays on its own rank is not counted.
-- caveat: the trace lists at most 30 split sizes; beyond that equal parts are assumed.
WITH shared AS (
    SELECT collective_id, ranks_seen, is_buffered, CASE WHEN NOT is_buffered THEN transfer_ns END AS transfer_ns
    FROM collective_instances
    WHERE ranks_seen > 1
),
messages AS (
    SELECT
        k.group_id,
        coalesce(k.collective_id, -k.call_id) AS message_id,
        k.rank,
        k.op = 'send' AS is_send,
        k.peer,
        k.bytes,
        k.duration_ns,
        s.is_buffered,
        s.transfer_ns
    FROM collectives AS k LEFT JOIN shared AS s USING (collective_id)
    WHERE k.op IN ('send', 'recv')
),
sent AS (
    SELECT
        any_value(group_id) AS group_id,
        'send_recv' AS op,
        coalesce(max(rank) FILTER (WHERE is_send), max(peer) FILTER (WHERE NOT is_send)) AS from_rank,
        coalesce(max(rank) FILTER (WHERE NOT is_send), max(peer) FILTER (WHERE is_send)) AS to_rank,
        max(bytes) AS bytes,
        coalesce(any_value(is_buffered), FALSE) AS is_buffered,
        any_value(transfer_ns) AS transfer_ns,
        coalesce(max(duration_ns) FILTER (WHERE is_send), max(duration_ns)) AS busy_ns,
        'message' AS parts,
        FALSE AS is_open
    FROM messages
    GROUP BY message_id
),
exchanges AS MATERIALIZED (
    SELECT
        k.call_id,
        k.op,
        k.group_id,
        k.rank,
        k.bytes,
        k.duration_ns,
        s.transfer_ns,
        g.size,
        CASE WHEN len(g.ranks) = g.size THEN list_sort(g.ranks) END AS members,
        -- the list is cut with '...' after 30 items, which becomes a NULL
        TRY_CAST(coalesce(o.args ->> 'In split size', h.args ->> 'In split size') AS BIGINT[]) AS splits,
        TRY_CAST(coalesce(o.args ->> 'In msg nelems', h.args ->> 'In msg nelems') AS BIGINT) AS elements_in,
        TRY_CAST(coalesce(o.args ->> 'Out msg nelems', h.args ->> 'Out msg nelems') AS BIGINT) AS elements_out
    FROM collectives AS k
    LEFT JOIN groups AS g USING (group_id)
    LEFT JOIN shared AS s USING (collective_id)
    LEFT JOIN gpu_ops AS o ON o.op_id = k.gpu_op_id
    LEFT JOIN host_ops AS h ON h.op_id = k.host_op_id
    WHERE k.op IN ('all_to_all', 'dispatch', 'combine')
),
sized AS (
    SELECT
        *,
        -- bytes is the larger of both buffers; what is sent is the one that goes in
        CASE WHEN greatest(elements_in, elements_out) > 0
            THEN CAST(bytes AS DOUBLE) * elements_in / greatest(elements_in, elements_out) ELSE bytes END AS bytes_in,
        len(splits) = size AND list_count(splits) = size AND list_sum(splits) > 0 AS has_splits
    FROM exchanges
),
exchanged AS (
    SELECT
        group_id,
        op,
        rank AS from_rank,
        pair.to_rank AS to_rank,
        CAST(round(bytes_in * pair.share) AS BIGINT) AS bytes,
        FALSE AS is_buffered,
        transfer_ns,
        duration_ns AS busy_ns,
        CASE WHEN has_splits AND members IS NOT NULL THEN 'split sizes' ELSE 'equal parts' END AS parts,
        members IS NULL AS is_open
    FROM (
        SELECT
            *,
            unnest(CASE
                WHEN members IS NULL THEN [{'to_rank': NULL::INTEGER, 'share': (size - 1) / size}]
                ELSE list_transform(members, lambda m, i: {
                    'to_rank': m,
                    'share': CASE WHEN has_splits THEN splits[i] / list_sum(splits) ELSE 1 / size END
                })
            END) AS pair
        FROM sized
    )
    WHERE pair.to_rank IS DISTINCT FROM rank
),
everything AS (
    SELECT * FROM sent UNION ALL SELECT * FROM exchanged
)
SELECT
    group_id,
    op,
    from_rank,
    to_rank,
    count(*) AS messages,
    CAST(sum(bytes) AS BIGINT) AS bytes,
    CAST(sum(transfer_ns) AS BIGINT) AS transfer_ns,
    CAST(sum(busy_ns) AS BIGINT) AS busy_ns,
    tw_percentile(transfer_ns, 0.5) AS transfer_p50_ns,
    CASE WHEN op = 'send_recv' THEN tw_ratio(
        sum(bytes) FILTER (WHERE transfer_ns > 0), sum(transfer_ns) FILTER (WHERE transfer_ns > 0 AND bytes IS NOT NULL)
    ) END AS bandwidth_gbps,
    CASE WHEN count(DISTINCT parts) > 1 THEN 'mixed' ELSE any_value(parts) END AS parts,
    nullif(concat_ws('; ',
        CASE WHEN bool_or(is_open) THEN 'the traces do not list the members of the group' END,
        CASE WHEN count(bytes) < count(*) THEN 'the traces do not say how many bytes ' || (count(*) - count(bytes)) || ' of them carry' END,
        tw_buffered(count(*) FILTER (WHERE is_buffered), count(*)),
        CASE WHEN count(*) FILTER (WHERE transfer_ns IS NULL AND NOT is_buffered) > 0
            THEN count(*) FILTER (WHERE transfer_ns IS NULL AND NOT is_buffered) || ' of them were seen on one rank only' END
    ), '') AS note
FROM everything
GROUP BY group_id, op, from_rank, to_rank
ORDER BY group_id NULLS LAST, op, from_rank NULLS LAST, to_rank NULLS LAST
