-- rule: recording | records that cannot support what is asked of them
-- topic: what costs no time
-- finds: Ranks and steps whose records are damaged or incomplete, with what that means for the answers. What is unknown is left out of all numbers.
-- try: What its row in recording says.
-- proof: recording
-- reads: recording
SELECT
    'warning' AS severity,
    list(DISTINCT rank ORDER BY rank) AS ranks,
    upper(message[1]) || message[2:] AS evidence,
    upper(advice[1]) || advice[2:] AS advice
FROM recording
-- nothing_to_measure says that one
WHERE kind <> 'no device records'
GROUP BY message, advice
