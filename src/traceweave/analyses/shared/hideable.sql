-- shared: hideable | how much of each exposed call compute between its input and its use could have hidden, all else in its order
-- through: hideable_calls
-- grain: one row per call of exposed_causes; none where the run is not replayed
-- param: replay_ops
-- column: call_id BIGINT | as in collectives
-- column: slack_ns BIGINT | from when its input was there, on all its ranks, to when what waits for it was ready but for it; NULL: one of them is not known
-- column: movable_ns BIGINT | of its exposed time but for waiting, what compute between the two could have hidden that no communication ran beside; NULL like it
-- column: path_ns BIGINT | what of the transfer of its instance is on the critical path of the run: without it the run is at most so much shorter
SELECT
    call_id,
    any_value(coalesce(k.gpu_op_id, call_id)) AS op_id,
    any_value(coalesce(k.receive_op_id, k.gpu_op_id, call_id)) AS last_op_id,
    CAST(coalesce(sum(x.time_ns) FILTER (WHERE x.cause <> 'other_ranks'), 0) AS BIGINT) AS exposed_ns,
    (SELECT count(*) FROM device_ops) AS operations
FROM {{ ref('exposed_causes') }} AS x JOIN collectives AS k USING (call_id)
GROUP BY call_id
-- calls of one stream may be needed at one moment: the first takes what compute there is
ORDER BY call_id
