-- shared: replayed | what fixing what was found would be worth: each scenario alone, and the first n together; and what can be gained at most where no scenario is the fix
-- through: replayed_fixes
-- grain: one row per scenario of the costliest findings, the best first, after one for the run as it is; one with a note alone where nothing is replayed
-- param: replay_ops
-- param: min_share
-- column: n BIGINT | 0: the run as it is; 1 is the scenario that alone gains most, 2 the next that gains more on top of it, last those that are the ceiling of a finding; NULL: any other, or one that gains less than min_share alone and on top of those
-- column: scenario VARCHAR | as what-if takes it; NULL: none
-- column: alone_ns BIGINT | what the mean step gains by it alone; NULL: it cannot be replayed
-- column: uncertainty_ns BIGINT | by how much that may be off, as in what-if; NULL: one step does not tell
-- column: adds_ns BIGINT | what it gains on top of those before it; NULL where it has no place
-- column: step_ns BIGINT | mean step with the first n together
-- column: bottleneck VARCHAR | what the critical path is then mostly made of
-- column: note VARCHAR | how far to trust it, or why it is not replayed
SELECT r.operations, f.scenario, f.is_fix, f.is_limit
FROM (SELECT count(*) AS operations FROM device_ops) AS r
LEFT JOIN (
    -- what the advice does alone is no fix either, but takes nothing of others away
    SELECT scenario, bool_or(is_fix) AS is_fix, bool_or(is_ceiling) OR NOT bool_or(is_fix) AS is_limit, max(bound_ns) AS bound_ns
    FROM (
        SELECT scenario, TRUE AS is_fix, FALSE AS is_ceiling, bound_ns FROM {{ ref('found') }}
        UNION ALL
        SELECT unnest([ceiling, remedy]), FALSE, unnest([TRUE, FALSE]), bound_ns FROM {{ ref('found') }}
    )
    WHERE scenario IS NOT NULL AND bound_ns IS NOT NULL
    GROUP BY scenario
) AS f ON TRUE
ORDER BY f.bound_ns DESC, f.scenario
