-- analysis: findings | what costs this run time, with evidence and advice
-- answers: What should be looked at first, what does it cost, and what would help?
-- topic: overview
-- grain: one row per rule that applies, and rank that it is about, or process group, with those that do the same for other ranks
-- param: min_share
-- param: warning_share
-- param: critical_share
-- column: severity ENUM('critical', 'warning', 'info') | by what it costs, or gains on top of others where that is told; sorts in this order
-- column: title VARCHAR | who and what, in at most 12 words
-- column: rule VARCHAR | which rule: see docs/terms.md
-- column: ranks INTEGER[] | the ranks it is about; NULL: the whole run
-- column: group_id INTEGER | the process group it is about; NULL: none in particular, or several that do the same
-- column: cost_ns BIGINT | what the mean step gains if it is fixed: by replay of scenario, 0 where that gains nothing; else bound_ns, or what replay gains at most, less what other findings under the same limit claim, where that is less; NULL if its cost is not time
-- column: uncertainty_ns BIGINT | by how much a replayed cost may be off, as in what-if; NULL: it is no replayed one, or one step does not tell
-- column: on_top_ns BIGINT | what it gains on top of the better fixes of fixes, if that is more than twice, or less than half of cost_ns; NULL too where that is nothing: which of two tells that time is not known
-- column: step_share DOUBLE | cost_ns / mean length of a step, 0 to 1
-- column: per VARCHAR | what the cost is of: 'step', or 'recording' where no step is marked
-- column: cost_is VARCHAR | 'replayed', or 'at most': a bound; NULL without a cost
-- column: bound_ns BIGINT | what it costs per step by its rule alone: what the step would gain at most if nothing else stood in the way
-- column: scenario VARCHAR | what fixing it is: for 'traceweave what-if'; NULL: it cannot be said so
-- column: evidence VARCHAR | what was found, in words and numbers
-- column: proof VARCHAR | the analysis that shows the rows
-- column: advice VARCHAR | what to try
-- column: note VARCHAR | why its cost is a bound although it has a scenario: how much more that gains as it changes more, or why it is not replayed; why a replayed cost is above the bound; or how far to trust what is replayed
-- column: shows VARCHAR | what of a timeline it is about: gaps of a cause, ops of a category, waits, transfers (of some uses) or steps, and selectors as of what-if where they differ from those of scenario; NULL: nothing
-- main: severity, title, rule, ranks, cost_ns, cost_is, step_share, evidence, advice, proof
-- order: rule <> 'hang', severity, cost_ns DESC NULLS LAST, rule, ranks NULLS FIRST, group_id NULLS FIRST
-- caveat: costs do not add up: 'traceweave analyze fixes' replays the first n together.
-- caveat: what gains less than min_share by replay, and at most less than warning_share, is left out: -p min_share=0 shows it.
-- caveat: advice on buckets and on gathering ahead is given only where it gains min_share or more by replay.
-- caveat: runs of more than replay_ops operations are not replayed, unless that is raised: their costs are bounds.
-- caveat: in a run without steps, the whole recording of a rank counts as one step.
-- caveat: the wait of a pipeline's stages for each other is pipeline_wait, and a straggler's only as far as that idles longer than the others: sends, recvs and collectives over several stages are left out of the other rules about waiting.
-- caveat: no rank is called late by less than the clock resolution.
WITH costly AS (
    SELECT
        f.*,
        -- a scenario of its own under a ceiling is the fix itself, where it is replayed: what that gains the others under it do not
        f.ceiling IS NULL OR f.scenario <> f.ceiling AND r.alone_ns IS NOT NULL AS is_fix,
        CASE WHEN is_fix THEN coalesce(r.alone_ns, f.bound_ns) ELSE f.bound_ns END AS most_gain_ns,
        -- what all gain together under one ceiling; who would take all away gets what the others leave
        CAST(coalesce(sum(most_gain_ns) OVER (
            PARTITION BY f.ceiling
            ORDER BY f.scenario IS NOT DISTINCT FROM f.ceiling, NOT is_fix, f.rule, f.bound_ns DESC, f.group_id, f.title ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS BIGINT) AS claimed_ns,
        CASE WHEN c.alone_ns IS NOT NULL THEN greatest(c.alone_ns - claimed_ns, 0) END AS left_ns,
        CASE WHEN is_fix THEN most_gain_ns ELSE least(most_gain_ns, left_ns) END AS cost_ns,
        CASE WHEN is_fix THEN r.uncertainty_ns END AS uncertainty_ns,
        c.alone_ns AS most_ns,
        m.alone_ns AS remedy_ns,
        CASE WHEN is_fix THEN r.adds_ns END AS beside_ns,
        CASE WHEN beside_ns > 2 * r.alone_ns OR 2 * beside_ns < r.alone_ns THEN beside_ns END AS on_top_ns,
        f.remedy IS NOT NULL AND coalesce(m.alone_ns < {{ param('min_share') }} * s.length_ns, TRUE) AS is_vain,
        r.alone_ns IS NOT NULL AND is_fix AND starts_with(f.scenario, 'rank=') AND p.is_partial AS may_be_others,
        CASE WHEN r.alone_ns IS NOT NULL AND is_fix AND NOT may_be_others THEN 'replayed' WHEN f.bound_ns IS NOT NULL THEN 'at most' END AS cost_is,
        CASE WHEN f.scenario IS NOT NULL AND f.bound_ns IS NOT NULL THEN nullif(concat_ws('; ',
            CASE
                WHEN r.alone_ns > cost_ns AND f.ceiling IS NOT NULL
                    THEN format('by replay its scenario gains {} more: {}', tw_time(r.alone_ns - cost_ns),
                        CASE WHEN claimed_ns > 0 THEN 'other findings claim that, or this does not count it' ELSE 'it changes more than this counts' END)
            END,
            CASE WHEN may_be_others THEN 'ranks that were not recorded may be as late' END,
            coalesce(r.note, w.note)
        ), '') END AS note
    FROM {{ ref('found') }} AS f
    LEFT JOIN (FROM {{ ref('replayed') }} WHERE scenario IS NOT NULL) AS r USING (scenario)
    LEFT JOIN (FROM {{ ref('replayed') }} WHERE scenario IS NOT NULL) AS c ON c.scenario = f.ceiling
    LEFT JOIN (FROM {{ ref('replayed') }} WHERE scenario IS NOT NULL) AS m ON m.scenario = f.remedy
    LEFT JOIN (FROM {{ ref('replayed') }} WHERE scenario IS NULL) AS w ON TRUE
    LEFT JOIN {{ ref('mean_step') }} AS s ON TRUE
    CROSS JOIN {{ ref('program') }} AS p
)
SELECT
    CAST(CASE
        WHEN c.cost_ns IS NULL THEN coalesce(c.at_most, 'info')
        WHEN c.at_most = 'info' THEN 'info'
        WHEN coalesce(c.on_top_ns, c.cost_ns) >= {{ param('critical_share') }} * s.length_ns AND coalesce(c.at_most, 'critical') = 'critical' THEN 'critical'
        WHEN coalesce(c.on_top_ns, c.cost_ns) >= {{ param('warning_share') }} * s.length_ns THEN 'warning'
        ELSE 'info'
    END AS ENUM('critical', 'warning', 'info')) AS severity,
    c.title,
    c.rule,
    c.ranks,
    c.group_id,
    c.cost_ns,
    c.uncertainty_ns,
    c.on_top_ns,
    c.cost_ns / s.length_ns AS step_share,
    coalesce(s.unit, 'step') AS per,
    c.cost_is,
    c.bound_ns,
    c.scenario,
    c.evidence
    || CASE WHEN NOT c.is_fix AND c.left_ns < c.bound_ns OR (c.scenario = c.ceiling AND c.claimed_ns > 0 AND c.most_ns > c.bound_ns)
        THEN format('. By replay of ''{}'' {} can be gained{}', c.ceiling, CASE WHEN c.most_ns = 0 THEN 'nothing' ELSE 'at most ' || tw_time(c.most_ns) END,
            CASE WHEN least(c.most_ns, c.claimed_ns) > 0 THEN format(', of which other findings claim {}', CASE WHEN c.claimed_ns < c.most_ns THEN tw_time(c.claimed_ns) ELSE 'all' END) ELSE '' END)
        WHEN c.cost_is = 'replayed' AND c.remedy_ns > c.cost_ns
        THEN format('. By replay ''{}'' gains {}', c.remedy, tw_time(c.remedy_ns))
        WHEN c.cost_is = 'replayed' AND c.cost_ns - c.bound_ns >= 0.05 * c.bound_ns
        THEN format('. Without it{} a {} is {} shorter by replay', coalesce(' and ' || c.also, ''), coalesce(s.unit, 'step'), tw_time(c.cost_ns))
        ELSE '' END
    || CASE WHEN c.cost_is = 'replayed' AND NOT c.is_vain AND c.remedy_ns < 0.95 * c.cost_ns AND starts_with(c.remedy, split_part(c.scenario, ' times', 1)) THEN format('. ''{}'' alone gains {}', c.remedy, tw_time(c.remedy_ns)) ELSE '' END AS evidence,
    c.proof,
    CASE WHEN c.is_vain THEN coalesce(c.otherwise, c.advice) ELSE c.advice END AS advice,
    c.note,
    c.shows
FROM costly AS c LEFT JOIN {{ ref('mean_step') }} AS s ON TRUE
-- the rules hold their own bounds to the same; what could be much may gain it once another fix is made
WHERE (c.cost_ns IS NULL OR greatest(c.cost_ns, c.remedy_ns, c.beside_ns) >= {{ param('min_share') }} * s.length_ns OR c.bound_ns >= {{ param('warning_share') }} * s.length_ns)
    -- but not what others under its ceiling claim to the last; that nothing can be gained there is told
    AND NOT coalesce(c.left_ns = 0 AND c.most_ns > 0 AND NOT c.is_fix, FALSE)
ORDER BY rule <> 'hang', severity, cost_ns DESC NULLS LAST, rule, ranks NULLS FIRST, group_id NULLS FIRST
