-- rule: imbalance | ranks waiting for each other
-- topic: ranks and waiting
-- finds: Waiting in collectives without compute that no single straggler explains: ranks take turns in being late. Cost: the mean over the ranks of `exposed_wait_ns`, less what stragglers cause.
-- try: Even out the work (sequence lengths, experts, shards).
-- proof: exposed_comm
WITH known AS (
    SELECT sum(b.late_ns) / any_value(s.windows) AS known_ns
    FROM shared_blame() AS b CROSS JOIN shared_mean_step() AS s
    WHERE b.is_straggler OR b.cause = 'other_group'
)
SELECT
    e.wait_ns - coalesce(k.known_ns, 0) AS cost_ns,
    CASE WHEN k.known_ns > 0 THEN 'Beyond the waits for single late ranks, ranks' ELSE 'Ranks' END
    || format(' wait for each other {} per {} without compute, and no single rank is to blame{}',
        tw_time(e.wait_ns - coalesce(k.known_ns, 0)), s.unit, CASE WHEN k.known_ns > 0 THEN ' for that' ELSE '' END) AS evidence,
    'Even out the work (sequence lengths, experts, shards); fewer synchronizing collectives' AS advice
FROM shared_exposure() AS e CROSS JOIN shared_mean_step() AS s CROSS JOIN known AS k
