-- rule: few_steps | steps that are one, or not marked
-- topic: what costs no time
-- finds: One step was recorded, or no step is marked: recurring and one-off costs cannot be distinguished. Or nothing marks the steps, which are inferred.
-- try: Record ten or more steps after warm-up.
-- proof: steps
SELECT
    CASE
        WHEN s.steps > 1 THEN format('No range marks the steps: {} are inferred from {}', tw_many(s.steps, 'step'), t.inferred_from)
        WHEN s.has_steps THEN 'Only one step was recorded: recurring and one-off costs cannot be distinguished'
        ELSE 'No steps are marked: recurring and one-off costs cannot be distinguished'
    END AS evidence,
    CASE WHEN s.steps = 1 THEN 'Record ten or more steps after warm-up'
        ELSE 'Mark steps (ProfilerStep, NVTX ranges named by --step-range) and record ten or more' END AS advice
FROM shared_mean_step() AS s LEFT JOIN shared_steadiness() AS t ON TRUE
WHERE s.steps < 2 OR t.inferred_from IS NOT NULL
