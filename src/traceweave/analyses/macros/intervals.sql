-- Interval arithmetic. Intervals are half-open, [start_ns, end_ns), in integer nanoseconds on the common clock.
--
-- The length of a union in one pass: read the intervals in the order of their starts and keep the running maximum of
-- the ends seen so far, `covered_until_ns`. What an interval reaches beyond it is what it adds to the union; how far
-- the maximum reaches beyond a moment is what the sum of those additions up to that moment counts too much.

-- macro: tw_added_ns(start_ns, end_ns, covered_until_ns) | length that an interval adds to the union of those before it; covered_until_ns is the largest end among them, NULL if there are none; 0 if the interval has no end
CREATE TEMP MACRO IF NOT EXISTS tw_added_ns(start_ns, end_ns, covered_until_ns) AS
    greatest(end_ns - greatest(start_ns, coalesce(covered_until_ns, start_ns)), 0);

-- macro: tw_overhang_ns(covered_until_ns, at_ns) | how far a union reaches beyond a moment; 0 if it ends before it or is empty
CREATE TEMP MACRO IF NOT EXISTS tw_overhang_ns(covered_until_ns, at_ns) AS
    greatest(coalesce(covered_until_ns, at_ns) - at_ns, 0);

-- macro: tw_shared_ns(start_ns, end_ns, from_ns, until_ns) | length of the part of an interval that lies in another one; 0 if they do not meet
CREATE TEMP MACRO IF NOT EXISTS tw_shared_ns(start_ns, end_ns, from_ns, until_ns) AS
    greatest(least(end_ns, until_ns) - greatest(start_ns, from_ns), 0);
