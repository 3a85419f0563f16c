-- analysis: recording | whether the records of every rank and step are fit to judge
-- answers: What can the records of this run not support, and how is that avoided?
-- topic: overview
-- grain: one row per rank, file and kind of what is wrong; one row where nothing is
-- column: rank INTEGER | global rank; NULL: all
-- column: verdict VARCHAR | 'fit to judge'; 'with care': the steps count, and message says how far; 'unknown': they count in no average, no idle time and no cause
-- column: kind VARCHAR | short stable name of what is wrong, or of what it is too short for; NULL: nothing
-- column: steps BIGINT[] | the steps it concerns; empty: the whole recording
-- column: count BIGINT | how many records it concerns; NULL: not counted
-- column: total BIGINT | of how many in these steps, or in the file
-- column: message VARCHAR | what it means for the answers
-- column: advice VARCHAR | how to record so that it does not happen
-- column: path VARCHAR | the file
-- main: rank, verdict, kind, count, total, message, advice
-- order: verdict = 'unknown' DESC, rank IS NULL, kind, rank, path
-- caveat: what is judged is what a recording shows of itself: operations that no stream can run so, launches without what they launched, times that cannot be, files that end early, ranks that recorded apart.
-- caveat: events that could not be read are in issues.
WITH judged AS (
    SELECT
        r.rank,
        CASE WHEN r.is_unknown THEN 'unknown' ELSE 'with care' END AS verdict,
        r.kind,
        r.steps,
        r.count,
        r.total,
        r.message,
        r.advice,
        s.path
    FROM recording AS r LEFT JOIN sources AS s USING (source_id)
),
-- what it is too short for, or marks no steps for: nothing is wrong with it
few AS (
    SELECT
        CASE WHEN s.steps > 1 THEN 'inferred steps' WHEN s.has_steps THEN 'one step' ELSE 'no steps' END AS kind,
        CASE
            WHEN s.steps > 1 THEN format('no range marks the steps: {} are inferred from {}', tw_many(s.steps, 'step'), t.inferred_from)
            WHEN s.has_steps THEN 'only one step was recorded: recurring and one-off costs cannot be distinguished'
            ELSE 'no steps are marked: recurring and one-off costs cannot be distinguished'
        END AS message,
        CASE WHEN s.steps = 1 THEN 'record ten or more steps after warm-up'
            ELSE 'mark steps (ProfilerStep; ranges of record_function or NVTX, by --step-range) and record ten or more' END AS advice
    FROM {{ ref('mean_step') }} AS s LEFT JOIN {{ ref('steadiness') }} AS t ON TRUE
    WHERE s.steps < 2 OR t.inferred_from IS NOT NULL
    UNION ALL
    SELECT
        'too short',
        format('{} {}: too short to say what any of its time costs', CASE WHEN any_value(has_steps) THEN 'a step lasts' WHEN any_value(timeline) = 'gpu' THEN 'the recorded GPU work lasts' ELSE 'the recording lasts' END, tw_time(avg(window_ns))),
        'record more of the program, ten steps of training or more'
    FROM {{ ref('budget') }}
    WHERE NOT EXISTS (FROM {{ ref('mean_step') }})
    HAVING count(*) > 0
),
rows AS (
    FROM judged
    UNION ALL
    SELECT
        NULL, CASE WHEN EXISTS (FROM recording) THEN 'with care' ELSE 'fit to judge' END, kind, [], NULL, NULL, message, advice, NULL
    FROM few
    UNION ALL
    SELECT
        NULL, 'fit to judge', NULL, [], NULL, NULL,
        'nothing speaks against the records of ' || tw_many((SELECT count(*) FROM ranks), 'rank'), NULL, NULL
    WHERE NOT EXISTS (FROM recording) AND NOT EXISTS (FROM few) AND EXISTS (FROM ranks)
)
SELECT *
FROM rows
ORDER BY verdict = 'unknown' DESC, rank IS NULL, kind, rank, path
