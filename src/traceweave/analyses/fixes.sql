-- analysis: fixes | what fixing the first n findings together would be worth, and what is the bottleneck then
-- answers: How long does a step take once the best fix is made, the two best, the three best?
-- topic: overview
-- grain: one row per fix that gains something alone or on top of those above it, the best alone first, but last what takes away all of which others claim parts, after one for the run as it is
-- column: n BIGINT | 0: the run as it is; else fixes made so far
-- column: rule VARCHAR | the finding that the n-th one fixes; the first of those with the same scenario, or of those that claim parts of it the one that claims most
-- column: ranks INTEGER[] | the ranks it is about; NULL: the whole run
-- column: group_id INTEGER | the process group it is about; NULL: none in particular, or several that do the same
-- column: title VARCHAR | who and what that finding is about, in at most 12 words
-- column: scenario VARCHAR | what the n-th fix is, for 'traceweave what-if'
-- column: step_ns BIGINT | mean step with the first n fixes, replayed together
-- column: gain_ns BIGINT | what the n-th adds: the step before it less this one
-- column: alone_ns BIGINT | what it gains without the others: cost_ns of findings, unless that is a bound
-- column: uncertainty_ns BIGINT | by how much alone_ns may be off, as in what-if; NULL: one step does not tell
-- column: together_ns BIGINT | what the first n gain
-- column: together_share DOUBLE | together_ns / mean step as it is, 0 to 1
-- column: bottleneck VARCHAR | what the critical path is then mostly made of
-- column: note VARCHAR | what it gains alone, where that is less than half of what it does on top of the others; how far to trust it
-- main: n, ranks, title, step_ns, gain_ns, alone_ns, uncertainty_ns, bottleneck, note
-- order: n
-- caveat: only what a scenario can say is here; findings has the rest, with bounds.
-- caveat: a fix is the whole of it: no transfer at all, no time of the hosts at all; what can be had is less. 'traceweave what-if' takes factors.
-- caveat: what gains less than min_share alone and on top of the fixes above it, or nothing there, is left out; findings has what it gains alone.
-- caveat: runs of more than replay_ops operations are not replayed, unless that is raised.
WITH steps AS (
    SELECT *, first(step_ns) OVER (ORDER BY n) AS measured_ns
    FROM {{ ref('replayed') }}
    WHERE n IS NOT NULL
)
SELECT
    s.n,
    f.rule,
    f.ranks,
    f.group_id,
    f.title,
    s.scenario,
    s.step_ns,
    s.adds_ns AS gain_ns,
    s.alone_ns,
    s.uncertainty_ns,
    CASE WHEN s.n > 0 THEN s.measured_ns - s.step_ns END AS together_ns,
    CASE WHEN s.n > 0 THEN (s.measured_ns - s.step_ns) / nullif(s.measured_ns, 0) END AS together_share,
    s.bottleneck,
    nullif(concat_ws('; ',
        CASE WHEN s.adds_ns > 2 * s.alone_ns
            THEN format('once those above are made; alone it gains {}', CASE WHEN s.alone_ns = 0 THEN 'nothing' ELSE tw_time(s.alone_ns) END) END,
        s.note
    ), '') AS note
FROM steps AS s
LEFT JOIN (
    SELECT rule, ranks, group_id, title, named AS scenario
    FROM (SELECT *, unnest(list_distinct([scenario, ceiling])) AS named FROM {{ ref('found') }} WHERE bound_ns IS NOT NULL)
    -- what takes away all that others claim under it, is of the one that claims most
    QUALIFY row_number() OVER (PARTITION BY named ORDER BY scenario IS DISTINCT FROM named OR ceiling IS NOT DISTINCT FROM named, bound_ns DESC, rule, ranks) = 1
) AS f USING (scenario)
ORDER BY n
