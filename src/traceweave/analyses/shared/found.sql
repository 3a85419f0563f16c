-- shared: found | what the rules found, with the bound that each puts on its cost
-- grain: one row per rule that applies, and rank or process group that it is about
-- param: min_share
-- column: rule VARCHAR | which rule
-- column: ranks INTEGER[] | the ranks it is about; NULL: the whole run
-- column: group_id INTEGER | the process group it is about; NULL: none in particular, or several that do the same
-- column: title VARCHAR | who and what, in at most 12 words
-- column: bound_ns BIGINT | what it costs per step, at most; NULL: time is not what it costs
-- column: scenario VARCHAR | what fixing it is for what-if; NULL: it cannot be said so
-- column: also VARCHAR | what else its scenario takes away; NULL: nothing
-- column: ceiling VARCHAR | a scenario that gains at least what fixing it can; NULL: none is known
-- column: remedy VARCHAR | what the advice does, for what-if; NULL: it cannot be said so
-- column: otherwise VARCHAR | advice where remedy gains nothing by replay, or is not replayed; NULL: the same
-- column: at_most VARCHAR | severity that it has at most; NULL: by its cost
-- column: evidence VARCHAR | what was found, in words and numbers
-- column: proof VARCHAR | the analysis that shows the rows
-- column: advice VARCHAR | what to try
-- column: shows VARCHAR | what of a timeline it is about, as in findings
SELECT
    f.rule,
    f.ranks,
    f.group_id,
    coalesce(f.title, f.usual_title) AS title,
    CAST(round(f.cost_ns) AS BIGINT) AS bound_ns,
    CASE WHEN g.replays THEN f.scenario END AS scenario,
    f.also,
    CASE WHEN g.replays THEN f.ceiling END AS ceiling,
    CASE WHEN g.replays THEN f.remedy END AS remedy,
    f.otherwise,
    f.severity AS at_most,
    f.evidence,
    coalesce(f.proof, f.usual_proof) AS proof,
    f.advice,
    coalesce(f.shows, f.usual_shows) AS shows
FROM {{ rules() }} AS f LEFT JOIN {{ ref('mean_step') }} AS s ON TRUE
-- of collectives alone, as nsys has of a job without GPUs, there is nothing to replay
CROSS JOIN (SELECT EXISTS (FROM gpu_ops WHERE rank IS NOT NULL) OR EXISTS (FROM host_ops WHERE kind = 'op') AS replays) AS g
WHERE f.cost_ns IS NULL OR (f.cost_ns >= {{ param('min_share') }} * s.step_ns AND f.cost_ns > 0)
