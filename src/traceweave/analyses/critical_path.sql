-- analysis: critical_path | what the end of the run waited for, back to its beginning: the one chain of work that makes steps as long as they are
-- answers: What are the steps made of where it counts, and on which rank?
-- topic: time
-- grain: one row per step, rank, kind, sort of work and process group on the critical path
-- column: step BIGINT | step number; NULL: the run has no steps, or the path left them
-- column: rank INTEGER | the rank whose time it is
-- column: kind VARCHAR | 'compute'; 'transfer': a collective after its last member had arrived (waiting for members is never on the path); 'launch': the host between and in its launching calls, and from there to the device; 'data_loading'; 'sync': what a synchronizing call took after its work was done; 'copy'; 'device_delay': the device began late for no reason that any edge gives
-- column: what VARCHAR | class of the kernels, or operation of the collectives; NULL: kind says it all
-- column: group_id INTEGER | process group of the collectives
-- column: path_ns BIGINT | time on the critical path
-- column: share DOUBLE | path_ns / all of the step's path, 0 to 1
-- column: rank_ns BIGINT | how long the rank did the same in the step in all, on the path or beside it, over all its threads and streams, without the way from a launch to the device; NULL: nobody's own time
-- column: mean_ns DOUBLE | mean over all ranks of the time in which they did the same in any group; NULL: nobody's own time
-- column: rank_share DOUBLE | share of the step's path that is this rank's, of any kind
-- column: critical_imbalance DOUBLE | rank_share against the mean over the ranks of the run: 1 is as much as the mean, 0 for a rank that is not on the path
-- column: pieces BIGINT | stretches that make path_ns
-- main: step, rank, kind, what, path_ns, share, rank_ns, rank_share, pieces
-- order: step NULLS FIRST, path_ns DESC, rank, kind, what, group_id
-- caveat: the path as it was measured; what is next when something on it becomes shorter, 'traceweave what-if' says.
-- caveat: it is one of several, if others are as long; and it rests on edges that replay_quality counts.
SELECT
    step,
    rank,
    kind,
    what,
    group_id,
    path_ns,
    path_ns / nullif(sum(path_ns) OVER (PARTITION BY step), 0) AS share,
    rank_ns,
    mean_ns,
    sum(path_ns) OVER (PARTITION BY step, rank) / nullif(sum(path_ns) OVER (PARTITION BY step), 0) AS rank_share,
    sum(path_ns) OVER (PARTITION BY step, rank) / nullif(sum(path_ns) OVER (PARTITION BY step), 0)
        * (SELECT count(*) FROM tw_replay_quality) AS critical_imbalance,
    pieces
FROM tw_critical_path
ORDER BY step NULLS FIRST, path_ns DESC, rank, kind, what, group_id
