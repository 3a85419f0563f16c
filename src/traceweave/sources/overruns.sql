-- GPU ops that run far past the next op of their stream: a stream runs its ops one after the other, so the length recorded
-- is none. They end where the next one starts; args keep the length recorded. Input: new_gpu_ops, linked.
-- In recorded runs ops of one stream overlap by 13 us at most (programmatic launches by 3.7 us), on one accelerator that is no
-- GPU by 42 us. Of one launch (a graph) branches may run at once under one number; and where a quarter of a stream's ops
-- overlap, its number stands for several queues, and nothing is wrong.

CREATE OR REPLACE TEMP TABLE overruns AS
WITH ordered AS (
    SELECT
        rank, op_id, device, context, stream, correlation, start_local_ns, duration_ns,
        lead(start_local_ns) OVER queue AS next_ns,
        lead(correlation) OVER queue AS next_correlation,
        count(*) OVER (PARTITION BY rank, device, context, stream) AS ops
    FROM new_gpu_ops
    WHERE rank IS NOT NULL AND stream IS NOT NULL
    WINDOW queue AS (PARTITION BY rank, device, context, stream ORDER BY start_local_ns, op_id)
),
over AS (
    SELECT *, count(*) OVER (PARTITION BY rank, device, context, stream) AS overs
    FROM ordered
    WHERE start_local_ns + duration_ns > next_ns + 50000 AND correlation IS DISTINCT FROM next_correlation
)
SELECT rank, op_id, next_ns - start_local_ns AS duration_ns FROM over WHERE overs <= 3 OR 4 * overs <= ops;

UPDATE new_gpu_ops SET
    duration_ns = o.duration_ns,
    args = json_merge_patch(coalesce(args, '{}'), json_object('recorded duration_ns', new_gpu_ops.duration_ns))
FROM overruns AS o WHERE new_gpu_ops.op_id = o.op_id;
