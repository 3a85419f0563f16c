-- The common clock, for moments that are shown. What one rank did is measured on that rank's own clock: the drift that is
-- fitted to bring ranks together would stretch its intervals by some millionths.

-- macro: tw_clocks() | clocks with a closed span for each row: rank, from_ns and until_ns (local times), offset_ns, drift_ppm, reference_local_ns
-- reads: clocks
CREATE TEMP MACRO IF NOT EXISTS tw_clocks() AS TABLE
SELECT
    rank,
    CASE WHEN row_number() OVER by_rank = 1 THEN -9223372036854775807
         ELSE coalesce(from_local_ns, -9223372036854775807) END AS from_ns,
    coalesce(lead(from_local_ns) OVER by_rank, 9223372036854775807) AS until_ns,
    offset_ns,
    drift_ppm,
    reference_local_ns
FROM clocks
WINDOW by_rank AS (PARTITION BY rank ORDER BY from_local_ns NULLS FIRST);

-- macro: tw_common_ns(local_ns, offset_ns, drift_ppm, reference_local_ns) | a moment of a rank's clock on the common clock, by the formula of clocks; a rank without a row there keeps its own
CREATE TEMP MACRO IF NOT EXISTS tw_common_ns(local_ns, offset_ns, drift_ppm, reference_local_ns) AS
    local_ns + coalesce(offset_ns, 0)
    + CAST(round(coalesce(drift_ppm, 0) * 1e-6 * (local_ns - coalesce(reference_local_ns, 0))) AS BIGINT);
