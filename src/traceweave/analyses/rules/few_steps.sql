-- rule: few_steps | one step recorded
-- topic: what costs no time
-- finds: One step was recorded, or no step is marked: recurring and one-off costs cannot be distinguished.
-- try: Record ten or more steps after warm-up.
-- proof: steps
SELECT
    CASE WHEN s.has_steps THEN 'Only one step was recorded' ELSE 'No steps are marked' END
    || ': recurring and one-off costs cannot be distinguished' AS evidence,
    CASE WHEN s.has_steps THEN 'Record ten or more steps after warm-up'
        ELSE 'Mark steps (ProfilerStep, NVTX ranges named by --step-range) and record ten or more' END AS advice
FROM shared_mean_step() AS s
WHERE s.steps < 2
