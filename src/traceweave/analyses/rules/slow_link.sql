-- rule: slow_link | a slow link
-- topic: communication
-- needs: groups, ref('bandwidth'), ref('exposed_calls')
-- finds: A group's transfers take `slow_link` (1.3) times as long as those of other groups with the same operation, size, number of ranks and link (`peer_ratio` of `bandwidth`). If exactly one rank is in slow groups only, it is named. Cost: the exposed part of the excess. A single group has no peers: a slow link in it cannot be distinguished from a slow network. Nor can it where host threads time the calls (gloo, MPI): they may have waited for a core.
-- try: nccl-tests on the pair, `nvidia-smi nvlink`, port and cable counters.
-- proof: bandwidth
-- shows: transfers
-- param: slow_link DOUBLE = 1.3 | a group is slow if its transfers take this many times as long as those of its peers
WITH rates AS MATERIALIZED (
    SELECT op, group_id, ranks, instances, measured, transfer_p50_ns, peer_ratio, bytes
    FROM {{ ref('bandwidth') }}
    -- threads that time calls themselves (gloo, MPI) may only have waited for a core
    SEMI JOIN (SELECT group_id FROM collectives WHERE gpu_op_id IS NOT NULL) USING (group_id)
    -- with a member missing, waiting for it looks like transfer
    WHERE peer_ratio IS NOT NULL AND group_id IS NOT NULL AND op <> 'send_recv' AND incomplete = 0
),
slow_groups AS (
    SELECT
        group_id,
        sum((transfer_p50_ns - transfer_p50_ns / peer_ratio) * instances) AS excess_ns,
        sum(transfer_p50_ns * instances) / sum(transfer_p50_ns / peer_ratio * instances) AS ratio
    FROM rates
    GROUP BY group_id
    HAVING ratio >= {{ param('slow_link') }} AND excess_ns > 0
),
-- a rank all of whose comparable groups are slow, if it is the only one
suspects AS (
    SELECT rank, count(s.group_id) AS slow, count(*) AS compared
    FROM (SELECT DISTINCT group_id FROM rates) AS r
    JOIN (SELECT group_id, unnest(ranks) AS rank FROM groups) AS g USING (group_id)
    LEFT JOIN slow_groups AS s USING (group_id)
    GROUP BY rank
    HAVING slow = compared
    QUALIFY count(*) OVER () = 1 AND slow > 1
),
exposures AS (
    SELECT group_id, sum(bare_ns) / sum(duration_ns - coalesce(wait_ns, 0)) AS exposed_share
    FROM {{ ref('exposed_calls') }}
    WHERE duration_ns > coalesce(wait_ns, 0)
    GROUP BY group_id
),
slow_transfers AS (
    SELECT
        CASE WHEN x.rank IS NOT NULL THEN [x.rank] ELSE g.ranks END AS ranks,
        CASE WHEN x.rank IS NULL THEN s.group_id END AS group_id,
        s.group_id AS slow_group,
        s.excess_ns * e.exposed_share AS excess_ns,
        s.ratio
    FROM slow_groups AS s
    JOIN groups AS g USING (group_id)
    JOIN exposures AS e USING (group_id)
    LEFT JOIN suspects AS x ON list_contains(g.ranks, x.rank)
)
SELECT
    tw_subject(t.ranks, 'transfers', 'transfer') || format(' {} times as long as comparable groups', tw_digits(max(t.ratio))) AS title,
    t.ranks,
    t.group_id,
    -- the groups of one rank come one after the other
    sum(t.excess_ns) / greatest(s.steps, 1) AS cost_ns,
    string_agg(format('group={} kind=transfer times={:.4f}', t.slow_group, 1 / t.ratio), '; ' ORDER BY t.slow_group) AS scenario,
    format('Transfers of {} take {} times as long as those of groups of the same size',
        CASE WHEN t.group_id IS NULL THEN format('all {} groups of {}', count(*), tw_ranks(t.ranks))
            ELSE 'group ' || t.group_id END,
        tw_digits(max(t.ratio))) AS evidence,
    'Test its links alone (nccl-tests, nvidia-smi nvlink, ibstat); look for a cable, port or NIC that runs slower' AS advice
FROM slow_transfers AS t CROSS JOIN {{ ref('mean_step') }} AS s
GROUP BY t.ranks, t.group_id, s.steps
