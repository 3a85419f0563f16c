-- rule: unsteady_steps | unsteady steps
-- topic: ranks and waiting
-- finds: The mean step exceeds the median by `unsteady_share` (5 %) or more, with three steps at least; a step is as long as its mean over the ranks. Cost: mean less median.
-- try: See what grew in the long steps (`breakdown`): evaluation, checkpoints, garbage collection, recompilation.
-- proof: slow_steps
-- param: unsteady_share DOUBLE = 0.05 | steps are unsteady if their mean exceeds their median by this share
SELECT
    mean_ns - p50_ns AS cost_ns,
    format('Steps take {} at the median, {} on average; the longest, step {}, {}',
        tw_time(p50_ns), tw_time(mean_ns), longest, tw_time(max_ns)) AS evidence,
    'See what grew in the long steps: evaluation, checkpoints, garbage collection, recompilation, longer inputs' AS advice
FROM shared_steadiness()
WHERE steps >= 3 AND mean_ns - p50_ns >= $unsteady_share * p50_ns
