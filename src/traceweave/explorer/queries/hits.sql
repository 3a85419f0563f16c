-- What runs in a stretch of time on some ranks, no shorter than least_ns: read once, for blocks and single operations. Names are
-- long; without them (named: false) millions of rows are no matter.
CREATE OR REPLACE TEMP TABLE hits AS
SELECT
    lane,
    code AS category,
    start_ns,
    duration_ns,
    CASE WHEN $named THEN op_id END AS op_id,
    CASE WHEN $named THEN step END AS step,
    CASE WHEN $named THEN class END AS class,
    CASE WHEN $named THEN name END AS name
FROM memory.explorer.within($from_ns, $until_ns, $low, $high, $short, $ranks)
WHERE duration_ns >= $least_ns
