-- analysis: exchanges | how unevenly all_to_all, dispatch and combine divide what they move, and what that costs
-- answers: Which rank sends or receives most in each exchange of experts, and how long would it take if all had the same?
-- topic: communication
-- grain: one row per instance whose split sizes every rank recorded
-- needs: collective_instances, ref('exchanged')
-- column: step BIGINT | step in which most ranks issued it; NULL outside any step
-- column: op VARCHAR | 'all_to_all', or of experts 'dispatch' or 'combine'
-- column: group_id INTEGER | process group
-- column: collective_id BIGINT | the instance
-- column: ranks BIGINT | members of the group
-- column: bytes BIGINT | what all ranks send to others
-- column: even_bytes DOUBLE | bytes / ranks: what each would send, and receive, if it were even
-- column: peak_rank INTEGER | the rank that sends or receives most, which the exchange waits for
-- column: peak_bytes BIGINT | how much that is: the larger of what it sends and what it receives
-- column: peak_is VARCHAR | which of them: 'sends' or 'receives'
-- column: peak_to_mean DOUBLE | peak_bytes / even_bytes: 1 if it is even
-- column: heaviest_from INTEGER | the rank that sends most to one other
-- column: heaviest_to INTEGER | that other rank
-- column: heaviest_bytes BIGINT | how much that is
-- column: transfer_ns BIGINT | from the last rank's start to the last rank's end
-- column: even_transfer_ns BIGINT | transfer_ns / peak_to_mean: the same at the same rate, if it were even
-- column: uneven_ns BIGINT | transfer_ns - even_transfer_ns: what unevenness costs the exchange, at most
-- main: step, op, group_id, ranks, bytes, peak_rank, peak_is, peak_bytes, peak_to_mean, transfer_ns, uneven_ns
-- order: uneven_ns DESC NULLS LAST, step NULLS FIRST, collective_id
-- caveat: needs the split sizes of all ranks of a group, of which a trace lists at most 30: without them there are no rows.
-- caveat: the busiest rank is taken to bound the exchange, and latency to cost nothing: uneven_ns is an upper bound.
-- caveat: what the receivers then compute longer is not in it: stragglers has it, with the ranks that wait for them.
WITH pairs AS MATERIALIZED (
    SELECT e.*, i.ranks_expected AS ranks, i.step, i.transfer_ns
    FROM {{ ref('exchanged') }} AS e JOIN collective_instances AS i USING (collective_id)
    WHERE i.complete AND i.ranks_seen > 1 AND e.collective_id IN (
        SELECT collective_id FROM {{ ref('exchanged') }} GROUP BY collective_id HAVING bool_and(parts = 'split sizes' AND bytes IS NOT NULL)
    )
),
loads AS (
    SELECT collective_id, rank, sum(bytes) FILTER (WHERE way = 'sends') AS sent, sum(bytes) FILTER (WHERE way = 'receives') AS received
    FROM (
        SELECT collective_id, from_rank AS rank, 'sends' AS way, bytes FROM pairs
        UNION ALL
        SELECT collective_id, to_rank, 'receives', bytes FROM pairs
    )
    GROUP BY collective_id, rank
),
peaks AS (
    SELECT
        collective_id,
        rank AS peak_rank,
        CAST(greatest(sent, received) AS BIGINT) AS peak_bytes,
        CASE WHEN received >= sent THEN 'receives' ELSE 'sends' END AS peak_is
    FROM loads
    QUALIFY row_number() OVER (PARTITION BY collective_id ORDER BY greatest(sent, received) DESC, rank) = 1
),
whole AS (
    SELECT
        collective_id,
        any_value(step) AS step,
        any_value(op) AS op,
        any_value(group_id) AS group_id,
        CAST(any_value(ranks) AS BIGINT) AS ranks,
        any_value(transfer_ns) AS transfer_ns,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        arg_max(from_rank, (bytes, -from_rank, -to_rank)) AS heaviest_from,
        arg_max(to_rank, (bytes, -from_rank, -to_rank)) AS heaviest_to,
        max(bytes) AS heaviest_bytes
    FROM pairs
    GROUP BY collective_id
    HAVING sum(bytes) > 0
)
SELECT
    w.step,
    w.op,
    w.group_id,
    w.collective_id,
    w.ranks,
    w.bytes,
    w.bytes / w.ranks AS even_bytes,
    p.peak_rank,
    p.peak_bytes,
    p.peak_is,
    p.peak_bytes * w.ranks / w.bytes AS peak_to_mean,
    w.heaviest_from,
    w.heaviest_to,
    w.heaviest_bytes,
    w.transfer_ns,
    CAST(round(w.transfer_ns * (w.bytes / w.ranks) / p.peak_bytes) AS BIGINT) AS even_transfer_ns,
    w.transfer_ns - CAST(round(w.transfer_ns * (w.bytes / w.ranks) / p.peak_bytes) AS BIGINT) AS uneven_ns
FROM whole AS w JOIN peaks AS p USING (collective_id)
ORDER BY uneven_ns DESC NULLS LAST, w.step NULLS FIRST, w.collective_id
