-- rule: imbalance | ranks waiting for each other
-- topic: ranks and waiting
-- finds: Waiting in collectives without compute that no single straggler explains: ranks take turns in being late, some are late together as those of a slow host or replica are (at most half of all, the same in more steps than by chance), one rank is late in few steps, one is late in most steps for something of its own and hidden by a straggler, for whom the others wait longer (from `warning_share` of the step on: it gains once that one is not late, as in `fixes`), or one is in most of it and twice as long as any other, rather not by chance (at most 50 %), or a few by turns; the evidence names rank and steps where that is at least half of it, in at most a third of the steps, and in each twice what any other rank is late in a step. Its scenario makes what it is late for as long as the others have it: in that step and the one before, in all steps where it comes back. That of ranks late together makes them as long as the others in what they are late for. Cost: the mean over the ranks of `exposed_wait_ns`; of one rank in few steps, ranks late together and what the late can leave out (idling, data, copies), how long in each collective the rank waits that comes first; less what stragglers cause, hosts that launch late in turn, of which launch_bound tells, and few ranks that wait for data, of which data_bound or one_off_stall does; the first collective of each group does not count, as its waiting reflects how unevenly the recording began. The work is called uneven if by `pop` the busiest rank computes longer than the mean by a third of the waiting or more, and if longer compute is what makes ranks late, by `stragglers` of each step (who waited in another group, by what those do that it waited for), in at least half of the waiting whose cause is known. Then the advice is to balance the work; its scenario leaves out stragglers that compute longer, whose cost is a finding of its own. Else the evidence names the main cause, where one is known of at least half of the waiting, and the advice is to look for it; where that is longer compute after all, it says in which way compute explains part of the waiting.
-- try: Where compute differs, balance the work (sequence lengths, experts, shards); where it does not, look at what the ranks do between collectives.
-- proof: exposed_comm
-- shows: waits
-- needs: ref('turns')
WITH told AS (
    SELECT rank FROM {{ ref('blame') }} WHERE is_straggler
    UNION
    SELECT unnest(ranks) FROM {{ ref('late_hosts') }}
    UNION
    SELECT rank FROM {{ ref('late_for_data') }}
),
-- whose work can be divided: what a straggler computes longer would be evened out a second time
slow AS (
    SELECT rank FROM {{ ref('blame') }} WHERE is_straggler AND cause = 'compute'
),
others AS (
    SELECT
        count(*) AS ranks,
        CASE WHEN count(*) < (SELECT count(*) FROM ranks) THEN 'rank=' || array_to_string(list(rank ORDER BY rank), ',') END AS scope
    FROM ranks ANTI JOIN slow USING (rank)
),
-- whether what they are given, calls and sizes of inputs, explains less than a third of that
given AS (
    SELECT 3 * avg(given_ns) < avg(uneven_ns) AS is_same
    FROM (
        SELECT max(own_ns) - avg(own_ns) AS uneven_ns, max(given_ns) - avg(given_ns) AS given_ns
        FROM {{ ref('given_work') }} WHERE rank NOT IN (FROM slow) OR (SELECT ranks FROM others) < 2
        GROUP BY step
    )
),
-- who is late by turns is late in no recording as a whole
steps AS (
    SELECT
        CASE
            WHEN max(step) - min(step) >= count(DISTINCT step) THEN array_to_string(list(DISTINCT step ORDER BY step), ',')
            ELSE min(step) || '-' || max(step)
        END AS steps,
        list(DISTINCT step ORDER BY step) AS every
    FROM {{ ref('budget') }}
),
-- no matter of turns: one rank in few steps, and what it then does
few AS (
    SELECT l.rank, l.steps, l.around, l.share, d.does, d.compiles
    FROM {{ ref('late_in_few') }} AS l JOIN {{ ref('done_in_few') }} AS d USING (rank) ANTI JOIN told USING (rank)
),
-- nor of turns: those of a slow host or replica, whose compute is not what all could share, and who is late behind a straggler
together AS (
    SELECT
        g.* EXCLUDE (cause),
        CASE WHEN g.behind IS NULL THEN tw_subject(g.ranks, '', 'keep the others waiting together') ELSE format('Rank {} is late too, hidden by {}', g.ranks[1], if(len(g.behind) > 2, 'stragglers', tw_ranks(g.behind))) END AS title,
        CASE WHEN g.behind IS NOT NULL OR starts_with(title, 'Ranks ') THEN tw_ranks(g.ranks) ELSE split_part(title, ' keep', 1) END AS who,
        format(', most for {}{} in {} of {}. ', who, coalesce('. Apart from ' || tw_ranks(g.behind) || ', they wait longest for it', ': they are late together'), g.steps, tw_many(g.of_steps, (SELECT unit FROM {{ ref('mean_step') }}))) AS whom,
        -- one of them may be the last in all steps, for a reason of its own
        if(g.behind IS NULL, (SELECT CASE WHEN count(s.cause) = len(g.ranks) AND count(DISTINCT s.cause) = 1 THEN any_value(s.cause) END FROM {{ ref('stragglers') }} AS s WHERE list_contains(g.ranks, s.rank)), g.cause) AS cause
    FROM {{ ref('late_beside') }} AS g
    WHERE NOT EXISTS (FROM told WHERE list_contains(g.ranks, told.rank))
),
-- of whom it is mostly, though chance may do that too; or of the few who take turns
maybe AS (
    SELECT m.rank, CASE WHEN m.rank IS NOT NULL THEN format(', most for rank {}, which may be chance. ', m.rank)
        WHEN len(m.turns) > 1 AND 2 * len(m.turns) <= r.ranks + 1 AND 2 * m.turns_ns > m.all_ns THEN format('. They do so in turn, most for {}. ', tw_ranks(m.turns)) END AS whom
    FROM (
        SELECT
            max(rank) FILTER (stands_out AND chance <= 0.5 AND 2 * apart_ns > all_ns AND apart_ns >= 2 * coalesce(longest[2], 0) AND NOT EXISTS (FROM few) AND NOT EXISTS (FROM together)) AS rank,
            list(rank ORDER BY rank) FILTER (2 * apart_ns >= longest[1]) AS turns, sum(apart_ns) FILTER (2 * apart_ns >= longest[1]) AS turns_ns, any_value(all_ns) AS all_ns
        FROM (SELECT *, sum(apart_ns) OVER () AS all_ns, max(apart_ns, 2) OVER () AS longest FROM {{ ref('blame') }} ANTI JOIN told USING (rank))
    ) AS m CROSS JOIN (SELECT count(*) AS ranks FROM ranks) AS r
),
-- why those are late that no finding of its own is about; of one rank in few steps, why it is then
late AS (
    SELECT
        -- what is known of less than half is not what most of it is for
        CASE WHEN 2 * sum(wait_ns) FILTER (cause IS NOT NULL) >= sum(wait_ns) THEN arg_max(cause, (wait_ns, cause)) FILTER (cause IS NOT NULL) END AS cause,
        max(wait_ns) FILTER (cause IS NOT NULL) / sum(wait_ns) FILTER (cause IS NOT NULL) AS share,
        2 * coalesce(sum(wait_ns) FILTER (cause = 'compute'), 0) >= sum(wait_ns) FILTER (cause IS NOT NULL) AS is_compute
    FROM (
        SELECT s.cause, sum(s.wait_ns) AS wait_ns FROM {{ ref('begun_causes') }} AS s ANTI JOIN told USING (rank)
        LEFT JOIN few AS o ON TRUE CROSS JOIN maybe AS m LEFT JOIN together AS g ON TRUE
        WHERE CASE WHEN o.rank IS NOT NULL THEN s.rank = o.rank AND list_contains(o.steps, s.step)
            WHEN g.ranks IS NOT NULL THEN list_contains(g.ranks, s.rank) ELSE s.rank = coalesce(m.rank, s.rank) END
        GROUP BY s.cause
    )
    WHERE wait_ns > 0
),
-- how often a rank does something in every step is no chance
more AS (
    SELECT d.*
    FROM {{ ref('differences') }} AS d ANTI JOIN told USING (rank)
    WHERE kind IN ('kernel', 'operator') AND is_always_more
    QUALIFY row_number() OVER (ORDER BY excess_ns DESC, rank, name) = 1
),
-- what is said of the waiting, whoever is late
said AS (
    SELECT
        u.wait_ns,
        u.longest_ns,
        CASE WHEN u.is_rest THEN 'waits rank=' || (SELECT array_to_string(list(rank ORDER BY rank), ',') FROM ranks ANTI JOIN told USING (rank)) END AS shows,
        CASE WHEN u.is_rest THEN 'Apart from other findings, ranks' ELSE 'Ranks' END
            || format(' wait for each other {} per {} on average, without compute', tw_time(u.wait_ns), s.unit) AS waiting,
        s.unit,
        s.has_gpu,
        w.is_uneven,
        w.is_same,
        l.cause,
        -- what it need not do: else the others would have to come later for it to come sooner
        coalesce(NOT l.is_compute AND l.cause NOT IN ('other_group', 'late_end'), FALSE) AS is_own,
        l.share,
        coalesce(l.cause = 'compute', FALSE) AS is_part,
        coalesce(l.is_compute, FALSE) AS is_compute,
        -- where they are given more, that can be divided
        coalesce(l.cause <> 'compute', TRUE) OR NOT u.is_uneven OR w.is_same AS is_their_own,
        CASE
            WHEN w.is_uneven AND w.is_same THEN 'Their compute is uneven, though most calls and sizes of inputs are the same'
            WHEN w.is_uneven THEN 'Their compute is uneven'
            WHEN is_part AND is_compute THEN 'Their compute is uneven between collectives more than over a ' || s.unit
            WHEN is_part THEN 'Their compute explains only part of it'
            ELSE 'Their compute does not explain it'
        END
        || coalesce(format(' (load balance {})', tw_percent(u.load_balance)), '')
        || coalesce(CASE WHEN NOT w.is_uneven THEN format('. In {} of the waiting whose cause is known{}, {}', tw_percent(l.share),
            CASE WHEN l.share >= 0.5 THEN '' ELSE ', more than for any other cause' END, tw_who_does('the late rank', c.words))
        WHEN 3 * v.excess_ns >= u.wait_ns
            THEN '. ' || v.does END, '') AS why,
        tw_few(e.instances, 'collective') AS few_instances
    FROM {{ ref('turns') }} AS u CROSS JOIN {{ ref('exposure') }} AS e CROSS JOIN {{ ref('mean_step') }} AS s CROSS JOIN given AS y CROSS JOIN late AS l
    CROSS JOIN LATERAL (SELECT u.is_uneven AND coalesce(l.is_compute, TRUE) AS is_uneven, coalesce(y.is_same, FALSE) AS is_same) AS w
    LEFT JOIN more AS v ON TRUE LEFT JOIN together AS g ON TRUE LEFT JOIN tw_late_causes() AS c ON c.cause = CASE WHEN g.ranks IS NULL THEN l.cause ELSE g.cause END
),
-- the ways in which ranks are late, the first that there is
ways AS (
    SELECT
        1 AS place,
        format('Rank {} keeps the others waiting {}', f.rank, w.which) AS title,
        [f.rank] AS ranks,
        f.share * d.longest_ns AS cost_ns,
        'waits step=' || array_to_string(f.steps, ',') AS shows,
        -- what comes back it does in all steps, whether or not others wait for it there
        CASE WHEN coalesce(d.cause NOT IN ('other_group', 'late_end'), TRUE)
            THEN tw_as_others('rank=' || f.rank || CASE WHEN len(f.steps) = 1 THEN ' step=' || array_to_string(f.around, ',') ELSE '' END, d.cause) END AS scenario,
        format('. Most of it is for rank {} {}. ', f.rank, w.which) || CASE WHEN f.compiles THEN format('There rank {} compiles code', f.rank)
            ELSE coalesce(f.does, tw_who_does(format('There rank {}', f.rank), c.words), 'No cause was found') END AS whom,
        CASE WHEN f.compiles THEN tw_compile_before(f.rank) WHEN d.cause = 'late_end' THEN tw_see_end(d.has_gpu)
            WHEN d.cause = 'data_loading' THEN format('Find out why batches of rank {} come late there: storage, a shuffle, workers that start again; prefetch more batches', f.rank)
            ELSE tw_see_what(f.rank, f.steps, NULL) END AS advice
    FROM few AS f CROSS JOIN said AS d CROSS JOIN steps AS t CROSS JOIN LATERAL (SELECT tw_which_steps(f.steps, t.every) AS which) AS w
    LEFT JOIN tw_late_causes() AS c USING (cause)
    UNION ALL BY NAME
    SELECT
        2 AS place,
        g.title,
        CAST(g.ranks AS INTEGER[]) AS ranks,
        d.longest_ns AS cost_ns,
        d.shows,
        CASE WHEN coalesce(g.cause NOT IN ('other_group', 'late_end'), TRUE) THEN tw_as_others('rank=' || array_to_string(g.ranks, ','), g.cause) END AS scenario,
        g.whom || coalesce(g.does, d.why) AS whom,
        CASE WHEN g.behind IS NOT NULL THEN format('See what {} does more: rank_difference -p rank={}, gaps', g.who, g.ranks[1])
            WHEN g.cause = 'data_loading' THEN format('More loader workers and prefetching on {}; check their storage and the size of their samples', g.who)
            ELSE format('See what {} have in common (host, storage, network, cores), and what they do more: rank_difference -p rank={}, gaps', g.who, g.ranks[1]) END AS advice
    FROM together AS g CROSS JOIN said AS d
    WHERE d.is_their_own OR g.behind IS NOT NULL
    UNION ALL BY NAME
    SELECT
        3 AS place,
        'Ranks wait for each other: ' || CASE WHEN d.is_same THEN 'equal calls take longer in turn' ELSE 'their compute is uneven' END AS title,
        -- work that is divided takes the others longer
        d.wait_ns AS cost_ns,
        d.shows,
        CASE WHEN o.ranks > 1 THEN concat_ws(' ', o.scope, 'step=' || t.steps, 'kind=compute like=mean') END AS scenario,
        coalesce(g.whom, m.whom, ', in turn. ') || d.why AS whom,
        CASE WHEN NOT d.is_same THEN 'Balance the work (sequence lengths, experts, shards); fewer synchronizing collectives'
            ELSE CASE WHEN d.has_gpu THEN 'Compare clock rates, power and temperature of the GPUs' ELSE 'Look for other load on their CPU cores, such as each other' END
            || '; else for work that values decide, not sizes (experts, sparsity, packed sequences). Fewer synchronizing collectives' END AS advice
    FROM said AS d CROSS JOIN others AS o CROSS JOIN steps AS t CROSS JOIN maybe AS m LEFT JOIN together AS g ON TRUE
    WHERE d.is_uneven
    UNION ALL BY NAME
    SELECT
        4 AS place,
        coalesce(format('Ranks wait, most for rank {}, maybe by chance', m.rank), 'Ranks wait for each other' || CASE WHEN d.cause IS NULL THEN '' ELSE ' in turn' END
            || coalesce(', mostly for ' || CASE WHEN d.share >= 0.5 THEN
                CASE d.cause WHEN 'compute' THEN 'longer compute' WHEN 'host_bound' THEN 'late hosts' WHEN 'data_loading' THEN 'data' WHEN 'copies' THEN 'longer copies'
                    WHEN 'other_group' THEN CASE WHEN (SELECT count(*) FROM groups) > 1 THEN 'other groups' ELSE 'messages' END WHEN 'device_delay' THEN 'late GPUs' WHEN 'late_end' THEN 'collectives ending late' END
            END, '')) AS title,
        CASE WHEN d.is_own THEN d.longest_ns ELSE d.wait_ns END AS cost_ns,
        d.shows,
        coalesce(g.whom, m.whom, CASE WHEN d.cause IS NULL THEN '. ' ELSE ', in turn. ' END) || d.why AS whom,
        CASE
            WHEN d.is_part AND d.is_compute THEN format('Balance the work between collectives, not only over a {} (stragglers -p per=step); fewer synchronizing collectives', d.unit)
            WHEN d.cause = 'late_end' AND d.share >= 0.5 THEN tw_see_end(d.has_gpu)
            WHEN m.rank IS NOT NULL THEN format('Record more steps to be sure. See what rank {} does more: rank_difference -p rank={}, stragglers -p per=step', m.rank, m.rank)
            ELSE 'Not the amount of work' || CASE WHEN d.is_part THEN ' alone' ELSE '' END || ': see what late ranks do between collectives (stragglers -p per=step, gaps). Hosts may compete for cores, data or logging. Fewer synchronizing collectives help'
        END AS advice
    FROM said AS d CROSS JOIN maybe AS m LEFT JOIN together AS g ON TRUE
)
SELECT w.title, w.ranks, w.cost_ns, w.shows, w.scenario, d.waiting || w.whom || d.few_instances AS evidence, w.advice
FROM ways AS w CROSS JOIN said AS d
QUALIFY row_number() OVER (ORDER BY w.place) = 1
