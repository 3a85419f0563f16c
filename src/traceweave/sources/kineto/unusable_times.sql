-- Times that cannot be, told by those of the other events of the file: 0 where all others are far away, or a day and a hundred
-- times as long as the middle half of the file takes. Only where such times may be (load.py) is this asked. Input: new_events.
-- Arrows are found by number, whatever their times are.
UPDATE new_events AS e SET lane = CASE
    WHEN e.since_base_ns BETWEEN b.first_ns - b.most_ns AND b.last_ns + b.most_ns AND NOT (e.since_base_ns = 0 AND b.zero_is_none)
        THEN 'no usable duration' ELSE 'no usable timestamp' END
FROM (
    SELECT
        source_id, low AS first_ns, high AS last_ns,
        greatest(86_400_000_000_000, 100 * (high - low)) AS most_ns,
        greatest(low, -high) > greatest(1_000_000_000, 10 * (high - low)) AS zero_is_none
    FROM (
        SELECT source_id, quantile_disc(since_base_ns, 0.25)::HUGEINT AS low, quantile_disc(since_base_ns, 0.75)::HUGEINT AS high
        FROM new_events
        WHERE lane = 'span'
        GROUP BY source_id
    )
) AS b
WHERE e.source_id = b.source_id AND e.lane IN ('span', 'mark', 'counter', 'memory') AND (
    e.since_base_ns NOT BETWEEN b.first_ns - b.most_ns AND b.last_ns + b.most_ns
    OR e.since_base_ns = 0 AND b.zero_is_none
    OR e.since_base_ns + coalesce(e.duration_ns, 0) > b.last_ns + b.most_ns
)
