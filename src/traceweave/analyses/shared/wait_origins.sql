-- shared: wait_origins | where the lateness of ranks goes back to that were late in one group because they had waited in another
-- grain: one row per collective, rank that was held up, and rank that its lateness goes back to; a rank that was late on its own account, or first, has none
-- needs: ref('arrivals')
-- param: queued_ns
-- column: collective_id BIGINT | the instance
-- column: rank INTEGER | the rank that came late
-- column: origin INTEGER | the rank that it goes back to: its own share is a row too
-- column: share DOUBLE | how much of its lateness, 0 to 1; they add up to 1
WITH members AS (
    SELECT list(rank ORDER BY rank) AS ranks FROM {{ ref('arrivals') }} GROUP BY collective_id
),
-- nobody is held up in another group where there is none
several AS MATERIALIZED (
    SELECT *, dense_rank() OVER (ORDER BY awaited_ns, collective_id) AS number
    FROM {{ ref('arrivals') }}
    WHERE (SELECT count(DISTINCT ranks) > 1 FROM members)
),
edges AS MATERIALIZED (
    SELECT
        collective_id AS id,
        rank,
        unnest([
            {'edge': 1, 'at_ns': own_start_ns},
            {'edge': 2, 'at_ns': own_start_ns + least(wait_ns, duration_ns)},
            {'edge': 3, 'at_ns': own_end_ns}
        ], recursive := TRUE)
    FROM several
),
ops AS NOT MATERIALIZED (
    FROM tw_own_ops()
),
-- time with and without compute up to each edge: only differences of it mean anything
computed AS (
    SELECT
        id AS collective_id,
        rank,
        any_value(at_ns - compute_ns) FILTER (WHERE edge = 1) AS start_free_ns,
        any_value(at_ns - compute_ns) FILTER (WHERE edge = 2) AS waited_free_ns,
        any_value(compute_ns) FILTER (WHERE edge = 1) AS start_compute_ns,
        any_value(compute_ns) FILTER (WHERE edge = 3) AS end_compute_ns
    FROM tw_computed_until('ops', 'edges')
    GROUP BY id, rank
),
swept AS (
    SELECT
        unnest(sweep_wait_origins(
            list(s.number),
            list(CAST(s.rank AS BIGINT)),
            list(s.start_ns),
            list(s.end_ns),
            -- where no rank waited that the clocks can tell, nobody was held up
            list(CAST(CASE WHEN s.below_resolution THEN 0 ELSE c.waited_free_ns - c.start_free_ns END AS BIGINT)),
            list(CAST(2 * (c.end_compute_ns - c.start_compute_ns) > s.duration_ns AS BIGINT)),
            [CAST({{ param('queued_ns') }} AS BIGINT)]
        ))
    FROM several AS s JOIN computed AS c USING (collective_id, rank)
    HAVING count(*) > 0
)
SELECT n.collective_id, CAST(o.rank AS INTEGER) AS rank, CAST(o.origin AS INTEGER) AS origin, o.share
FROM (SELECT unnest(COLUMNS(*)) FROM swept) AS o JOIN (SELECT DISTINCT number, collective_id FROM several) AS n USING (number)
