-- shared: exchanged | what each call of an exchange (all_to_all, dispatch, combine) sends to each other rank
-- grain: one row per call and receiver
-- needs: collectives
-- column: call_id BIGINT | as in collectives
-- column: collective_id BIGINT | the same value on all ranks of one instance
-- column: group_id INTEGER | process group
-- column: op VARCHAR | which operation
-- column: from_rank INTEGER | the rank of the call
-- column: to_rank INTEGER | the receiver; NULL: all other members together, which the traces do not list
-- column: bytes BIGINT | what it gets; NULL if the trace does not say
-- column: duration_ns BIGINT | length of the call
-- column: parts VARCHAR | 'split sizes', or 'equal parts' (an assumption)
WITH exchanges AS MATERIALIZED (
    SELECT
        k.call_id,
        k.collective_id,
        k.op,
        k.group_id,
        k.rank,
        k.bytes,
        k.duration_ns,
        g.size,
        CASE WHEN len(g.ranks) = g.size THEN list_sort(g.ranks) END AS members,
        -- the list is cut with '...' after 30 items, which becomes a NULL
        -- of gloo the call that issues it says them
        TRY_CAST(coalesce(
            o.args ->> 'In split size', h.args ->> 'In split size',
            CASE WHEN h.name = 'c10d::alltoall_base_' THEN json_extract_string(h.args, '$."Concrete Inputs"[4]') END
        ) AS BIGINT[]) AS splits,
        TRY_CAST(coalesce(o.args ->> 'In msg nelems', h.args ->> 'In msg nelems') AS BIGINT) AS elements_in,
        TRY_CAST(coalesce(o.args ->> 'Out msg nelems', h.args ->> 'Out msg nelems') AS BIGINT) AS elements_out
    FROM collectives AS k
    LEFT JOIN groups AS g USING (group_id)
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
)
SELECT
    call_id,
    collective_id,
    group_id,
    op,
    rank AS from_rank,
    pair.to_rank AS to_rank,
    CAST(round(bytes_in * pair.share) AS BIGINT) AS bytes,
    duration_ns,
    CASE WHEN has_splits AND members IS NOT NULL THEN 'split sizes' ELSE 'equal parts' END AS parts
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
