-- What everybody may call who asks the database, in analyses and by hand.

-- The alignment formula (docs/trust.md), with the columns of clocks or clock_spans. The product is small (a drift times
-- a run), so a double holds it exactly enough.
CREATE MACRO aligned_ns(local_ns, offset_ns, drift_ppm, reference_local_ns) AS
    local_ns + coalesce(offset_ns, 0)
    + CAST(round(coalesce(drift_ppm, 0) * 1e-6 * (local_ns - coalesce(reference_local_ns, 0))) AS BIGINT);

-- Whether a rank waits for others in a collective, whose root is NULL where it has none or none is known: the root sends a broadcast
-- or scatter when it likes, and all but the root are done with a reduce or gather when they have sent.
CREATE MACRO awaits_others(op, root, rank) AS root IS NULL OR (op IN ('broadcast', 'scatter')) = (rank <> root);
