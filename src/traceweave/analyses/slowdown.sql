-- analysis: slowdown | how much stragglers slow the job down, as StragglerAnalysis (OSDI 2025) defines it: steps without delays against steps in which equal work takes equally long
-- answers: How much faster would the job be if nobody straggled, and whose doing is it: ranks, the last pipeline stage, a type of work?
-- topic: parallelism
-- grain: one row for the job, per step, rank, stage, type of work, and for the worst ranks and the last stage together
-- column: scope VARCHAR | 'job', 'step', 'rank', 'stage', 'last stage', 'worst ranks' (the worst 3 %, at least one), 'class', 'collective' or 'kernel' (the 20 with most time)
-- column: what VARCHAR | number of the stage, the ranks, or the name of the type
-- column: rank INTEGER | of 'rank'
-- column: step BIGINT | of 'step'
-- column: slowdown DOUBLE | of the job: mean undelayed_ns / mean ideal_ns (S). Of a step: the same of one step. Of the others: mean step with only this work as measured and all else ideal, against the mean ideal step; of a rank the smaller one of its pipeline's and its stage's (S_w)
-- column: share DOUBLE | of 'worst ranks' (M_W) and 'last stage' (M_S): share of the job's slowdown that is gone if their work alone is ideal; NULL for the others, and where the job is slowed down by less than 1.03
-- column: measured_ns DOUBLE | of the job and of a step: mean length of the step as it was measured (length_ns of steps)
-- column: undelayed_ns DOUBLE | length of the step replayed by itself, without any delay of host or device: from the first op to the last over all ranks. What hosts and launching take is in measured_ns only
-- column: ideal_ns DOUBLE | the same if every op of compute also took the mean of its name, and every collective the median transfer of its name, operation and size, over all ranks and steps
-- order: place
-- caveat: needs steps; each is replayed by itself, with all ranks ready at once, so that launch delays and what steps hand on are left out.
-- caveat: equal names are taken for equal work: a kernel that is launched with several shapes gets their mean on every rank.
-- caveat: the ideal step has as many calls as the measured one: what a rank does in calls that others do not make is no slowdown here, and where they are shorter than the mean of their name, its ideal step is longer than measured. what-if with like=median counts such calls.
-- caveat: stages are those who send to each other, in the order of their ranks; ranks of a run without messages are pipelines by themselves.
SELECT
    t.scope, t.what, t.rank, t.step, t.slowdown, t.share,
    CASE t.scope WHEN 'job' THEN (SELECT mean_ns FROM {{ ref('steadiness') }}) WHEN 'step' THEN s.length_ns END AS measured_ns,
    t.step_ns AS undelayed_ns,
    t.ideal_ns
FROM tw_slowdown AS t LEFT JOIN {{ ref('steps') }} AS s ON t.scope = 'step' AND s.step = t.step
ORDER BY place
