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
WITH path AS (
    SELECT step, rank, kind, what, group_id, CAST(sum(length_ns) AS BIGINT) AS path_ns, count(*) AS pieces
    FROM tw_path_pieces
    GROUP BY ALL
),
own AS (
    SELECT step, rank, kind, what, group_id, CAST(sum(spent_ns) AS BIGINT) AS spent_ns FROM tw_spent GROUP BY ALL
),
of_all AS (
    SELECT step, kind, what, sum(spent_ns) / (SELECT count(*) FROM tw_replay_quality) AS mean_ns FROM tw_spent GROUP BY ALL
)
SELECT
    p.step,
    p.rank,
    p.kind,
    p.what,
    p.group_id,
    p.path_ns,
    p.path_ns / nullif(sum(p.path_ns) OVER in_step, 0) AS share,
    CASE WHEN p.kind <> 'device_delay' THEN coalesce(o.spent_ns, 0) END AS rank_ns,
    CASE WHEN p.kind <> 'device_delay' THEN coalesce(a.mean_ns, 0) END AS mean_ns,
    sum(p.path_ns) OVER of_rank / nullif(sum(p.path_ns) OVER in_step, 0) AS rank_share,
    sum(p.path_ns) OVER of_rank / nullif(sum(p.path_ns) OVER in_step, 0) * (SELECT count(*) FROM tw_replay_quality) AS critical_imbalance,
    p.pieces
FROM path AS p
LEFT JOIN own AS o
    ON o.step IS NOT DISTINCT FROM p.step AND o.rank = p.rank AND o.kind = p.kind
    AND o.what IS NOT DISTINCT FROM p.what AND o.group_id IS NOT DISTINCT FROM p.group_id
LEFT JOIN of_all AS a ON a.step IS NOT DISTINCT FROM p.step AND a.kind = p.kind AND a.what IS NOT DISTINCT FROM p.what
WINDOW in_step AS (PARTITION BY p.step), of_rank AS (PARTITION BY p.step, p.rank)
ORDER BY p.step NULLS FIRST, p.path_ns DESC, p.rank, p.kind, p.what, p.group_id
