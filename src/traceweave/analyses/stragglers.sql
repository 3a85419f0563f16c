-- analysis: stragglers | how long each rank made the others wait by arriving last, and what it was doing
-- answers: Which rank makes the others wait, how often, what does it cost, and why?
-- topic: communication
-- grain: one row per rank, or per rank and step, that shares a collective with another rank
-- param: per VARCHAR = 'run' | what one row covers
-- choice: per 'run' | the whole run; step is NULL
-- choice: per 'step' | one step of the rank; step is NULL for what it did outside any step
-- param: min_excess_share DOUBLE = 0.1 | what the rank did longer than the others is named as the cause if it makes up at least this share of its lateness
-- param: queued_ns
-- param: min_gap_ns
-- param: kernel_delay_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which this rank issued the collectives; NULL: all of them
-- column: instances BIGINT | collectives of this rank that were seen on another rank too
-- column: times_last BIGINT | those in which it arrived after all the others
-- column: caused_wait_ns BIGINT | sum over these of (its start - the start of the last but one) * number of waiting ranks
-- column: cause VARCHAR | what it did longer than the others on its way to these: 'compute', 'host_bound', 'data_loading', 'copies', 'other_group', 'device_delay' or 'unknown_idle'; NULL: see note
-- column: below_resolution BOOLEAN | at least half of caused_wait_ns comes from delays below the clock resolution; false if it was never last
-- column: resolved_wait_ns BIGINT | the part of caused_wait_ns from delays that the clocks resolve
-- column: delay_max_ns BIGINT | longest time between its start and that of the last but one; NULL if it was never last
-- column: last_share DOUBLE | times_last / instances, 0 to 1
-- column: note VARCHAR | why cause is NULL
-- column: cause_detail VARCHAR | 'compute': the class of kernels that took longest beyond the others'; 'host_bound': the cause of the gaps; 'other_group': the group, and the rank it waited for there, in the same step or the one before
-- column: cause_share DOUBLE | its excess over the others by that cause / its total excess, 0 to 1
-- column: times_shortest BIGINT | collectives in which no other rank's duration was as short: late, judged without clocks
-- column: shortest_share DOUBLE | times_shortest / instances, 0 to 1: beside last_share, which needs the clocks
-- column: worst_steps BIGINT | steps of the run in which it caused more wait than any other rank
-- column: worst_share DOUBLE | worst_steps / steps in which any rank was last: 1 is always the same rank; NULL if none was
-- column: host VARCHAR | host of the rank; NULL if unknown
-- column: host_share DOUBLE | part of the wait caused by all ranks that the ranks of its host caused; NULL if no rank waited or the host is unknown
-- column: stage VARCHAR | 'first', 'middle' or 'last' stage of its pipeline; NULL if it is in none
-- column: known_instances BIGINT | collectives of this rank in which the clocks resolve which rank came last
-- column: known_last BIGINT | those of times_last: what resolved_wait_ns is the sum of
-- column: waited_ns BIGINT | how long it waited for others, in collectives where the clocks resolve that ranks waited
-- column: waited_free_ns BIGINT | the same over all of them without clocks: its duration minus the shortest over the ranks
-- column: inside_ns BIGINT | time inside these collectives, waiting and transfer together
-- column: origin_wait_ns BIGINT | how long ranks waited because of it in all: for itself, and for ranks that it had held up in another group before; over the ranks they add up to waited_ns
-- column: passed_on_ns BIGINT | how long ranks waited for it because others had held it up: part of their origin_wait_ns
-- column: origin_rank INTEGER | the rank that most of passed_on_ns goes back to; NULL if there is none
-- column: chance DOUBLE | probability that of as many ranks that are alike one makes the others wait as often and as long; of the whole run; NULL: the clocks resolve no lateness
-- main: rank, step, known_instances, known_last, origin_wait_ns, cause, cause_detail, cause_share, below_resolution, note
-- order: origin_wait_ns DESC, caused_wait_ns DESC, rank, step NULLS FIRST
-- caveat: caused_wait_ns is summed over the ranks made to wait, and over the steps: arriving 1 ms after 7 others is 7 ms. findings has what one of them loses per step.
-- caveat: the cause compares the stretch from the rank's previous collective among the same ranks to the start of this one with the mean of the others' same stretches, each on the rank's own clock, and weighs it with the number of waiting ranks.
-- caveat: compute comes before communication, copies and idling where they happen at once; host_bound is idle time that gaps attributes to the host, without data loading.
-- caveat: what runs on a GPU holds a collective up from its launch on, or before that as far as the host waited for the GPU. Where both together are less than half of the lateness, the host is late, whatever its GPU did meanwhile.
-- caveat: caused_wait_ns counts a rank that is late because it waited in a collective of another group like any other; its cause is other_group. origin_wait_ns follows its lateness to where it began.
-- caveat: origin_wait_ns shares the time between two arrivals among all ranks that are still missing. A missing rank passes on what it has waited longer than those already there, without compute, since a collective last made all of them even.
-- caveat: worst_steps, worst_share, host_share and stage are those of the whole run, also in rows of a step; a pipeline is a group with the role 'pp', or one that only sends and receives, its ranks in the order of the stages.
-- caveat: a send and its recv count like a collective of two ranks: in a pipeline the first stage is not to blame for the wait for it. A send that was over before its recv began was buffered: nobody waited, and it does not count.
-- caveat: chance: of ranks that are alike each wait of a step might as well have been any other's. All waits take their places by length, so that one long pause counts little more than the next; asked is how often places drawn at random, one in each step, add up to as much as the rank's, times the number of ranks. A rank that was the worst in all of n steps by nearly the same time is rarer yet: times (what the least and the largest lead over the next rank differ by / the largest) ** (n - 1).
-- caveat: chance takes steps for independent: what holds one rank up for several steps is taken for its own. Where fewer than two steps are known, stretches between moments at which the ranks were even take the place of steps.
-- caveat: the clocks resolve a delay where last_is_known of collective_instances is true.
WITH arrivals AS MATERIALIZED (
    SELECT
        w.collective_id,
        w.rank,
        w.op,
        w.group_id,
        w.step,
        w.start_ns,
        -- what a rank did is measured on its own clock
        w.start_local_ns AS own_start_ns,
        w.start_local_ns + w.duration_ns AS own_end_ns,
        w.duration_ns,
        w.wait_ns,
        w.wait_free_ns,
        w.is_last,
        w.last_rank,
        i.below_resolution,
        i.last_delay_ns AS delay_ns,
        i.last_is_known,
        i.ranks_seen - 1 AS waiting_ranks
    FROM collective_waits AS w
    JOIN collective_instances AS i USING (collective_id)
    WHERE i.ranks_seen > 1 AND NOT i.is_buffered
),
delays AS MATERIALIZED (
    SELECT
        collective_id,
        any_value(delay_ns) AS delay_ns,
        any_value(waiting_ranks) AS waiting_ranks,
        any_value(last_is_known) AS last_is_known,
        min(duration_ns) AS shortest_ns,
        count(*) FILTER (WHERE duration_ns = shortest_of_ns) AS shortest_ranks,
        -- who takes part, where the group alone does not say it
        CASE WHEN any_value(op) = 'send_recv' THEN list(rank ORDER BY rank) END AS pair
    FROM (SELECT *, min(duration_ns) OVER (PARTITION BY collective_id) AS shortest_of_ns FROM arrivals)
    GROUP BY collective_id
),
charged AS MATERIALIZED (
    SELECT
        a.collective_id,
        a.rank,
        a.step AS of_step,
        CASE WHEN {{ param('per') }} = 'step' THEN a.step END AS step,
        -- two that arrive together are both not last
        CASE WHEN a.is_last AND d.delay_ns > 0 THEN d.delay_ns END AS delay_ns,
        CASE WHEN a.is_last AND d.delay_ns > 0 THEN d.delay_ns * d.waiting_ranks END AS wait_ns,
        d.last_is_known,
        a.duration_ns = d.shortest_ns AND d.shortest_ranks = 1 AS is_shortest,
        CASE WHEN NOT a.below_resolution THEN a.wait_ns END AS waited_ns,
        a.wait_free_ns,
        a.duration_ns
    FROM arrivals AS a JOIN delays AS d USING (collective_id)
),
ranked AS (
    SELECT
        rank,
        step,
        count(*) AS instances,
        count(delay_ns) AS times_last,
        CAST(coalesce(sum(wait_ns), 0) AS BIGINT) AS caused_wait_ns,
        CAST(coalesce(sum(wait_ns) FILTER (WHERE last_is_known), 0) AS BIGINT) AS resolved_wait_ns,
        max(delay_ns) AS delay_max_ns,
        count(*) FILTER (WHERE is_shortest) AS times_shortest,
        count(*) FILTER (WHERE last_is_known) AS known_instances,
        count(delay_ns) FILTER (WHERE last_is_known) AS known_last,
        CAST(coalesce(sum(waited_ns), 0) AS BIGINT) AS waited_ns,
        CAST(sum(wait_free_ns) AS BIGINT) AS waited_free_ns,
        CAST(sum(duration_ns) AS BIGINT) AS inside_ns
    FROM charged
    GROUP BY rank, step
),
-- how long the others waited for each rank: the time between two arrivals is shared by all who are missing
slices AS (
    SELECT
        collective_id,
        rank,
        CASE WHEN {{ param('per') }} = 'step' THEN step END AS step,
        row_number() OVER by_arrival AS place,
        -- of those who are there, each waits; of those who are not, each has its share in that
        coalesce(start_ns - lag(start_ns) OVER by_arrival, 0) * (place - 1) / (count(*) OVER (PARTITION BY collective_id) - place + 1) AS shared_ns
    FROM arrivals
    WHERE NOT below_resolution
    WINDOW by_arrival AS (PARTITION BY collective_id ORDER BY start_ns, rank)
),
owed AS (
    SELECT collective_id, rank, step, sum(shared_ns) OVER (PARTITION BY collective_id ORDER BY place) AS wait_ns
    FROM slices
),
followed AS MATERIALIZED (
    SELECT w.rank, w.step, coalesce(o.origin, w.rank) AS origin, sum(w.wait_ns * coalesce(o.share, 1)) AS wait_ns
    FROM owed AS w LEFT JOIN {{ ref('wait_origins') }} AS o USING (collective_id, rank)
    GROUP BY ALL
),
-- whole ns that add up to the whole
originated AS (
    SELECT rank, step, CAST(round(until_ns) - round(until_ns - wait_ns) AS BIGINT) AS wait_ns
    FROM (
        SELECT *, sum(wait_ns) OVER (ORDER BY rank, step NULLS FIRST) AS until_ns
        FROM (SELECT origin AS rank, step, sum(wait_ns) AS wait_ns FROM followed GROUP BY ALL)
    )
),
relayed AS (
    SELECT rank, step, CAST(round(sum(wait_ns)) AS BIGINT) AS wait_ns, arg_max(origin, (wait_ns, -origin)) AS origin
    FROM followed
    WHERE origin <> rank
    GROUP BY rank, step
),
-- is it always the same rank, the same host, the same stage?
worst AS (
    SELECT rank, count(*) AS worst_steps
    FROM (
        SELECT rank, row_number() OVER (PARTITION BY of_step ORDER BY sum(wait_ns) DESC, rank) AS place
        FROM charged
        WHERE wait_ns > 0
        GROUP BY rank, of_step
    )
    WHERE place = 1
    GROUP BY rank
),
hosts AS (
    SELECT host, CAST(sum(wait_ns) AS BIGINT) AS wait_ns
    FROM charged JOIN ranks USING (rank)
    WHERE host IS NOT NULL
    GROUP BY host
),
pipelines AS (
    SELECT ranks
    FROM groups
    WHERE len(ranks) > 1 AND (
        role = 'pp'
        OR group_id IN (FROM tw_pipelines()) AND group_id IN (SELECT group_id FROM arrivals GROUP BY group_id HAVING bool_and(op = 'send_recv'))
    )
),
stages AS (
    SELECT
        rank,
        CASE
            WHEN bool_and(place = 1) THEN 'first'
            WHEN bool_and(place = size) THEN 'last'
            ELSE 'middle'
        END AS stage
    FROM (
        SELECT unnest(ranks) AS rank, unnest(range(1, len(ranks) + 1)) AS place, len(ranks) AS size FROM pipelines
    )
    GROUP BY rank
),
edges AS MATERIALIZED (
    SELECT rank, own_start_ns AS at_ns FROM arrivals
    UNION
    SELECT rank, own_end_ns AS at_ns FROM arrivals
),
ops AS NOT MATERIALIZED (
    FROM tw_own_ops()
),
busy AS (
    SELECT rank, at_ns, compute_ns, busy_ns, any_ns FROM tw_busy_until('ops', 'edges')
),
-- the same sweep over gaps by their cause, three causes at a time in place of the three kinds of work
gaps AS MATERIALIZED (
    SELECT rank, cause, start_ns, end_ns
    FROM tw_gaps('span', 'device', {{ param('min_gap_ns') }}, {{ param('kernel_delay_ns') }}, 'summed')
    WHERE start_ns IS NOT NULL AND cause NOT IN ('kernel_delay', 'dependency', 'unknown')
),
late_hosts AS (
    SELECT
        rank,
        CASE cause WHEN 'sync' THEN 'communication' WHEN 'data_loading' THEN 'memory' ELSE 'compute' END AS category,
        start_ns,
        end_ns
    FROM gaps
    WHERE cause IN ('launch_bound', 'compilation', 'sync', 'data_loading')
),
stalls AS (
    SELECT
        rank,
        CASE cause WHEN 'allocator' THEN 'compute' WHEN 'device_delay' THEN 'communication' ELSE 'memory' END AS category,
        start_ns,
        end_ns
    FROM gaps
    WHERE cause IN ('allocator', 'device_delay', 'module_loading', 'profiler_overhead')
),
idle AS (
    SELECT rank, at_ns, compute_ns AS launch_ns, comm_ns AS sync_ns, memory_ns AS loading_ns
    FROM tw_busy_until('late_hosts', 'edges')
),
stalled AS (
    SELECT rank, at_ns, compute_ns AS allocator_ns, comm_ns AS device_ns, memory_ns AS code_ns
    FROM tw_busy_until('stalls', 'edges')
),
totals AS MATERIALIZED (
    SELECT
        rank,
        at_ns,
        b.compute_ns,
        b.busy_ns,
        b.any_ns,
        i.launch_ns,
        i.sync_ns,
        i.loading_ns,
        s.allocator_ns,
        s.code_ns,
        s.device_ns
    FROM busy AS b
    JOIN idle AS i USING (rank, at_ns)
    JOIN stalled AS s USING (rank, at_ns)
),
-- Only what runs in another group can hold a rank up there: in its own, who waits longest was first. How many collectives
-- of others have begun or ended by each edge.
elsewhere AS MATERIALIZED (
    SELECT DISTINCT
        rank,
        group_id,
        pair,
        at_ns,
        count(*) OVER (PARTITION BY rank ORDER BY at_ns)
            - count(*) OVER (PARTITION BY rank, group_id, pair ORDER BY at_ns) AS passed
    FROM (
        SELECT a.rank, a.group_id, d.pair, unnest([a.own_start_ns, a.own_end_ns]) AS at_ns
        FROM arrivals AS a JOIN delays AS d USING (collective_id)
        UNION ALL
        SELECT rank, group_id, NULL, unnest([start_local_ns, start_local_ns + duration_ns])
        FROM collectives
        WHERE collective_id IS NULL
    )
),
-- Totals are joined one at a time: of two at once DuckDB may take the pairs of a rank first, billions of them.
begun AS MATERIALIZED (
    SELECT a.*, s.compute_ns AS computed_ns
    FROM arrivals AS a JOIN totals AS s ON s.rank = a.rank AND s.at_ns = a.own_start_ns
),
-- from the end of the previous collective among the same ranks to the start of this one
legs AS MATERIALIZED (
    SELECT
        a.collective_id,
        a.rank,
        a.step,
        a.group_id,
        a.own_start_ns AS start_ns,
        a.is_last,
        d.pair,
        d.delay_ns,
        d.waiting_ranks,
        d.last_is_known AS is_late,
        lag(a.collective_id) OVER by_start AS previous_id,
        lag(a.own_end_ns) OVER by_start AS from_ns,
        lag(2 * (z.compute_ns - a.computed_ns) > a.duration_ns) OVER by_start AS is_overlapped
    FROM begun AS a
    JOIN delays AS d USING (collective_id)
    JOIN totals AS z ON z.rank = a.rank AND z.at_ns = a.own_end_ns
    WINDOW by_start AS (PARTITION BY a.rank, a.group_id, d.pair ORDER BY a.own_start_ns, a.collective_id)
),
-- Where the others computed on during the previous collective, or had this one queued behind it, it did not bring the
-- ranks together: who was behind before it still is, and what holds that rank up is older.
carried AS (
    SELECT collective_id, bool_and(is_overlapped OR start_ns - from_ns <= {{ param('queued_ns') }}) AS is_carried
    FROM legs
    WHERE NOT is_last
    GROUP BY collective_id
),
traced AS MATERIALIZED (
    SELECT
        l.* EXCLUDE (previous_id, from_ns),
        last_value(CASE WHEN c.is_carried IS NOT TRUE THEN l.collective_id END IGNORE NULLS) OVER so_far AS first_id,
        last_value(CASE WHEN c.is_carried IS NOT TRUE THEN coalesce(l.previous_id, -1) END IGNORE NULLS)
            OVER so_far AS previous_id,
        last_value(CASE WHEN c.is_carried IS NOT TRUE THEN coalesce(l.from_ns, l.start_ns) END IGNORE NULLS)
            OVER so_far AS from_ns
    FROM legs AS l LEFT JOIN carried AS c USING (collective_id)
    WINDOW so_far AS (
        PARTITION BY l.rank, l.group_id, l.pair ORDER BY l.start_ns, l.collective_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
),
-- Could it be chance? What ranks made others wait, by step; in a run of one by stretch since they were even: collectives of
-- either hang together.
trials AS (
    SELECT
        c.rank,
        CASE WHEN s.several THEN c.of_step ELSE t.first_id END AS trial,
        CAST(coalesce(sum(c.wait_ns), 0) AS BIGINT) AS wait_ns
    FROM charged AS c
    -- a rank that was not there yet when a stretch began takes part in that of the others
    JOIN (SELECT collective_id, coalesce(max(first_id), collective_id) AS first_id FROM traced GROUP BY collective_id) AS t USING (collective_id)
    CROSS JOIN (SELECT count(DISTINCT of_step) FILTER (WHERE last_is_known) > 1 AS several FROM charged) AS s
    WHERE c.last_is_known AND (c.of_step IS NOT NULL OR NOT s.several)
    GROUP BY ALL
),
chances AS (
    SELECT unnest(found.rank) AS rank, unnest(found.chance) AS chance
    FROM (SELECT sweep_chances(list(trial), list(rank), list(wait_ns)) AS found FROM trials HAVING count(*) > 0)
),
stretches AS MATERIALIZED (
    SELECT
        t.collective_id, t.previous_id, t.rank, t.step, t.group_id, t.is_last, t.delay_ns, t.waiting_ranks, t.from_ns, t.start_ns,
        till.passed > since.passed AS is_elsewhere
    FROM (FROM traced WHERE is_late AND previous_id >= 0 AND from_ns < start_ns) AS t
    JOIN elsewhere AS since
        ON since.rank = t.rank AND since.group_id = t.group_id AND since.pair IS NOT DISTINCT FROM t.pair AND since.at_ns = t.from_ns
    JOIN elsewhere AS till
        ON till.rank = t.rank AND till.group_id = t.group_id AND till.pair IS NOT DISTINCT FROM t.pair AND till.at_ns = t.start_ns
),
entered AS MATERIALIZED (
    SELECT s.*, a AS before
    FROM stretches AS s JOIN totals AS a ON a.rank = s.rank AND a.at_ns = s.from_ns
),
spent AS MATERIALIZED (
    SELECT
        s.* EXCLUDE (before),
        z.compute_ns - before.compute_ns AS compute_ns,
        (z.busy_ns - before.busy_ns) - (z.compute_ns - before.compute_ns) AS comm_ns,
        (z.any_ns - before.any_ns) - (z.busy_ns - before.busy_ns) AS copies_ns,
        z.launch_ns - before.launch_ns AS launch_ns,
        z.sync_ns - before.sync_ns AS sync_ns,
        z.loading_ns - before.loading_ns AS loading_ns,
        z.allocator_ns - before.allocator_ns AS allocator_ns,
        z.code_ns - before.code_ns AS code_ns,
        z.device_ns - before.device_ns AS device_ns,
        (s.start_ns - s.from_ns) - (z.any_ns - before.any_ns) AS idle_ns
    FROM entered AS s
    JOIN totals AS z ON z.rank = s.rank AND z.at_ns = s.start_ns
),
-- What runs on a GPU can hold a collective up only from its launch on, or where the thread that launches it waits for the
-- GPU before. Where that is less than half of the lateness the host is late, whatever the GPU did meanwhile; what held its
-- thread up for longer than the others' theirs says why. Without a recorded launch, or in a graph, nothing is known of that.
launched AS MATERIALIZED (
    SELECT
        s.collective_id,
        s.previous_id,
        s.rank,
        s.is_last,
        s.delay_ns,
        s.from_ns,
        greatest(g.launch_start_local_ns, s.from_ns) AS called_ns,
        greatest(s.start_ns - g.launch_start_local_ns - g.launch_duration_ns, 0) AS queued_ns,
        coalesce(g.launch_pid, -1) AS pid,
        coalesce(g.launch_tid, -1) AS tid,
        count(*) FILTER (WHERE NOT s.is_last) OVER (PARTITION BY s.collective_id, s.previous_id) AS others
    FROM stretches AS s
    JOIN (SELECT collective_id, rank, min(gpu_op_id) AS gpu_op_id FROM collectives GROUP BY ALL) AS c USING (collective_id, rank)
    JOIN gpu_ops AS g ON g.op_id = c.gpu_op_id
    WHERE g.launch_start_local_ns IS NOT NULL
),
held AS (
    SELECT
        unnest(l.collective_ids) AS collective_id,
        unnest(l.previous_ids) AS previous_id,
        unnest(l.weights) AS weight,
        h.sort,
        unnest(sweep_union_until(h.starts, h.ends, l.until).union_ns)
            - unnest(sweep_union_until(h.starts, h.ends, l.since).union_ns) AS held_ns
    FROM (
        SELECT
            rank, pid, tid,
            list(collective_id) AS collective_ids, list(previous_id) AS previous_ids,
            list(CASE WHEN is_last THEN 1 ELSE -1 / others END) AS weights,
            list(from_ns) AS since, list(called_ns) AS until
        FROM launched
        GROUP BY rank, pid, tid
    ) AS l
    JOIN (
        SELECT rank, pid, tid, sort, list(start_ns) AS starts, list(end_ns) AS ends
        FROM tw_holds
        WHERE sort <> 'compilation'
        GROUP BY rank, pid, tid, sort
    ) AS h USING (rank, pid, tid)
),
launched_late AS MATERIALIZED (
    SELECT
        l.collective_id,
        l.previous_id,
        greatest(sum(h.weight * h.held_ns) FILTER (h.sort = 'sync'), 0) AS sync_ns,
        greatest(sum(h.weight * h.held_ns) FILTER (h.sort = 'allocator'), 0) AS allocator_ns,
        greatest(sum(h.weight * h.held_ns) FILTER (h.sort = 'module_loading'), 0) AS code_ns,
        greatest(sum(h.weight * h.held_ns) FILTER (h.sort = 'data_loading'), 0) AS loading_ns
    FROM launched AS l LEFT JOIN held AS h USING (collective_id, previous_id)
    WHERE l.is_last AND l.others > 0
    GROUP BY l.collective_id, l.previous_id, l.queued_ns, l.delay_ns
    HAVING 2 * (l.queued_ns + sync_ns) < l.delay_ns
),
-- the late rank beside the others of the same instance whose stretch began at the same collective
others AS (
    SELECT
        collective_id,
        previous_id,
        avg(compute_ns) AS compute_ns,
        avg(comm_ns) AS comm_ns,
        avg(copies_ns) AS copies_ns,
        avg(launch_ns) AS launch_ns,
        avg(sync_ns) AS sync_ns,
        avg(loading_ns) AS loading_ns,
        avg(allocator_ns) AS allocator_ns,
        avg(code_ns) AS code_ns,
        avg(device_ns) AS device_ns,
        avg(idle_ns) AS idle_ns
    FROM spent
    WHERE NOT is_last
    GROUP BY collective_id, previous_id
),
compared AS MATERIALIZED (
    SELECT
        l.rank,
        CASE WHEN {{ param('per') }} = 'step' THEN l.step END AS step,
        l.waiting_ranks,
        l.delay_ns,
        l.compute_ns - o.compute_ns AS compute_ns,
        CASE WHEN l.is_elsewhere THEN l.comm_ns - o.comm_ns ELSE 0 END AS comm_ns,
        l.copies_ns - o.copies_ns AS copies_ns,
        l.launch_ns - o.launch_ns AS launch_ns,
        l.sync_ns - o.sync_ns AS sync_ns,
        l.loading_ns - o.loading_ns AS loading_ns,
        l.allocator_ns - o.allocator_ns AS allocator_ns,
        l.code_ns - o.code_ns AS code_ns,
        l.device_ns - o.device_ns AS device_ns,
        (l.idle_ns - l.launch_ns - l.sync_ns - l.loading_ns - l.allocator_ns - l.code_ns - l.device_ns)
            - (o.idle_ns - o.launch_ns - o.sync_ns - o.loading_ns - o.allocator_ns - o.code_ns - o.device_ns) AS other_ns
    FROM (FROM spent ANTI JOIN launched_late USING (collective_id, previous_id)) AS l
    JOIN others AS o USING (collective_id, previous_id)
    WHERE l.is_last
    UNION ALL
    SELECT
        s.rank,
        CASE WHEN {{ param('per') }} = 'step' THEN s.step END AS step,
        s.waiting_ranks,
        s.delay_ns,
        0, 0, 0,
        greatest(s.delay_ns - l.sync_ns - l.loading_ns - l.allocator_ns - l.code_ns - greatest(s.device_ns - o.device_ns, 0), 0),
        l.sync_ns,
        l.loading_ns,
        l.allocator_ns,
        l.code_ns,
        -- what was launched and did not start was no matter of the host
        greatest(s.device_ns - o.device_ns, 0),
        0
    FROM spent AS s
    JOIN launched_late AS l USING (collective_id, previous_id)
    JOIN others AS o USING (collective_id, previous_id)
    WHERE s.is_last
),
summed AS (
    SELECT
        rank,
        step,
        sum(delay_ns * waiting_ranks) AS late_ns,
        sum(waiting_ranks * compute_ns) AS "compute",
        sum(waiting_ranks * (launch_ns + sync_ns + allocator_ns + code_ns)) AS host_bound,
        sum(waiting_ranks * loading_ns) AS data_loading,
        sum(waiting_ranks * copies_ns) AS copies,
        sum(waiting_ranks * comm_ns) AS other_group,
        sum(waiting_ranks * device_ns) AS device_delay,
        sum(waiting_ranks * other_ns) AS unknown_idle,
        list_sort([
            {ns: sum(waiting_ranks * launch_ns), cause: 'launch_bound'},
            {ns: sum(waiting_ranks * sync_ns), cause: 'sync'},
            {ns: sum(waiting_ranks * allocator_ns), cause: 'allocator'},
            {ns: sum(waiting_ranks * code_ns), cause: 'module_loading'}
        ])[-1].cause AS gap_cause
    FROM compared
    GROUP BY rank, step
),
causes AS (
    SELECT
        rank,
        step,
        late_ns,
        gap_cause,
        cause,
        excess_ns,
        excess_ns / sum(excess_ns) OVER (PARTITION BY rank, step) AS cause_share
    FROM (
        UNPIVOT summed
        ON "compute", host_bound, data_loading, copies, other_group, device_delay, unknown_idle
        INTO NAME cause VALUE excess_ns
    )
    WHERE excess_ns > 0
    QUALIFY row_number() OVER (PARTITION BY rank, step ORDER BY excess_ns DESC, cause) = 1
),
-- which kernels took longer than on the ranks that waited, in the same steps
worked AS (
    SELECT rank, coalesce(step, -1) AS step, class, sum(duration_ns) AS duration_ns
    FROM gpu_ops
    WHERE category = 'compute' AND rank IN (SELECT rank FROM stretches)
    GROUP BY ALL
),
waiters AS (
    SELECT DISTINCT l.rank, o.rank AS waiter
    FROM stretches AS l JOIN stretches AS o USING (collective_id)
    WHERE l.is_last AND NOT o.is_last
),
class_excess AS (
    SELECT
        w.rank,
        w.step,
        w.class,
        w.duration_ns - avg(o.duration_ns) AS excess_ns
    FROM worked AS w
    JOIN waiters AS p ON p.rank = w.rank
    JOIN worked AS o ON o.rank = p.waiter AND o.step = w.step AND o.class = w.class
    GROUP BY w.rank, w.step, w.class, w.duration_ns
),
slow_classes AS (
    SELECT rank, CASE WHEN {{ param('per') }} = 'step' THEN nullif(step, -1) END AS at_step, class
    FROM class_excess
    GROUP BY rank, at_step, class
    HAVING sum(excess_ns) > 0
    QUALIFY row_number() OVER (PARTITION BY rank, at_step ORDER BY sum(excess_ns) DESC, class) = 1
),
-- where it was held up itself, in the same step or the one before
pulled AS (
    SELECT
        s.rank,
        CASE WHEN {{ param('per') }} = 'step' THEN s.step END AS at_step,
        a.group_id,
        a.last_rank
    FROM (
        SELECT *, unnest([coalesce(step, -1), coalesce(step, -1) - 1]) AS near_step
        FROM stretches
        WHERE is_last AND rank IN (SELECT rank FROM causes WHERE cause = 'other_group')
    ) AS s
    JOIN arrivals AS a
        ON a.rank = s.rank AND coalesce(a.step, -1) = s.near_step AND a.group_id <> s.group_id
        AND a.own_start_ns >= s.from_ns AND a.own_start_ns < s.start_ns
    WHERE NOT a.is_last
    GROUP BY s.rank, at_step, a.group_id, a.last_rank
    QUALIFY row_number() OVER (
        PARTITION BY s.rank, at_step ORDER BY sum(s.waiting_ranks * a.wait_ns) DESC, a.group_id, a.last_rank
    ) = 1
),
explained AS (
    SELECT
        r.*,
        times_last > 0 AND 2 * resolved_wait_ns <= caused_wait_ns AS below_resolution,
        c.cause,
        c.cause_share,
        c.gap_cause,
        c.excess_ns >= {{ param('min_excess_share') }} * c.late_ns AS is_enough
    FROM ranked AS r
    LEFT JOIN causes AS c ON c.rank = r.rank AND c.step IS NOT DISTINCT FROM r.step
)
SELECT
    e.rank,
    e.step,
    e.instances,
    e.times_last,
    e.caused_wait_ns,
    CASE WHEN NOT e.below_resolution AND e.is_enough THEN e.cause END AS cause,
    e.below_resolution,
    e.resolved_wait_ns,
    e.delay_max_ns,
    tw_ratio(e.times_last, e.instances) AS last_share,
    CASE
        WHEN e.times_last = 0 THEN 'it was never last'
        WHEN e.below_resolution THEN 'at least half of its lateness is below the clock resolution'
        WHEN e.cause IS NULL AND e.rank NOT IN (SELECT rank FROM compared)
            THEN 'no earlier collective of the same ranks to measure from'
        WHEN e.cause IS NULL OR NOT e.is_enough THEN 'it did nothing longer than the others'
    END AS note,
    CASE WHEN NOT e.below_resolution AND e.is_enough THEN
        CASE e.cause
            WHEN 'compute' THEN k.class
            WHEN 'host_bound' THEN e.gap_cause
            WHEN 'other_group' THEN 'group ' || p.group_id || ', waiting for rank ' || p.last_rank
        END
    END AS cause_detail,
    CASE WHEN NOT e.below_resolution AND e.is_enough THEN e.cause_share END AS cause_share,
    e.times_shortest,
    tw_ratio(e.times_shortest, e.instances) AS shortest_share,
    coalesce(w.worst_steps, 0) AS worst_steps,
    tw_ratio(coalesce(w.worst_steps, 0), (SELECT CAST(sum(worst_steps) AS BIGINT) FROM worst)) AS worst_share,
    r.host,
    tw_ratio(coalesce(h.wait_ns, 0), CASE WHEN r.host IS NOT NULL THEN (SELECT CAST(sum(wait_ns) AS BIGINT) FROM charged) END)
        AS host_share,
    s.stage,
    e.known_instances,
    e.known_last,
    e.waited_ns,
    e.waited_free_ns,
    e.inside_ns,
    coalesce(f.wait_ns, 0) AS origin_wait_ns,
    coalesce(held.wait_ns, 0) AS passed_on_ns,
    held.origin AS origin_rank,
    o.chance
FROM explained AS e
LEFT JOIN worst AS w ON w.rank = e.rank
LEFT JOIN ranks AS r ON r.rank = e.rank
LEFT JOIN hosts AS h ON h.host = r.host
LEFT JOIN stages AS s ON s.rank = e.rank
LEFT JOIN slow_classes AS k ON k.rank = e.rank AND k.at_step IS NOT DISTINCT FROM e.step
LEFT JOIN pulled AS p ON p.rank = e.rank AND p.at_step IS NOT DISTINCT FROM e.step
LEFT JOIN chances AS o ON o.rank = e.rank
LEFT JOIN originated AS f ON f.rank = e.rank AND f.step IS NOT DISTINCT FROM e.step
LEFT JOIN relayed AS held ON held.rank = e.rank AND held.step IS NOT DISTINCT FROM e.step
ORDER BY origin_wait_ns DESC, e.caused_wait_ns DESC, e.rank, e.step NULLS FIRST
