-- analysis: clock_quality | how every rank's clock was aligned, how well, and where causality contradicts it
-- answers: Can times of different ranks be compared, and to what resolution?
-- topic: clocks
-- grain: one row per rank and piece of its clock
-- page: table-clocks
-- column: rank INTEGER | global rank
-- column: from_local_ns BIGINT | start of the piece on the rank's own clock; NULL: from the beginning
-- column: reference_rank INTEGER | the rank whose clock is the common one
-- column: offset_ns BIGINT | added to the local time; NULL if the clock was not examined
-- column: drift_ppm DOUBLE | rate difference, parts per million
-- column: bound_ns BIGINT | half-width of the interval that the offset lies in, by causality and the ends near; NULL if unbounded
-- column: residual_p50_ns BIGINT | median distance of the rank's collective ends from the fit; NULL without anchors
-- column: residual_p95_ns BIGINT | 95th percentile of the same: smaller differences between ranks are noise
-- column: anchors BIGINT | matched collectives in the fit
-- column: method VARCHAR | how the offset was found
-- column: status VARCHAR | 'aligned', 'same host', 'wall clock' or 'unaligned'
-- column: instances BIGINT | synchronizing collectives of the rank that were seen on another rank too, over all pieces
-- column: violations BIGINT | those that ended on this rank before another rank began: impossible, so a clock is wrong
-- column: violation_max_ns BIGINT | by how much at most; NULL without violations
-- column: disagreements BIGINT | those whose wait on the common clock and whose wait without clocks differ by more than residual_p95_ns of this rank and the last one together; NULL without residuals
-- column: disagreement_max_ns BIGINT | by how much at most; NULL without disagreements
-- main: rank, from_local_ns, offset_ns, drift_ppm, bound_ns, residual_p95_ns, anchors, violations, status
-- order: rank, from_local_ns NULLS FIRST
-- caveat: a violation is counted for the rank that ended too early; the wrong clock may be that of the rank that began too late.
-- caveat: a disagreement means that the split of this rank's time into wait and transfer is unreliable: its clock is wrong, or its ends come much later than the others'.
-- caveat: all_reduce, all_gather, reduce_scatter, all_to_all (dispatch, combine) and barrier synchronize; the others may end on one rank before another begins.
WITH residuals AS (
    SELECT rank, max(residual_p95_ns) AS residual_ns
    FROM clocks
    GROUP BY rank
),

compared AS (
    SELECT
        w.*,
        i.last_start_ns,
        abs(w.wait_ns - w.wait_free_ns) AS apart_ns,
        mine.residual_ns + theirs.residual_ns AS noise_ns
    FROM collective_waits AS w
    JOIN collective_instances AS i USING (collective_id)
    LEFT JOIN residuals AS mine ON w.rank = mine.rank
    LEFT JOIN residuals AS theirs ON w.last_rank = theirs.rank
    WHERE i.ranks_seen > 1
        AND tw_synchronizes(i.op)
),

checked AS (
    SELECT
        rank,
        count(*) AS instances,
        count(*) FILTER (WHERE end_ns < last_start_ns) AS violations,
        max(last_start_ns - end_ns) FILTER (WHERE end_ns < last_start_ns) AS violation_max_ns,
        CASE WHEN count(noise_ns) > 0 THEN count(*) FILTER (WHERE apart_ns > noise_ns) END AS disagreements,
        max(apart_ns) FILTER (WHERE apart_ns > noise_ns) AS disagreement_max_ns
    FROM compared
    GROUP BY rank
)
SELECT
    r.rank,
    c.from_local_ns,
    c.reference_rank,
    c.offset_ns,
    c.drift_ppm,
    c.bound_ns,
    c.residual_p50_ns,
    c.residual_p95_ns,
    coalesce(c.anchors, 0) AS anchors,
    c.method,
    coalesce(c.status, 'unaligned') AS status,
    coalesce(k.instances, 0) AS instances,
    coalesce(k.violations, 0) AS violations,
    k.violation_max_ns,
    k.disagreements,
    k.disagreement_max_ns
FROM ranks AS r
LEFT JOIN clocks AS c USING (rank)
LEFT JOIN checked AS k USING (rank)
ORDER BY r.rank, c.from_local_ns NULLS FIRST
