-- analysis: recording | whether the records of every rank and step are fit to judge
-- answers: What can the records of this run not support, and how is that avoided?
-- topic: overview
-- grain: one row per rank, file and kind of what is wrong; one row where nothing is
-- reads: ranks, recording, sources, steps
-- column: rank INTEGER | global rank; NULL: all
-- column: verdict VARCHAR | 'fit to judge'; 'with care': the steps count, and message says how far; 'unknown': they count in no average, no idle time and no cause
-- column: kind VARCHAR | short stable name of what is wrong; NULL: nothing
-- column: steps BIGINT[] | the steps it concerns; empty: the whole rank
-- column: count BIGINT | how many records it concerns; NULL: not counted
-- column: total BIGINT | of how many in these steps, or in the file
-- column: message VARCHAR | what it means for the answers
-- column: advice VARCHAR | how to record so that it does not happen
-- column: path VARCHAR | the file
-- main: rank, verdict, kind, count, total, message, advice
-- order: verdict = 'unknown' DESC, kind, rank, path
-- caveat: what is judged is what a recording shows of itself: operations that no stream can run so, launches without what they launched, times that cannot be, files that end early, ranks that recorded apart.
-- caveat: events that could not be read are in issues.
WITH counted AS (
    SELECT count(DISTINCT step) AS steps FROM steps
),
judged AS (
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
    UNION ALL
    SELECT
        NULL, 'fit to judge', NULL, [], NULL, NULL,
        'nothing speaks against the records of ' || tw_many((SELECT count(*) FROM ranks), 'rank')
        || CASE WHEN steps > 1 THEN '' WHEN steps = 1 THEN '; of one step, recurring and one-off costs cannot be told apart'
            ELSE '; where no step is marked, recurring and one-off costs cannot be told apart' END,
        CASE WHEN steps > 1 THEN NULL ELSE 'mark steps and record ten or more after warm-up' END,
        NULL
    FROM counted
    WHERE NOT EXISTS (FROM recording) AND EXISTS (FROM ranks)
)
FROM judged
ORDER BY verdict = 'unknown' DESC, kind, rank, path
