-- analysis: findings | what costs this run time, with evidence and advice
-- answers: What should be looked at first, what does it cost, and what would help?
-- topic: overview
-- grain: one row per rule that applies, and rank or process group that it is about
-- reads: clock_spans, device_ops, ranks, steps
-- param: min_share
-- param: warning_share
-- param: critical_share
-- column: severity ENUM('critical', 'warning', 'info') | by what it costs; sorts in this order
-- column: rule VARCHAR | which rule: see docs/findings.md
-- column: ranks INTEGER[] | the ranks it is about; NULL: the whole run
-- column: group_id INTEGER | the process group it is about; NULL: none in particular
-- column: cost_ns BIGINT | what it costs per step, at most; NULL if its cost is not time
-- column: step_share DOUBLE | cost_ns / mean length of a step, 0 to 1
-- column: evidence VARCHAR | what was found, in words and numbers
-- column: proof VARCHAR | the analysis that shows the rows
-- column: advice VARCHAR | what to try
-- order: cost_ns DESC NULLS LAST, severity, rule, ranks NULLS FIRST, group_id NULLS FIRST
-- caveat: a cost is what the step would gain at most if nothing else stood in the way; costs overlap and do not add up.
-- caveat: in a run without steps, the whole recording of a rank counts as one step.
-- caveat: the wait of a pipeline's stages for each other is pipeline_wait, never a straggler: sends, recvs and collectives over several stages are left out of the other rules about waiting.
-- caveat: no rank is called late by less than the clock resolution.
WITH found AS MATERIALIZED (
    FROM every_rule()
),
costly AS (
    SELECT
        CASE
            WHEN f.severity = 'info' THEN 'info'
            WHEN f.cost_ns >= $critical_share * s.step_ns THEN 'critical'
            WHEN f.cost_ns >= $warning_share * s.step_ns THEN 'warning'
            ELSE 'info'
        END AS severity,
        f.* EXCLUDE (severity, cost_ns),
        CAST(round(f.cost_ns) AS BIGINT) AS cost_ns,
        f.cost_ns / s.step_ns AS step_share
    FROM found AS f CROSS JOIN shared_mean_step() AS s
    WHERE f.cost_ns >= $min_share * s.step_ns AND f.cost_ns > 0
),
notes AS (
    SELECT coalesce(severity, 'info') AS severity, * EXCLUDE (severity, cost_ns), NULL AS cost_ns, NULL AS step_share
    FROM found
    WHERE cost_ns IS NULL
)
SELECT CAST(severity AS ENUM('critical', 'warning', 'info')) AS severity, rule, ranks, group_id, cost_ns, step_share, evidence, coalesce(proof, usual_proof) AS proof, advice
FROM (FROM costly UNION ALL BY NAME FROM notes)
ORDER BY cost_ns DESC NULLS LAST, severity, rule, ranks NULLS FIRST, group_id NULLS FIRST
