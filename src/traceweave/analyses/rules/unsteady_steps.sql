-- rule: unsteady_steps | unsteady steps
-- topic: ranks and waiting
-- finds: The mean step exceeds the median by `unsteady_share` (5 %) or more, with three steps at least; lengths are those of `steps`. The evidence names what grew most in the longest step, by `slow_steps`, and whether inputs of what did, as often as in other steps, have more elements there; where at least half of communication that grew is waiting for one rank, as far as the clocks tell, beyond what it is in the median step, also that rank; a range that at most a third of the steps have, if it takes half of what the step is longer; collectives that it calls more often than most steps; and whether it is one of few that update parameters and are longer for it, as where each micro-batch is marked as a step. Silent where the longest step only has work that earlier steps launched: a host that had run ahead waited for the GPU there; where it is a batch of an inference engine that has more to do than others: batches do; and where another finding says why: at least half of the cost is a stall, waiting for data, compilation without a GPU, waiting for a straggler, for a rank that stalls there, or for the one that imbalance names, or small collectives that most steps have not. Cost: mean less median, and less stalls in the longest step, of which other findings tell.
-- try: See what grew in the long steps: evaluation, checkpoints, garbage collection, recompilation, memory that is reallocated.
-- proof: slow_steps
-- shows: steps
-- param: unsteady_share DOUBLE = 0.05 | steps are unsteady if their mean exceeds their median by this share
WITH grown AS (
    SELECT s.step, s.grew, sum(s.grew_ns) / count(*) AS grew_ns, list(s.rank ORDER BY s.rank) AS ranks
    FROM {{ ref('slow_steps') }} AS s
    WHERE s.step = (SELECT longest FROM {{ ref('steadiness') }}) AND s.grew IS NOT NULL
    GROUP BY s.step, s.grew
    QUALIFY row_number() OVER (ORDER BY sum(s.grew_ns) DESC, s.grew) = 1
),
-- how much longer than those of a mean other step the kernels run that the ranks launched in it: where a host that had run
-- ahead waits for the GPU, its step is long and has work of the steps before, although all steps have the same
launched AS (
    SELECT sum(CASE WHEN o.step = g.step THEN o.duration_ns ELSE -o.duration_ns / (t.steps - 1) END) / any_value(len(g.ranks)) AS more_ns
    FROM grown AS g CROSS JOIN {{ ref('steadiness') }} AS t JOIN gpu_ops AS o ON list_contains(g.ranks, o.rank)
    WHERE g.grew = 'compute' AND o.category = 'compute' AND o.step IS NOT NULL
    HAVING count(*) > 0
),
-- the kernel, or without a GPU the operator without those inside it, that takes most longer there than in a mean other step
more AS (
    SELECT name, more_ns
    FROM (
        SELECT o.name, sum(CASE WHEN o.step = g.step THEN o.ns ELSE -o.ns / (t.steps - 1) END) / len(any_value(g.ranks)) AS more_ns
        FROM grown AS g CROSS JOIN {{ ref('steadiness') }} AS t JOIN {{ ref('own_times') }} AS o ON list_contains(g.ranks, o.rank)
        WHERE g.grew = 'compute' AND o.step IS NOT NULL
        GROUP BY o.name
    )
    WHERE more_ns > 0
    QUALIFY row_number() OVER (ORDER BY more_ns DESC, name) = 1
),
-- how many times the elements of a mean call in other steps its inputs have there, if it is called as often and they are more by a
-- tenth, as straggler has it: an evaluation calls it more often, with others
sizes AS (
    SELECT max(times) AS times
    FROM (
        SELECT avg(e.elements) FILTER (c.is_longest) / nullif(avg(e.elements) FILTER (NOT c.is_longest), 0) AS times
        FROM (
            SELECT h.arguments_hash, o.step = g.step AS is_longest, o.step
            FROM more AS m CROSS JOIN grown AS g
            JOIN device_ops AS o ON o.name = m.name AND list_contains(g.ranks, o.rank)
            LEFT JOIN host_ops AS l ON l.op_id = o.launch_op_id AND o.timeline <> 'cpu'
            JOIN host_ops AS h ON h.op_id = CASE WHEN o.timeline = 'cpu' THEN o.op_id ELSE l.parent_id END
            WHERE o.step IS NOT NULL
        ) AS c JOIN (
            SELECT arguments_hash, generate_subscripts(dims, 1) AS place, list_product(unnest(dims)) AS elements
            FROM (
                SELECT s.arguments_hash, TRY_CAST(h.args -> 'Input Dims' AS BIGINT[][]) AS dims
                FROM (SELECT arguments_hash, min(op_id) AS op_id FROM host_ops WHERE kind = 'op' GROUP BY arguments_hash) AS s JOIN host_ops AS h USING (op_id)
            )
        ) AS e USING (arguments_hash)
        GROUP BY e.place
        HAVING count(*) FILTER (c.is_longest) * count(DISTINCT c.step) FILTER (NOT c.is_longest) = count(*) FILTER (NOT c.is_longest)
    )
    HAVING max(times) >= 1.1
),
-- where micro-batches are marked as steps, those that update parameters are longer: not only the longest
updating AS (
    SELECT count(*) AS steps
    FROM {{ ref('steps') }} AS s CROSS JOIN {{ ref('steadiness') }} AS t
    WHERE s.step IN (SELECT step FROM tw_updates WHERE step IS NOT NULL)
    HAVING bool_or(s.step = t.longest) AND 2 * count(*) <= any_value(t.steps)
        AND 2 * (median(s.length_ns) FILTER (s.step <> t.longest) - any_value(t.p50_ns)) >= any_value(t.max_ns - t.p50_ns)
),
-- ranges of the host on those ranks
marked AS (
    SELECT h.rank, h.step, tw_unnumbered(h.name) AS name, h.start_ns, h.start_ns + h.duration_ns AS end_ns
    FROM host_ops AS h JOIN grown AS g ON list_contains(g.ranks, h.rank)
    WHERE h.kind IN ('annotation', 'nvtx') AND h.step IS NOT NULL AND NOT starts_with(h.name, 'ProfilerStep#') AND {{ names('collective_ranges', 'h.name') }} IS NULL
),
-- that which few steps have, with at least half of what the longest takes longer: of those inside each other the inner; inside one of
-- its own name, or beside it on another thread, its time counts once
doing AS (
    SELECT m.name, sum(tw_added_ns(m.start_ns, m.end_ns, m.covered_ns)) / any_value(len(m.ranks)) AS more_ns
    FROM (
        SELECT k.*, g.ranks, max(k.end_ns) OVER (PARTITION BY k.rank, k.name ORDER BY k.start_ns, k.end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_ns
        FROM marked AS k JOIN grown AS g USING (step)
    ) AS m
    CROSS JOIN {{ ref('steadiness') }} AS t
    WHERE m.name IN (SELECT name FROM marked CROSS JOIN {{ ref('steadiness') }} AS s GROUP BY name HAVING 3 * count(DISTINCT step) <= any_value(s.steps))
    GROUP BY m.name
    HAVING 2 * more_ns >= any_value(t.max_ns - t.p50_ns)
    QUALIFY row_number() OVER (ORDER BY more_ns, m.name) = 1
),
-- the collectives that those ranks call there more often than in most steps, if these are at least half of what grew
called AS (
    SELECT op, more
    FROM (
        SELECT
            op, max(calls) FILTER (is_longest) - tw_percentile(calls, 0.5) AS more,
            sum(CASE WHEN is_longest THEN exposed_ns ELSE -exposed_ns / (steps - 1) END) AS more_ns, any_value(grew_ns) AS grew_ns
        FROM (
            SELECT
                o.op, p.step = g.step AS is_longest, any_value(t.steps) AS steps, any_value(g.grew_ns) AS grew_ns,
                round(count(e.call_id) / len(any_value(g.ranks)))::BIGINT AS calls, coalesce(sum(e.exposed_ns), 0) / len(any_value(g.ranks)) AS exposed_ns
            FROM grown AS g CROSS JOIN {{ ref('steadiness') }} AS t
            CROSS JOIN (SELECT DISTINCT step FROM {{ ref('budget') }}) AS p CROSS JOIN (SELECT DISTINCT op FROM {{ ref('exposed_calls') }}) AS o
            LEFT JOIN {{ ref('exposed_calls') }} AS e ON e.op = o.op AND e.step = p.step AND list_contains(g.ranks, e.rank)
            WHERE g.grew = 'exposed_comm'
            GROUP BY o.op, p.step, g.step
        )
        GROUP BY op
    )
    WHERE more > 0 AND 2 * more_ns >= grew_ns
    QUALIFY row_number() OVER (ORDER BY more_ns DESC, op) = 1
),
waits AS (
    SELECT e.late_rank, e.step, CAST(sum(e.late_ns) / any_value(len(g.ranks)) AS BIGINT) AS late_ns
    FROM grown AS g JOIN {{ ref('exposed_calls') }} AS e ON list_contains(g.ranks, e.rank)
    WHERE g.grew = 'exposed_comm' AND e.late_rank IS NOT NULL AND e.step IS NOT NULL AND NOT e.is_staged AND NOT e.is_start
    GROUP BY e.late_rank, e.step
),
-- how much longer than in the median step, as others may be as long, those ranks waited there for one
late AS (
    SELECT late_rank AS rank, least(more_ns, grew_ns) AS late_ns
    FROM (
        SELECT l.late_rank, any_value(g.grew_ns) AS grew_ns,
            coalesce(sum(w.late_ns) FILTER (p.step = g.step), 0) - tw_percentile(coalesce(w.late_ns, 0), 0.5) AS more_ns
        FROM grown AS g CROSS JOIN (SELECT DISTINCT step FROM {{ ref('budget') }}) AS p CROSS JOIN (SELECT DISTINCT late_rank FROM waits) AS l
        LEFT JOIN waits AS w ON w.late_rank = l.late_rank AND w.step = p.step
        GROUP BY l.late_rank
    )
    WHERE 2 * more_ns >= grew_ns
    QUALIFY row_number() OVER (ORDER BY late_ns DESC, late_rank) = 1
)
SELECT
    CASE
        WHEN len(t.long_steps) = 1 THEN format('Step {} takes {}, the median step {}', t.longest, tw_time(t.max_ns), tw_time(t.p50_ns))
        ELSE format('{} of {} steps take up to {} (median {})', len(t.long_steps), t.steps, tw_time(t.max_ns), tw_time(t.p50_ns))
    END AS title,
    t.mean_ns - t.p50_ns - coalesce(v.stall_ns, 0) AS cost_ns,
    'steps step=' || t.longest AS shows,
    format('Steps take {} at the median, {} on average. {}The longest, step {}, takes {}{}', tw_time(t.p50_ns), tw_time(t.mean_ns),
        CASE WHEN len(t.long_steps) > 1 THEN format('Long are {}. ', tw_steps(t.long_steps)) ELSE '' END, t.longest, tw_time(t.max_ns),
        CASE WHEN len(g.ranks) < m.ranks THEN ', mean over the ranks' ELSE '' END)
    || coalesce(format('. {} grew there by {}', CASE g.grew
        WHEN 'compute' THEN 'Compute'
        WHEN 'exposed_comm' THEN 'Communication that no compute hides'
        WHEN 'exposed_memory' THEN 'Time in which only copies run'
        ELSE 'Idle time' || CASE WHEN m.has_gpu OR c.cause = 'data_loading' THEN ' (' || coalesce(c.words, 'no cause') || ')' ELSE '' END
    END, tw_time(g.grew_ns)), '')
    || CASE WHEN len(g.ranks) < m.ranks THEN ' on ' || tw_ranks(g.ranks) ELSE '' END
    || coalesce(format(', most in {} ({})', tw_shortened(o.name), tw_time(o.more_ns)) || coalesce(format(', whose inputs have {} times the elements there', tw_digits(z.times)), ''), '')
    || coalesce(format(', {} of it waiting for rank {}', CASE WHEN l.late_ns < g.grew_ns THEN tw_time(l.late_ns) ELSE 'all' END, l.rank), '')
    || coalesce(format('. ''{}'', which few steps have, takes {} there', tw_shortened(r.name), tw_time(r.more_ns)), '')
    || coalesce(format('. It has {} more than most steps', tw_many(q.more, q.op)), '')
    || coalesce(format('. It updates the parameters, as {} of {} steps do', u.steps, t.steps), '')
    || coalesce(format('. Other findings are about stalls in it, {} per step', tw_time(v.stall_ns)), '') AS evidence,
    CASE
        WHEN u.steps IS NOT NULL THEN 'Mark updates as steps, not micro-batches (prof.step() once per update): a step with an update takes longer'
        WHEN z.times IS NOT NULL THEN 'Make batches of one size: sort, pack or cut samples by their length; else smaller batches of long ones'
        WHEN r.name IS NOT NULL THEN format('Do what ''{}'' does less often, or make it faster: the mean step pays for it', tw_shortened(r.name))
        WHEN g.grew = 'compute' THEN 'Look for evaluation, longer inputs, ' || CASE WHEN m.has_gpu THEN 'clock rates' ELSE 'other load on the cores' END
            || format('. See {} -p step={}', CASE WHEN m.has_gpu THEN 'kernels' ELSE 'host_ops' END, t.longest)
        WHEN l.rank IS NOT NULL THEN tw_see_what(l.rank, [t.longest], w.since_step)
        WHEN q.op IS NOT NULL THEN format('Call {} less often: see exposed_comm for that step', q.op)
        WHEN g.grew = 'exposed_comm' THEN 'See exposed_comm for that step: ranks waited for one that came late (stragglers -p per=step), or transfers took longer (tails)'
        ELSE 'See what happened in the long steps: compilation, checkpoints, evaluation, garbage collection; warm up before measuring'
    END AS advice
FROM {{ ref('steadiness') }} AS t
LEFT JOIN grown AS g ON TRUE
LEFT JOIN late AS l ON TRUE
LEFT JOIN updating AS u ON TRUE
LEFT JOIN doing AS r ON TRUE
LEFT JOIN called AS q ON TRUE
LEFT JOIN {{ ref('late_steps') }} AS w ON w.rank = l.rank AND w.step = t.longest
LEFT JOIN launched AS a ON TRUE
LEFT JOIN more AS o ON TRUE
LEFT JOIN sizes AS z ON TRUE
LEFT JOIN tw_gap_causes() AS c ON g.grew = 'idle: ' || c.cause
LEFT JOIN (SELECT step, avg(compile_ns) AS compile_ns FROM {{ ref('compiling') }} GROUP BY step) AS k ON k.step = t.longest
CROSS JOIN {{ ref('mean_step') }} AS m
LEFT JOIN {{ ref('exposure') }} AS e ON TRUE
CROSS JOIN (SELECT sum(i.stall_ns) AS stall_ns FROM {{ ref('idling') }} AS i JOIN {{ ref('steadiness') }} AS t ON list_contains(i.stalled_steps, t.longest)) AS v
WHERE t.steps >= 3 AND t.mean_ns - t.p50_ns - coalesce(v.stall_ns, 0) >= {{ param('unsteady_share') }} * t.p50_ns AND coalesce(2 * a.more_ns >= g.grew_ns, TRUE)
    -- no two batches of an inference engine have the same to do: of them only idle time tells
    AND NOT (coalesce(NOT starts_with(g.grew, 'idle'), FALSE) AND EXISTS (FROM steps WHERE source = 'engine'))
    -- a first step that is long because ranks began to record at different moments says nothing of steps
    AND NOT coalesce(t.longest = (SELECT min(step) FROM {{ ref('budget') }}) AND 3 * e.start_ns * m.windows / m.ranks >= t.max_ns - t.p50_ns, FALSE)
    -- a finding that says why says more than one that says which step is longest; data_bound tells all of the time without data
    AND NOT EXISTS (
        FROM {{ ref('idling') }} AS i
        WHERE i.cause = 'data_loading' AND g.grew = 'idle: ' || i.cause AND i.stalled_steps IS NULL AND 2 * i.cost_ns >= t.mean_ns - t.p50_ns
    )
    AND NOT EXISTS (
        FROM {{ ref('idling') }} AS i
        WHERE list_contains(i.stalled_steps, t.longest) AND (
            g.grew = 'idle: ' || i.cause AND 2 * i.stall_ns >= t.mean_ns - t.p50_ns
            OR list_contains(i.stalled_ranks, l.rank) AND 2 * i.stalled_for_ns >= l.late_ns
        )
    )
    AND NOT EXISTS (FROM {{ rule('small_collectives') }} AS s WHERE starts_with(s.shows, format('transfers op={} ', q.op)) AND contains(format(',{},', split_part(s.shows, ' step=', 2)), format(',{},', t.longest)))
    AND NOT coalesce(NOT m.has_gpu AND g.grew = 'compute' AND 2 * k.compile_ns > g.grew_ns, FALSE)
    AND NOT EXISTS (FROM {{ ref('blame') }} AS b WHERE b.rank = l.rank AND b.is_straggler AND 2 * b.cost_ns >= t.mean_ns - t.p50_ns)
    AND NOT EXISTS (FROM {{ ref('late_in_few') }} AS f WHERE f.rank = l.rank AND list_contains(f.around, t.longest))
