-- Where the run begins and ends, with what host and devices did, on the common clock.
CREATE TABLE memory.explorer.origin AS
WITH known AS (
    SELECT first_local_ns, last_local_ns, c.*
    FROM base.rank_sources JOIN memory.explorer.clocks AS c USING (rank)
    WHERE first_local_ns IS NOT NULL
    UNION ALL
    SELECT first_local_ns, last_local_ns, rank, offset_ns, drift_ppm, reference_local_ns, pieces FROM memory.explorer.lanes
)
SELECT
    coalesce(min(base.align_by(first_local_ns, first_local_ns, offset_ns, drift_ppm, reference_local_ns, pieces)), 0) AS origin_ns,
    coalesce(max(base.align_by(last_local_ns, last_local_ns, offset_ns, drift_ppm, reference_local_ns, pieces)), 0) AS until_ns
FROM known;
