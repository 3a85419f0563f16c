-- rule: imbalance | ranks waiting for each other
-- topic: ranks and waiting
-- finds: Waiting in collectives without compute that no single straggler explains: ranks take turns in being late. Cost: the mean over the ranks of `exposed_wait_ns`, less what stragglers cause; the first collective of each group does not count, as its waiting reflects how unevenly the recording began. `pop` decides whether the work is uneven: if the busiest rank computes longer than the mean by a third of the waiting or more, the advice is to balance the work, else to look for other delays.
-- try: Where compute differs, balance the work (sequence lengths, experts, shards); where it does not, look at what the ranks do between collectives.
-- proof: exposed_comm
-- param: min_share
WITH known AS (
    SELECT sum(b.late_ns) / any_value(s.windows) AS known_ns
    FROM shared_blame() AS b CROSS JOIN shared_mean_step() AS s
    WHERE b.is_straggler OR b.cause = 'other_group'
),
work AS (
    SELECT
        avg(useful_max_ns - useful_mean_ns) AS uneven_ns,
        sum(useful_mean_ns) / nullif(sum(useful_max_ns), 0) AS load_balance
    FROM analysis_pop() AS p CROSS JOIN shared_mean_step() AS s
    WHERE (p.step IS NOT NULL OR NOT s.has_steps) AND p.ranks > 1
),
-- who is late by turns is late in no recording as a whole
steps AS (
    SELECT
        CASE
            WHEN max(step) - min(step) >= count(DISTINCT step) THEN array_to_string(list(DISTINCT step ORDER BY step), ',')
            ELSE min(step) || '-' || max(step)
        END AS steps
    FROM shared_budget()
),
found AS (
    SELECT
        e.wait_ns - coalesce(k.known_ns, 0) AS cost_ns,
        k.known_ns > 0 AS is_rest,
        coalesce(3 * w.uneven_ns >= e.wait_ns - coalesce(k.known_ns, 0), FALSE) AS is_uneven,
        w.load_balance,
        s.unit,
        e.instances,
        'step=' || t.steps AS steps
    FROM shared_exposure() AS e CROSS JOIN shared_mean_step() AS s CROSS JOIN known AS k CROSS JOIN work AS w CROSS JOIN steps AS t
)
SELECT
    cost_ns,
    CASE WHEN is_uneven THEN concat_ws(' ', steps, 'kind=compute like=mean') END AS scenario,
    CASE WHEN is_rest THEN 'Beyond the waits for single late ranks, ranks' ELSE 'Ranks' END
    || format(' wait for each other {} per {} without compute, and no single rank is to blame{}; ', tw_time(cost_ns), unit,
        CASE WHEN is_rest THEN ' for that' ELSE '' END)
    || CASE WHEN is_uneven THEN 'their compute is uneven' ELSE 'their compute does not explain it' END
    || coalesce(format(' (load balance {})', tw_percent(load_balance)), '')
    || tw_few(instances, 'collective') AS evidence,
    CASE WHEN is_uneven THEN 'Balance the work (sequence lengths, experts, shards); fewer synchronizing collectives'
        ELSE 'Not the amount of work: see what late ranks do between collectives (stragglers -p per=step, gaps): hosts that compete for cores, data, logging; fewer synchronizing collectives'
    END AS advice
FROM found
