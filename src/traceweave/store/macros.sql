-- What everybody may call who asks the database, in analyses and by hand.

-- The alignment formula (docs/trust.md), with the columns of clocks or clock_spans. The product is small (a drift times
-- a run), so a double holds it exactly enough.
CREATE MACRO aligned_ns(local_ns, offset_ns, drift_ppm, reference_local_ns) AS
    local_ns + coalesce(offset_ns, 0)
    + CAST(round(coalesce(drift_ppm, 0) * 1e-6 * (local_ns - coalesce(reference_local_ns, 0))) AS BIGINT);
