-- rule: unexplained_idle | unexplained idling
-- topic: idling and copies
-- finds: The launch of the op that ended the gap is not in the trace, or no op follows.
-- try: Record CPU activity too, where no launch is recorded at all.
-- proof: idle_causes
SELECT
    i.ranks,
    i.cost_ns,
    i.opening || ', and no recorded launch explains it' || i.details AS evidence,
    CASE
        WHEN EXISTS (FROM gpu_ops WHERE launch_op_id IS NOT NULL) THEN 'See gaps for the ops that end them: the profiler recorded what launched others'
        ELSE 'Record CPU activity too (ProfilerActivity.CPU, nsys --trace=cuda); see gaps'
    END AS advice
FROM shared_idling() AS i
WHERE i.cause = 'unknown'
