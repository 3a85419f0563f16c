-- shared: pipeline_messages | the sends and receives that may be those of a pipeline
-- grain: one row per rank and message
-- needs: collectives
-- param: group_id BIGINT = NULL | take the sends and receives of this group only; NULL: of all groups that are not known to be for something else, nor communicators of MPI
-- column: call_id BIGINT | as in collectives
-- column: collective_id BIGINT | the same value on both sides
-- column: rank INTEGER | the rank of the call
-- column: step BIGINT | step in which it was issued
-- column: op VARCHAR | 'send' or 'recv'
-- column: start_ns BIGINT | start, common clock
-- column: end_ns BIGINT | end, common clock
-- column: peer INTEGER | the other side; NULL if it is not known
SELECT
    k.call_id,
    k.collective_id,
    k.rank,
    k.step,
    k.op,
    k.start_ns,
    k.end_ns,
    coalesce(k.peer, o.rank) AS peer
FROM collectives AS k
LEFT JOIN collectives AS o
    ON o.collective_id = k.collective_id AND o.rank <> k.rank AND o.op IN ('send', 'recv') AND o.op <> k.op
WHERE k.op IN ('send', 'recv')
    AND CASE
        WHEN {{ param('group_id') }} IS NULL THEN k.group_id IS NULL OR k.group_id IN (SELECT group_id FROM tw_pipelines())
        ELSE k.group_id = {{ param('group_id') }}
    END
