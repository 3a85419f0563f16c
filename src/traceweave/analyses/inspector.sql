-- analysis: inspector | collectives as NCCL Inspector measured them, beside what the traces say
-- answers: Does NCCL's own measurement of collectives agree with the traces?
-- topic: communication
-- grain: one row per operation, process group and size that Inspector measured; groups that are not known in one row
-- needs: communicators, nccl_inspected
-- column: op VARCHAR | which operation
-- column: group_id INTEGER | process group; NULL if its communicator fits none, or several
-- column: bytes BIGINT | size S as nccl-tests defines it; NULL if Inspector does not say
-- column: records BIGINT | operations that Inspector measured, counted once per rank
-- column: inspector_p50_ns BIGINT | median of their lengths, waiting included
-- column: calls BIGINT | the same operations in the traces, counted once per rank
-- column: duration_p50_ns BIGINT | median of their lengths, waiting included; NULL if there are none
-- column: ratio DOUBLE | inspector_p50_ns / duration_p50_ns; NULL if there is nothing to compare with
-- column: instances BIGINT | operations that Inspector measured on all ranks of their communicator
-- column: inspector_shortest_p50_ns BIGINT | median over these of the shortest length over the ranks; NULL if there are none
-- column: transfer_min_p50_ns BIGINT | the same from the traces, as in bandwidth
-- column: inspector_busbw_gbps DOUBLE | bus bandwidth from inspector_shortest_p50_ns, decimal GB/s
-- column: busbw_free_p50_gbps DOUBLE | the same from the traces, as in bandwidth
-- column: stated_busbw_p50_gbps DOUBLE | median of the bus bandwidths that Inspector states for each rank, waiting included
-- column: joined BIGINT | records that times identify as one call of the traces (NCCL_INSPECTOR_DUMP_VERBOSE=1)
-- column: joined_difference_p50_ns BIGINT | median of Inspector's length minus the trace's, over these; NULL if there are none
-- column: note VARCHAR | what to know when comparing; NULL if there is nothing to say
-- main: op, group_id, bytes, records, inspector_p50_ns, duration_p50_ns, ratio, inspector_busbw_gbps, busbw_free_p50_gbps, note
-- order: op, group_id NULLS LAST, bytes NULLS LAST
-- caveat: needs files of NCCL Inspector beside the traces.
-- caveat: Inspector records the whole job and the traces a part of it: medians are of different operations, except for joined ones.
-- caveat: Inspector states whole microseconds, and leaves out operations below 8192 bytes per rank unless asked.
WITH inspected AS (
    SELECT i.*, o.size
    FROM nccl_inspected AS i JOIN communicators AS o USING (communicator)
    WHERE i.op NOT IN ('send', 'recv')
),
shortest AS (
    SELECT op, group_id, bytes, tw_percentile(shortest_ns, 0.5) AS shortest_p50_ns, count(*) AS instances
    FROM (
        SELECT op, group_id, bytes, min(duration_ns) AS shortest_ns
        FROM inspected
        WHERE nth IS NOT NULL
        GROUP BY op, group_id, bytes, communicator, nth, size
        HAVING count(*) = size
    )
    GROUP BY op, group_id, bytes
),
measured AS (
    SELECT
        i.op, i.group_id, i.bytes,
        count(*) AS records,
        tw_percentile(i.duration_ns, 0.5) AS inspector_p50_ns,
        tw_percentile(i.busbw_gbps, 0.5) AS stated_busbw_p50_gbps,
        count(k.call_id) AS joined,
        tw_percentile(i.duration_ns - k.duration_ns, 0.5) AS joined_difference_p50_ns,
        count(*) FILTER (WHERE i.timing <> 'kernel_gpu') AS by_host
    FROM inspected AS i LEFT JOIN collectives AS k USING (call_id)
    GROUP BY i.op, i.group_id, i.bytes
),
traced AS (
    SELECT op, group_id, bytes, count(*) AS calls, tw_percentile(duration_ns, 0.5) AS duration_p50_ns
    FROM collectives
    GROUP BY op, group_id, bytes
)
SELECT
    m.op,
    m.group_id,
    m.bytes,
    m.records,
    m.inspector_p50_ns,
    coalesce(t.calls, 0) AS calls,
    t.duration_p50_ns,
    tw_ratio(m.inspector_p50_ns, t.duration_p50_ns) AS ratio,
    coalesce(s.instances, 0) AS instances,
    s.shortest_p50_ns AS inspector_shortest_p50_ns,
    b.transfer_min_p50_ns,
    m.bytes / nullif(s.shortest_p50_ns, 0) * b.bus_factor AS inspector_busbw_gbps,
    b.busbw_free_p50_gbps,
    m.stated_busbw_p50_gbps,
    m.joined,
    m.joined_difference_p50_ns,
    nullif(concat_ws('; ',
        CASE WHEN m.group_id IS NULL THEN 'the communicator is of no known group, or of several'
             WHEN t.calls IS NULL THEN 'the traces have no such operation' END,
        CASE WHEN m.by_host > 0 THEN format('{} of {} were timed by the host', m.by_host, m.records) END), '') AS note
FROM measured AS m
LEFT JOIN shortest AS s ON s.op = m.op AND s.group_id IS NOT DISTINCT FROM m.group_id AND s.bytes IS NOT DISTINCT FROM m.bytes
LEFT JOIN traced AS t ON t.op = m.op AND t.group_id = m.group_id AND t.bytes = m.bytes
LEFT JOIN {{ ref('bandwidth') }} AS b ON b.op = m.op AND b.group_id = m.group_id AND b.bytes = m.bytes
ORDER BY m.op, m.group_id NULLS LAST, m.bytes NULLS LAST
