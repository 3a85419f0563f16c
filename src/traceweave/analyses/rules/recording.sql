-- rule: recording | records that cannot support what is asked of them
-- topic: what costs no time
-- finds: Ranks and steps whose records are damaged or incomplete, with what that means for the answers: what is unknown is left out of all numbers. Also one step, or none that is marked: what recurs and what occurs once cannot be distinguished. Steps of less than 10 us, and recordings without steps of less than 1 ms, are too short for costs.
-- try: What its row in recording says.
-- proof: recording
SELECT
    CASE kind
        WHEN 'one step' THEN 'Only one step was recorded'
        WHEN 'too short' THEN 'Too short to say what costs time'
        WHEN 'no steps' THEN 'No rank marks its steps'
        WHEN 'inferred steps' THEN 'Steps are inferred: no range marks them'
        ELSE tw_subject(ranks, 'has', 'have') || ' doubtful records: ' || kind
    END AS title,
    CASE WHEN ranks IS NOT NULL THEN 'warning' END AS severity,
    ranks,
    CASE WHEN worst IS NULL THEN upper(message[1]) || message[2:] ELSE format('Rank {} most: {}', worst, message) END AS evidence,
    upper(advice[1]) || advice[2:] AS advice
FROM {{ ref('doubted') }}
-- nothing_to_measure says those
WHERE kind NOT IN ('no device records', 'unread tasks', 'nothing to judge', 'nothing left')
