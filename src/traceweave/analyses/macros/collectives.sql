-- What is said of collectives in the same way wherever they appear.

-- macro: tw_missing_ranks(incomplete, operations, ranks_seen, ranks, meaning) | a note where incomplete of some operations lack members of their group, as '12 of 16 ranks not seen: ' || meaning if all do; NULL if none does
CREATE TEMP MACRO IF NOT EXISTS tw_missing_ranks(incomplete, operations, ranks_seen, ranks, meaning) AS
    CASE
        WHEN incomplete = operations AND incomplete > 0 THEN format('{} of {} ranks not seen: {}', ranks - ranks_seen, ranks, meaning)
        WHEN incomplete > 0 THEN format('{} of {} lack ranks: waiting for them counts as transfer', incomplete, operations)
    END;

-- macro: tw_synchronizes(op) | whether a collective cannot end on any rank before the last one has begun: not broadcast, reduce, gather and scatter
CREATE TEMP MACRO IF NOT EXISTS tw_synchronizes(op) AS
    op IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier');

-- macro: tw_split_calls() | the collectives whose waiting is told from transfer, without any clock: call_id, rank, gpu_op_id, start_local_ns, duration_ns, wait_ns (by how much it took longer than on the rank where it was shortest; the rest is transfer). Not those seen on one rank, nor those that do not synchronize their ranks
-- reads: collective_instances, collectives
CREATE TEMP MACRO IF NOT EXISTS tw_split_calls() AS TABLE
SELECT k.call_id, k.rank, k.gpu_op_id, k.start_local_ns, k.duration_ns, k.duration_ns - i.transfer_min_ns AS wait_ns
FROM collectives AS k JOIN collective_instances AS i USING (collective_id)
WHERE i.ranks_seen > 1 AND (tw_synchronizes(i.op) OR i.op = 'send_recv');
