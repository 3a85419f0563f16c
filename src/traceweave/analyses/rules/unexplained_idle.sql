-- rule: unexplained_idle | unexplained idling
-- topic: idling and copies
-- finds: The launch of the op that ended the gap is not in the trace, or no op follows. Or that op was launched before the recording began, or was the first of its stream and waited longer than all that was recorded before: what it waited for is not recorded, so that it has no cost.
-- try: Record CPU activity too, where no launch is recorded at all; record more steps.
-- proof: idle_causes
-- shows: gaps unknown
WITH unlaunched AS (
    SELECT 2 * count(*) FILTER (starts_with(copy_kind, 'UVM')) > count(*) AS are_pages, count(*) = 0 AS are_none FROM gpu_ops WHERE launch_op_id IS NULL
)
SELECT
    CASE WHEN i.cause = 'unknown' AND u.are_none THEN tw_subject(i.who, 'idles after its last launch', 'idle after their last launch')
        WHEN i.cause = 'unknown' THEN tw_subject(i.who, 'idles, and no recorded launch', 'idle, and no recorded launch') || ' explains it'
        ELSE tw_subject(i.who, 'waits for work', 'wait for work') || ' from before the recording' END AS title,
    i.ranks,
    'gaps ' || i.cause AS shows,
    CASE WHEN i.cause = 'unknown' THEN i.cost_ns END AS cost_ns,
    i.opening
    || CASE WHEN i.cause = 'unknown' AND u.are_none THEN ' after its last op: nothing more is launched' WHEN i.cause = 'unknown' THEN ', and no recorded launch explains it' ELSE ' for work that waits for what began before the recording' END
    || i.details || CASE WHEN i.cause = 'unknown' AND u.are_pages THEN '. Pages of managed memory move as they are touched, and no call launches that' ELSE '' END AS evidence,
    CASE
        WHEN i.cause = 'began_before' THEN 'Record more steps: what this work waited for was not recorded'
        WHEN u.are_none THEN 'See what the host does after its last launch'
        WHEN u.are_pages THEN 'Between its pages the host works: see what it does before the first kernel and after the last. Prefetch or copy what it touches at once'
        WHEN EXISTS (FROM gpu_ops WHERE launch_op_id IS NOT NULL) THEN 'See gaps for the ops that end them: the profiler recorded what launched others'
        ELSE 'Record CPU activity too (ProfilerActivity.CPU, nsys --trace=cuda); see gaps'
    END AS advice
FROM {{ ref('idling') }} AS i CROSS JOIN unlaunched AS u
WHERE i.cause IN ('unknown', 'began_before')
