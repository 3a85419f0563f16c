-- shared: doubted | what the records of ranks cannot support, each kind once, as it is on the rank that has most of it
-- grain: one row per kind of what is wrong, by whether whole recordings have it; one per kind of what the run is too short for
-- needs: ref('recording')
-- column: kind VARCHAR | as in recording
-- column: is_unknown BOOLEAN | what has it counts nowhere
-- column: ranks INTEGER[] | the ranks that have it; NULL: the run
-- column: worst INTEGER | the rank with most of it, which message is of; NULL: all have it alike
-- column: message VARCHAR | what it means for the answers
-- column: advice VARCHAR | how to record so that it does not happen
SELECT
    kind,
    verdict = 'unknown' AS is_unknown,
    list(DISTINCT rank ORDER BY rank) FILTER (rank IS NOT NULL) AS ranks,
    CASE WHEN count(DISTINCT message) > 1 THEN arg_max(rank, (coalesce(count, 0), -rank)) END AS worst,
    arg_max(message, (coalesce(count, 0), -coalesce(rank, 0))) AS message,
    any_value(advice) AS advice
FROM {{ ref('recording') }}
WHERE kind IS NOT NULL
GROUP BY kind, verdict, steps = []
