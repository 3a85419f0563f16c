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
SELECT call_id, collective_id, rank, step, op, start_ns, end_ns, peer
FROM tw_messages()
WHERE CASE
    WHEN {{ param('group_id') }} IS NULL THEN group_id IS NULL OR group_id IN (SELECT group_id FROM tw_pipelines())
    ELSE group_id = {{ param('group_id') }}
END
