-- What is said of collectives in the same way wherever they appear.

-- macro: tw_missing_ranks(incomplete, operations, ranks_seen, ranks, meaning) | a note where incomplete of some operations lack members of their group, as '12 of 16 ranks not seen: ' || meaning if all do; NULL if none does
    CASE
        WHEN incomplete = operations AND incomplete > 0 THEN format('{} of {} ranks not seen: {}', ranks - ranks_seen, ranks, meaning)
        WHEN incomplete > 0 THEN format('{} of {} lack ranks: waiting for them counts as transfer', incomplete, operations)
    END;

-- macro: tw_synchronizes(op) | whether a collective cannot end on any rank before the last one has begun: not broadcast, reduce, gather and scatter
    op IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'dispatch', 'combine', 'barrier');

-- macro: tw_unsaid_bytes(said, calls) | a note where only some calls say how many bytes they carry, as '5 of 17 calls do not say how many bytes: bytes is of the others'; NULL if all do
    CASE
        WHEN said = 0 THEN 'the traces do not say how many bytes'
        WHEN said < calls THEN format('{} of {} calls do not say how many bytes: bytes is of the others', calls - said, calls)
    END;

-- macro: tw_buffered(buffered, operations) | a note where some of the operations are messages that were buffered (is_buffered of collective_instances), whose transfer says nothing of the link; NULL if none is
    CASE
        WHEN buffered = operations AND buffered > 0 THEN 'every send was over before its receive began: buffered messages show no transfer'
        WHEN buffered > 0 THEN format('{} of {} were buffered, their sends over before their receives began: left out of transfer times', buffered, operations)
    END;

-- rows: tw_messages() | sends and receives: call_id, collective_id, group_id, rank, step, op, start_ns, end_ns, and peer, the other side, which the other side's trace may tell alone; NULL if neither does
SELECT k.call_id, k.collective_id, k.group_id, k.rank, k.step, k.op, k.start_ns, k.end_ns, coalesce(k.peer, o.rank) AS peer
FROM collectives AS k
LEFT JOIN collectives AS o
    ON o.collective_id = k.collective_id AND o.rank <> k.rank AND o.op IN ('send', 'recv') AND o.op <> k.op
WHERE k.op IN ('send', 'recv');

-- rows: tw_shared_waits() | collective_waits without those of instances that one rank alone was seen in, whose zeros would be no measurement
FROM collective_waits WHERE collective_id IN (SELECT collective_id FROM collective_instances WHERE ranks_seen > 1);

-- rows: tw_split_calls() | the collectives whose waiting is known: call_id, rank, gpu_op_id, start_local_ns, duration_ns, wait_ns (from its start to that of the last rank; where no clock tells that, by how much it took longer than on the rank where it was shortest; 0 of a buffered message), is_whole (the rest is transfer; else a member of the group is not seen, or comes to it later, and the rest may be waiting for it). Not those seen on one rank, nor those that do not synchronize their ranks, but where root is known and a clock tells
SELECT
    k.call_id, k.rank, k.gpu_op_id, k.start_local_ns, k.duration_ns,
    CASE
        WHEN i.is_buffered OR NOT awaits_others(i.op, i.root, k.rank) THEN 0
        WHEN i.resolution_ns IS NOT NULL THEN greatest(least(i.awaited_ns - k.start_ns, k.duration_ns), 0)
        ELSE k.duration_ns - i.transfer_min_ns
    END AS wait_ns,
    coalesce(i.complete, j.is_whole)
        AND (i.root IS NULL OR i.last_start_ns = CASE WHEN awaits_others(i.op, i.root, k.rank) THEN greatest(i.awaited_ns, k.start_ns) ELSE k.start_ns END) AS is_whole
FROM collectives AS k
JOIN collective_instances AS i USING (collective_id)
CROSS JOIN (SELECT coalesce(count(*) >= max(world_size), TRUE) AS is_whole FROM ranks) AS j
WHERE i.ranks_seen > 1 AND (tw_synchronizes(i.op) OR i.op = 'send_recv' OR i.root IS NOT NULL AND i.resolution_ns IS NOT NULL);

-- rows: tw_choices() | what NCCL ran, by its logs, for a group's operation of a size: group_id, op, bytes, algorithm and protocol (NULL if it ran it in several ways), ways (all of them, as text). A line that may be of several groups counts for each: the group's own line is among them, so where all agree it is known
SELECT
    group_id, op, bytes,
    CASE WHEN count(*) = 1 THEN any_value(algorithm) END AS algorithm,
    CASE WHEN count(*) = 1 THEN any_value(protocol) END AS protocol,
    list(concat_ws(' ', algorithm, protocol) ORDER BY algorithm, protocol) AS ways
FROM (
    SELECT DISTINCT unnest(group_ids) AS group_id, op, bytes, algorithm, protocol
    FROM nccl_choices
    WHERE op IS NOT NULL AND bytes IS NOT NULL
)
GROUP BY group_id, op, bytes;

-- macro: tw_several_ways(ways) | a note where NCCL ran an operation in several ways, as 'NCCL ran it as RING LL and TREE LL'; NULL if in one, or if it is not known
    CASE WHEN len(ways) > 1 THEN 'NCCL ran it as ' || array_to_string(ways[:-2], ', ') || ' and ' || ways[-1] END;

-- rows: tw_chosen(sizes) | what NCCL ran, by its logs, for the sizes of the relation named `sizes` (op, group_id, bytes_from, bytes) that have one bytes_from: op, group_id, bytes_from, ways (all of them), algorithm and protocol (NULL if several, or if it is not known of one of them)
SELECT * REPLACE (if(is_one, algorithm, NULL) AS algorithm, if(is_one, protocol, NULL) AS protocol)
FROM (
    SELECT
        s.op, s.group_id, s.bytes_from, list_sort(list_distinct(flatten(list(n.ways)))) AS ways,
        any_value(n.algorithm) AS algorithm, any_value(n.protocol) AS protocol,
        count(n.ways) = count(*) AND max(n.ways) = min(n.ways) AND max(len(n.ways)) = 1 AS is_one
    FROM (SELECT DISTINCT op, group_id, bytes_from, bytes FROM query_table(sizes)) AS s
    LEFT JOIN tw_choices() AS n ON n.op = s.op AND n.group_id = s.group_id AND n.bytes = s.bytes
    GROUP BY s.op, s.group_id, s.bytes_from
);

-- macro: tw_in_switches(name) | whether an algorithm or kernel reduces or copies inside switches, where no ring's formula holds: NVLS, SHARP (CollNet), multicast
    regexp_matches(name, '(?i)nvls|sharp|collnet|multimem|multicast|LDMC|STMC');

-- rows: tw_switched() | the collectives that do so by the names of their kernels: op, group_id, bytes
SELECT DISTINCT i.op, i.group_id, i.bytes
FROM collectives AS k
JOIN collective_instances AS i USING (collective_id)
SEMI JOIN (SELECT op_id FROM gpu_ops WHERE category = 'communication' AND tw_in_switches(name)) AS o ON o.op_id = k.gpu_op_id;
