-- What runs in a stretch of time on some ranks, no shorter than least_ns: read once, for blocks and single operations. Names are
-- long: only operations of named_ns and more have theirs.
CREATE OR REPLACE TEMP TABLE hits AS
SELECT
    lane,
    code AS category,
    start_ns,
    duration_ns,
    CASE WHEN duration_ns >= $named_ns THEN op_id END AS op_id,
    CASE WHEN duration_ns >= $named_ns THEN step END AS step,
    CASE WHEN duration_ns >= $named_ns THEN class END AS class,
    CASE WHEN duration_ns >= $named_ns THEN name END AS name
FROM memory.explorer.within($from_ns, $until_ns, $low, $high, $short, $ranks)
WHERE duration_ns >= $least_ns
