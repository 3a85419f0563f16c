-- rule: imbalance | ranks waiting for each other
-- topic: ranks and waiting
-- finds: Waiting in collectives without compute that no single straggler explains: ranks take turns in being late, some are late together as those of a slow host or replica are (at most half of all, the same in more steps than by chance), one rank is late in few steps, or one is in most of it, rather not by chance (at most 50 %); the evidence names rank and steps where that is at least half of it, in at most a third of the steps, and in each twice what any other rank is late in a step. Its scenario makes what it is late for as long as the others have it: in that step and the one before, in all steps where it comes back. That of ranks late together makes them as long as the others in what they are late for. Cost: how long in each collective the rank waits that comes first; where longer compute is what makes ranks late, which divided takes the others longer, the mean over the ranks of `exposed_wait_ns`; less what stragglers cause, and hosts that launch late in turn, of which launch_bound tells; the first collective of each group does not count, as its waiting reflects how unevenly the recording began. The work is called uneven if by `pop` the busiest rank computes longer than the mean by a third of the waiting or more, and if longer compute is what makes ranks late, by `stragglers` of each step, in at least half of the waiting whose cause is known. Then the advice is to balance the work; its scenario leaves out stragglers that compute longer, whose cost is a finding of its own. Else the evidence names the main cause, and the advice is to look for it; where that is longer compute after all, it says in which way compute explains part of the waiting.
-- try: Where compute differs, balance the work (sequence lengths, experts, shards); where it does not, look at what the ranks do between collectives.
-- proof: exposed_comm
-- shows: waits
-- needs: ref('turns')
WITH told AS (
    SELECT rank FROM {{ ref('blame') }} WHERE is_straggler
    UNION
    SELECT unnest(ranks) FROM {{ ref('late_hosts') }}
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
-- how much longer the rank that others wait for in few steps compiles in them than any other
compiled AS (
    SELECT max(compile_ns) FILTER (is_late) - coalesce(max(compile_ns) FILTER (NOT is_late), 0) AS more_ns
    FROM (
        SELECT k.rank = l.rank AS is_late, sum(k.compile_ns) AS compile_ns
        FROM {{ ref('compiling') }} AS k JOIN {{ ref('late_in_few') }} AS l ON list_contains(l.around, k.step)
        GROUP BY k.rank, l.rank
    )
),
-- no matter of turns: one rank in few steps, and what it then does
few AS (
    SELECT l.rank, l.steps, l.around, arg_max(format('Rank {} is in ''{}'' for {} {}', l.rank, tw_shortened(r.name), tw_time(r.time_ns), r.which)
        || CASE WHEN r.others_ns > 0 THEN format(', the others {} at the median', tw_time(r.others_ns)) ELSE '' END, r.excess_ns) AS does,
        coalesce(2 * (SELECT more_ns FROM compiled) * (SELECT ranks - 1 FROM {{ ref('mean_step') }}) >= l.late_ns, FALSE) AS compiles
    FROM (FROM {{ ref('late_in_few') }} ANTI JOIN told USING (rank)) AS l CROSS JOIN {{ ref('steadiness') }} AS s
    LEFT JOIN {{ ref('differences') }} AS r ON r.rank = l.rank AND r.kind = 'range' AND list_has_any(r.steps, l.around) AND 3 * len(r.steps) <= s.steps
        AND 2 * (r.time_ns - r.others_ns) * (SELECT ranks - 1 FROM {{ ref('mean_step') }}) >= l.late_ns / len(l.steps)
    GROUP BY l.rank, l.steps, l.around, l.late_ns
),
-- of whom it is mostly, though chance may do that too
maybe AS (
    SELECT max(rank) FILTER (WHERE stands_out AND chance <= 0.5 AND 2 * cost_ns > all_ns) AS rank
    FROM (SELECT *, sum(cost_ns) OVER () AS all_ns FROM {{ ref('blame') }} ANTI JOIN told USING (rank))
),
-- nor of turns: those of a slow host or replica, whose compute is not what all could share
together AS (
    SELECT
        g.*,
        tw_subject(g.ranks, '', 'keep the others waiting together') AS title,
        CASE WHEN starts_with(title, 'Ranks ') THEN tw_ranks(g.ranks) ELSE split_part(title, ' keep', 1) END AS who,
        -- one of them may be the last in all steps, for a reason of its own
        (SELECT CASE WHEN count(s.cause) = len(g.ranks) AND count(DISTINCT s.cause) = 1 THEN any_value(s.cause) END
            FROM {{ ref('stragglers') }} AS s WHERE list_contains(g.ranks, s.rank)) AS cause
    FROM {{ ref('late_together') }} AS g
    WHERE NOT EXISTS (FROM told WHERE list_contains(g.ranks, told.rank))
),
-- why those are late that no finding of its own is about; of one rank in few steps, why it is then
late AS (
    SELECT
        arg_max(cause, (wait_ns, cause)) AS cause,
        max(wait_ns) / nullif(sum(wait_ns), 0) AS share,
        2 * coalesce(sum(wait_ns) FILTER (WHERE cause = 'compute'), 0) >= sum(wait_ns) AS is_compute
    FROM (
        SELECT s.cause, sum(s.resolved_wait_ns) AS wait_ns
        FROM {{ ref('stragglers', per='step') }} AS s ANTI JOIN told USING (rank)
        LEFT JOIN few AS o ON TRUE CROSS JOIN maybe AS m LEFT JOIN together AS g ON TRUE
        WHERE s.cause IS NOT NULL AND CASE WHEN o.rank IS NOT NULL THEN s.rank = o.rank AND list_contains(o.steps, s.step)
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
found AS (
    SELECT
        u.wait_ns,
        u.longest_ns,
        u.is_rest,
        (SELECT array_to_string(list(rank ORDER BY rank), ',') FROM ranks ANTI JOIN told USING (rank)) AS rest,
        u.is_uneven AND coalesce(l.is_compute, TRUE) AS is_uneven,
        coalesce(y.is_same, FALSE) AS is_same,
        s.has_gpu,
        u.load_balance,
        s.unit,
        e.instances,
        CASE WHEN o.ranks > 1 THEN concat_ws(' ', o.scope, 'step=' || t.steps, 'kind=compute like=mean') END AS scenario,
        c.words,
        c.cause,
        l.share,
        coalesce(l.cause = 'compute', FALSE) AS is_part,
        l.is_compute,
        i.rank AS late_rank,
        i.steps AS late_in,
        i.around,
        tw_which_steps(i.steps, t.every) AS which,
        i.does,
        i.compiles,
        CASE WHEN i.rank IS NULL AND g.ranks IS NULL THEN m.rank END AS maybe,
        -- where they are given more, that can be divided
        CASE WHEN i.rank IS NULL AND (l.cause IS DISTINCT FROM 'compute' OR NOT u.is_uneven OR y.is_same) THEN g.ranks END AS late_ranks,
        g.title,
        CASE WHEN i.rank IS NULL THEN g.who END AS most_for,
        format('{} of {}', g.steps, tw_many(g.of_steps, s.unit)) AS how_often,
        CASE WHEN 3 * v.excess_ns >= u.wait_ns
            THEN tw_difference(v.rank, v.kind, v.name, v.count_per_step, v.others_count, v.time_ns, v.others_ns, v.which, s.unit) END AS does_more
    FROM {{ ref('turns') }} AS u CROSS JOIN {{ ref('exposure') }} AS e CROSS JOIN {{ ref('mean_step') }} AS s CROSS JOIN given AS y CROSS JOIN steps AS t
    CROSS JOIN others AS o CROSS JOIN late AS l
    CROSS JOIN maybe AS m LEFT JOIN few AS i ON TRUE LEFT JOIN together AS g ON TRUE LEFT JOIN more AS v ON TRUE
    LEFT JOIN tw_late_causes() AS c ON c.cause = CASE WHEN i.rank IS NULL AND g.ranks IS NOT NULL THEN g.cause ELSE l.cause END
)
SELECT
    CASE
        WHEN late_rank IS NOT NULL THEN format('Rank {} keeps the others waiting {}', late_rank, which)
        WHEN late_ranks IS NOT NULL THEN title
        WHEN is_uneven AND is_same THEN 'Ranks wait for each other: equal calls take longer in turn'
        WHEN is_uneven THEN 'Ranks wait for each other: their compute is uneven'
        WHEN maybe IS NOT NULL THEN format('Ranks wait, most for rank {}, maybe by chance', maybe)
        ELSE 'Ranks wait for each other' || CASE WHEN cause IS NULL THEN '' ELSE ' in turn' END || coalesce(', mostly for ' || CASE WHEN share >= 0.5 THEN
            CASE cause WHEN 'compute' THEN 'longer compute' WHEN 'host_bound' THEN 'late hosts' WHEN 'data_loading' THEN 'data' WHEN 'copies' THEN 'longer copies'
                WHEN 'other_group' THEN 'other groups' WHEN 'device_delay' THEN 'late GPUs' END
        END, '')
    END AS title,
    CASE WHEN late_rank IS NOT NULL THEN [late_rank] ELSE CAST(late_ranks AS INTEGER[]) END AS ranks,
    -- work that is divided takes the others longer
    CASE WHEN is_uneven OR is_compute THEN wait_ns ELSE longest_ns END AS cost_ns,
    CASE WHEN late_rank IS NOT NULL THEN 'waits step=' || array_to_string(late_in, ',') WHEN is_rest THEN 'waits rank=' || rest END AS shows,
    CASE
        -- what comes back it does in all steps, whether or not others wait for it there
        WHEN late_rank IS NOT NULL AND coalesce(cause NOT IN ('other_group', 'late_end'), TRUE)
            THEN tw_as_others('rank=' || late_rank || CASE WHEN len(late_in) = 1 THEN ' step=' || array_to_string(around, ',') ELSE '' END, cause)
        WHEN late_rank IS NULL AND late_ranks IS NOT NULL THEN CASE WHEN coalesce(cause NOT IN ('other_group', 'late_end'), TRUE)
            THEN tw_as_others('rank=' || array_to_string(late_ranks, ','), cause) END
        WHEN late_rank IS NULL AND is_uneven THEN scenario
    END AS scenario,
    CASE WHEN is_rest THEN 'Apart from late ranks of other findings, ranks' ELSE 'Ranks' END
    || format(' wait for each other {} per {} and rank without compute', tw_time(wait_ns), unit)
    || coalesce(format('. Most of it is for rank {} {}. ', late_rank, which), CASE WHEN most_for IS NOT NULL THEN format(', most for {}: they are late together in {}. ', most_for, how_often)
        WHEN maybe IS NOT NULL THEN format(', most for rank {}, which may be chance. ', maybe) WHEN cause IS NULL AND NOT is_uneven THEN '. ' ELSE ', in turn. ' END)
    || CASE
        WHEN compiles THEN format('There rank {} compiles code', late_rank)
        WHEN late_rank IS NOT NULL THEN coalesce(does, tw_who_does(format('There rank {}', late_rank), words), 'No cause was found')
        ELSE CASE
            WHEN is_uneven AND is_same THEN 'Their compute is uneven, though most calls and sizes of inputs are the same'
            WHEN is_uneven THEN 'Their compute is uneven'
            WHEN is_part AND is_compute THEN 'Their compute is uneven between collectives more than over a ' || unit
            WHEN is_part THEN 'Their compute explains only part of it'
            ELSE 'Their compute does not explain it'
        END
        || coalesce(format(' (load balance {})', tw_percent(load_balance)), '')
        || CASE WHEN is_uneven THEN coalesce('. ' || does_more, '') ELSE coalesce(format('. In {} of the waiting whose cause is known{}, {}', tw_percent(share),
            CASE WHEN share >= 0.5 THEN '' ELSE ', more than for any other cause' END, tw_who_does('the late rank', words)), '') END
    END
    || tw_few(instances, 'collective') AS evidence,
    CASE WHEN compiles THEN tw_compile_before(late_rank)
        WHEN late_rank IS NOT NULL THEN tw_see_what(late_rank, late_in, NULL)
        WHEN late_ranks IS NOT NULL AND cause = 'data_loading' THEN format('More loader workers and prefetching on {}; check their storage and the size of their samples', most_for)
        WHEN late_ranks IS NOT NULL THEN format('See what {} have in common (host, storage, network, cores), and what they do more: rank_difference -p rank={}, gaps', most_for, late_ranks[1])
        WHEN is_uneven AND is_same THEN CASE WHEN has_gpu THEN 'Compare clock rates, power and temperature of the GPUs' ELSE 'Look for other load on their CPU cores, such as each other' END || '; else for work that values decide, not sizes (experts, sparsity, packed sequences). Fewer synchronizing collectives'
        WHEN is_uneven THEN 'Balance the work (sequence lengths, experts, shards); fewer synchronizing collectives'
        WHEN is_part AND is_compute THEN format('Balance the work between collectives, not only over a {} (stragglers -p per=step); fewer synchronizing collectives', unit)
        WHEN maybe IS NOT NULL AND NOT is_uneven THEN format('Record more steps to be sure. See what rank {} does more: rank_difference -p rank={}, stragglers -p per=step', maybe, maybe)
        ELSE 'Not the amount of work' || CASE WHEN is_part THEN ' alone' ELSE '' END || ': see what late ranks do between collectives (stragglers -p per=step, gaps). Hosts may compete for cores, data or logging. Fewer synchronizing collectives help'
    END AS advice
FROM found
