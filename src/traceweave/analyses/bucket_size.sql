-- analysis: bucket_size | what larger gradient buckets would cost or save, predicted from the latency and bandwidth of the group
-- answers: Would gradient reduction finish sooner after the backward pass if every k buckets were merged?
-- topic: parallelism
-- grain: one row per data-parallel group and number of buckets merged into one
-- needs: ref('ddp_buckets')
-- param: group_id BIGINT = NULL | as in ddp_buckets
-- param: min_bytes BIGINT = 1024 | as in ddp_buckets
-- param: time VARCHAR = 'transfer' | which time of the collectives is fitted, as in alpha_beta
-- choice: time 'transfer' | from the last rank's start to the last rank's end, where the clocks resolve it
-- choice: time 'shortest' | the shortest duration over the ranks: needs no clock, but may include waiting
-- column: group_id INTEGER | process group
-- column: merged BIGINT | k: every k recorded buckets, in their order, become one; 1 is as recorded
-- column: buckets BIGINT | buckets per step that result
-- column: bytes_max BIGINT | size of the largest of them; NULL if the trace does not say how many bytes
-- column: reduce_ns BIGINT | predicted time of all reductions of a step, alpha + effective bytes / beta each: median over the steps; NULL: see note
-- column: tail_ns BIGINT | predicted time from the last gradients' readiness to the end of the last reduction, if each bucket starts when it is ready on every rank and the one before it is done: median over the steps; NULL: see note
-- column: saved_ns BIGINT | tail_ns of the recorded buckets minus this one, but no more than the tail that was measured; negative: it gets worse
-- column: measured_tail_ns BIGINT | of merged = 1: the time from the last gradients' readiness on any rank to the end of the last reduction as measured, median over the steps, to compare with tail_ns; NULL otherwise
-- column: steps BIGINT | steps used
-- column: alpha_ns BIGINT | latency of the group's all-reduce, from alpha_beta
-- column: beta_gbps DOUBLE | its bus bandwidth, decimal GB/s
-- column: half_bytes BIGINT | size whose reduction is half latency: smaller buckets waste the bandwidth
-- column: is_best BOOLEAN | the smallest predicted tail of the group, the fewest buckets merged of several; NULL if nothing is predicted
-- column: note VARCHAR | why a value is NULL
-- main: group_id, merged, buckets, bytes_max, reduce_ns, tail_ns, saved_ns, measured_tail_ns, is_best, note
-- order: group_id NULLS LAST, merged
-- caveat: a merged bucket is ready when its last gradients are; smaller buckets than the recorded ones are not predicted, since the trace does not say when parts of a bucket were ready.
-- caveat: compute that shares the memory or the links with the reductions is as slow in the prediction as it was in the trace.
WITH buckets AS MATERIALIZED (
    SELECT * FROM {{ ref('ddp_buckets', group_id=param('group_id'), min_bytes=param('min_bytes')) }}
    WHERE step IS NOT NULL AND bucket IS NOT NULL
),
fits AS MATERIALIZED (
    SELECT * FROM {{ ref('alpha_beta', time=param('time')) }} WHERE op = 'all_reduce'
),
-- a bucket can start when the last rank is ready; steps that some rank has only in part say nothing
ready AS MATERIALIZED (
    SELECT
        group_id,
        step,
        bucket,
        max(buckets) AS buckets,
        max(bytes) AS bytes,
        CASE WHEN count(ready_ns) = count(*) THEN max(ready_ns) END AS ready_ns,
        max(end_ns) AS end_ns
    FROM buckets
    GROUP BY group_id, step, bucket
    WINDOW step_of AS (PARTITION BY group_id, step)
    QUALIFY min(min(buckets)) OVER step_of = max(max(buckets)) OVER step_of
),
usual AS (
    SELECT group_id, max(buckets) AS buckets FROM ready GROUP BY group_id
),
choices AS (
    SELECT group_id, merged
    FROM (SELECT group_id, unnest(list_distinct([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, buckets])) AS merged, buckets FROM usual)
    WHERE merged <= buckets
),
merged AS (
    SELECT
        c.group_id,
        c.merged,
        r.step,
        (r.bucket - 1) // c.merged AS number,
        CASE WHEN count(r.bytes) = count(*) THEN sum(r.bytes) END AS bytes,
        CASE WHEN count(r.ready_ns) = count(*) THEN max(r.ready_ns) END AS ready_ns,
        max(r.end_ns) AS end_ns
    FROM choices AS c JOIN ready AS r ON r.group_id IS NOT DISTINCT FROM c.group_id
    GROUP BY c.group_id, c.merged, r.step, number
),
timed AS (
    SELECT
        m.*,
        f.alpha_ns + m.bytes * f.bus_factor / f.beta_gbps AS reduce_ns
    FROM merged AS m LEFT JOIN fits AS f ON f.group_id IS NOT DISTINCT FROM m.group_id
),
-- a bucket ends at the latest of: any bucket's readiness up to it, plus all reductions from that one on
finished AS (
    SELECT
        *,
        ready_ns - max(ready_ns) OVER step_of AS ready_before_ns,
        sum(reduce_ns) OVER (
            PARTITION BY group_id, merged, step ORDER BY number ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS remaining_ns
    FROM timed
    WINDOW step_of AS (PARTITION BY group_id, merged, step)
),
predicted AS (
    SELECT
        group_id,
        merged,
        step,
        count(*) AS buckets,
        max(bytes) AS bytes_max,
        CASE WHEN count(reduce_ns) = count(*) THEN sum(reduce_ns) END AS reduce_ns,
        CASE WHEN count(reduce_ns) = count(*) AND count(ready_ns) = count(*)
            THEN max(ready_before_ns + remaining_ns) END AS tail_ns,
        CASE WHEN merged = 1 AND count(ready_ns) = count(*) THEN max(end_ns) - max(ready_ns) END AS measured_tail_ns
    FROM finished
    GROUP BY group_id, merged, step
),
summed AS (
    SELECT
        group_id,
        merged,
        max(buckets) AS buckets,
        CAST(max(bytes_max) AS BIGINT) AS bytes_max,
        CAST(round(tw_percentile(reduce_ns, 0.5)) AS BIGINT) AS reduce_ns,
        CAST(round(tw_percentile(tail_ns, 0.5)) AS BIGINT) AS tail_ns,
        CAST(round(tw_percentile(measured_tail_ns, 0.5)) AS BIGINT) AS measured_tail_ns,
        count(*) AS steps,
        bool_or(tail_ns IS NULL AND reduce_ns IS NOT NULL) AS is_unready
    FROM predicted
    GROUP BY group_id, merged
)
SELECT
    s.group_id,
    s.merged,
    s.buckets,
    s.bytes_max,
    s.reduce_ns,
    s.tail_ns,
    CASE WHEN s.tail_ns IS NOT NULL THEN least(first(s.tail_ns) OVER whole - s.tail_ns, first(s.measured_tail_ns) OVER whole) END AS saved_ns,
    s.measured_tail_ns,
    s.steps,
    f.alpha_ns,
    f.beta_gbps,
    f.half_bytes,
    CASE WHEN s.tail_ns IS NOT NULL THEN
        row_number() OVER (PARTITION BY s.group_id ORDER BY s.tail_ns NULLS LAST, s.merged) = 1 END AS is_best,
    CASE
        WHEN f.group_id IS NULL AND f.op IS NULL THEN 'not computable: no all-reduce of the group was matched over ranks'
        WHEN f.beta_gbps IS NULL OR f.alpha_ns IS NULL THEN f.note
        WHEN s.bytes_max IS NULL THEN 'not computable: the trace does not say how many bytes'
        WHEN s.is_unready THEN 'not computable: in some step it is unknown when the gradients were ready'
    END AS note
FROM summed AS s LEFT JOIN fits AS f ON f.group_id IS NOT DISTINCT FROM s.group_id
WINDOW whole AS (PARTITION BY s.group_id ORDER BY s.merged)
ORDER BY s.group_id NULLS LAST, s.merged
