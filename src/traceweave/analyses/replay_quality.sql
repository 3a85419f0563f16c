-- analysis: replay_quality | how much of each rank's time the dependency graph explains
-- answers: Can critical_path, slowdown and 'traceweave what-if' be relied on for this run, and what should be recorded next time?
-- topic: time
-- grain: one row per rank
-- column: rank INTEGER | global rank
-- column: explained DOUBLE | share of the rank's time in which something ran, or an edge says what the next op waited for, 0 to 1
-- column: unexplained_ns BIGINT | time in which nothing ran and no edge says why
-- column: window_ns BIGINT | from the rank's first op to its last
-- column: nodes BIGINT | nodes of the graph
-- column: ops BIGINT | GPU ops (without a GPU: operators and collectives)
-- column: launched DOUBLE | share of these whose launch is recorded
-- column: stream_waits BIGINT | waits between streams that are edges
-- column: inferred_waits BIGINT | those of them that no record of the profiler names: told by the order of calls and by times
-- column: host_waits BIGINT | calls that waited for the device, or operators for a collective
-- column: unfollowed BIGINT | collectives of the host that no operator is known to wait for: what comes after them does not move with them
-- column: collectives BIGINT | parts in collectives
-- column: incomplete BIGINT | those of them some of whose members are not in the traces: waiting for these cannot be told from transfer
-- column: dropped BIGINT | edges left out because times contradict them
-- column: dropped_kinds VARCHAR | how many of which kind
-- column: path_unexplained DOUBLE | share of the whole run's critical path that no edge explains; from 0.01 on, answers say so
-- column: note VARCHAR | what to switch on when recording; NULL: nothing
-- main: rank, explained, unexplained_ns, window_ns, collectives, unfollowed, inferred_waits, incomplete, path_unexplained, note
-- order: rank
-- caveat: replaying the unchanged graph gives every start and end as measured, or is refused; that does not make inferred edges true.
WITH short_of_ranks AS (
    SELECT DISTINCT c.rank
    FROM collectives AS c JOIN collective_instances AS i USING (collective_id)
    WHERE NOT i.complete
        AND NOT EXISTS (FROM collectives AS u WHERE u.collective_id IS NULL AND u.group_id IS NOT DISTINCT FROM c.group_id AND u.op = c.op)
)
SELECT
    rank,
    1 - unexplained_ns / nullif(window_ns, 0) AS explained,
    unexplained_ns,
    window_ns,
    nodes,
    ops,
    launched / nullif(ops, 0) AS launched,
    stream_waits,
    inferred_waits,
    host_waits,
    unfollowed,
    collectives,
    incomplete,
    dropped,
    dropped_kinds,
    path_unexplained,
    nullif(concat_ws('; ',
        -- where some are recorded, the others were made before the recording began, or are of a kind that the profiler has no link for
        CASE WHEN launched = 0 THEN 'launching calls are missing: record CPU and CUDA activity together' END,
        CASE WHEN inferred_waits > 0 THEN 'waits between streams are inferred: record them, with '
            || (SELECT CASE WHEN any_value(format) = 'nsys' THEN 'nsys profile --cuda-event-trace=true'
                ELSE 'torch.profiler._ExperimentalConfig(enable_cuda_sync_events=True)' END FROM ranks AS r WHERE r.rank = q.rank) END,
        CASE
            WHEN incomplete = 0 THEN NULL
            WHEN (SELECT count(DISTINCT rank) = max(world_size) FROM ranks) IS NOT TRUE THEN 'collectives have members that were not recorded: record every rank'
            -- what was recorded on every rank and could not be matched, no further recording adds
            WHEN rank IN (FROM short_of_ranks) THEN 'collectives have members that were not recorded: record the same steps on every rank'
            ELSE 'collectives could not be matched over the ranks: issues says why'
        END
    ), '') AS note
FROM tw_replay_quality AS q
ORDER BY rank
