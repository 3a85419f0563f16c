-- rule: unexplained_idle | unexplained idling
-- topic: idling and copies
-- finds: The launch of the op that ended the gap is not in the trace, or no op follows.
-- try: Record CPU activity too.
-- proof: idle_causes
SELECT
    ranks,
    cost_ns,
    opening || ', and no recorded launch explains it' || details AS evidence,
    'Record CPU activity too (ProfilerActivity.CPU, nsys --trace=cuda); see gaps' AS advice
FROM shared_idling()
WHERE cause = 'unknown'
