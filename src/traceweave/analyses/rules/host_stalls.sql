-- rule: host_stalls | host threads that stop now and then
-- topic: idling and copies
-- finds: Operators on threads that launch take `host_stall_ns` (2 ms) or more of their own, without the calls in them, and `host_stall_factor` (100) times the median of their name, though they neither wait for the device nor allocate, load code, compile or get data. The thread itself was stopped: it was off its core, or Python held it up. Only where that hits at least five different operators and none of them for half of the time: what always stops at the same place waits for something. Cost: the time above the median, mean over ranks and steps; never more than the run gains, by replay, if the hosts take no time.
-- try: A core of its own for every thread, less other load, no garbage collection within steps.
-- proof: host_ops
-- param: host_stall_ns BIGINT = 2000000 | a host thread has stopped if an operator takes at least this long of its own
-- param: host_stall_factor DOUBLE = 100.0 | and at least this many times the median of its name
WITH launching AS (
    SELECT DISTINCT rank, launch_pid AS pid, launch_tid AS tid FROM gpu_ops WHERE launch_tid IS NOT NULL
),
long AS MATERIALIZED (
    SELECT h.op_id, h.rank, h.pid, h.tid, h.name, h.start_local_ns, h.duration_ns
    FROM host_ops AS h
    SEMI JOIN launching AS l ON l.rank = h.rank AND l.pid IS NOT DISTINCT FROM h.pid AND l.tid IS NOT DISTINCT FROM h.tid
    WHERE h.kind = 'op' AND h.duration_ns >= {{ param('host_stall_ns') }} AND tw_counts(h.rank, h.step)
),
inside AS (
    SELECT l.op_id, sum(h.duration_ns) AS inside_ns FROM long AS l JOIN host_ops AS h ON h.parent_id = l.op_id GROUP BY l.op_id
),
own AS MATERIALIZED (
    SELECT l.*, l.duration_ns - coalesce(i.inside_ns, 0) AS own_ns
    FROM long AS l LEFT JOIN inside AS i USING (op_id)
    WHERE l.duration_ns - coalesce(i.inside_ns, 0) >= {{ param('host_stall_ns') }}
),
usual AS (
    SELECT name, median(duration_ns) AS usual_ns
    FROM (SELECT DISTINCT name FROM own) JOIN host_ops USING (name)
    WHERE kind = 'op'
    GROUP BY name
    HAVING count(*) >= 10
),
stalls AS (
    SELECT l.*, u.usual_ns
    FROM own AS l JOIN usual AS u USING (name)
    WHERE l.own_ns >= {{ param('host_stall_factor') }} * u.usual_ns
        AND NOT EXISTS (
            FROM tw_holds AS h
            WHERE h.rank = l.rank AND h.pid = coalesce(l.pid, -1) AND h.tid = coalesce(l.tid, -1)
                AND h.start_ns < l.start_local_ns + l.duration_ns AND h.end_ns > l.start_local_ns
        )
),
names AS (
    SELECT name, count(*) AS stalls, sum(own_ns - usual_ns) AS lost_ns, max(own_ns) AS longest_ns, list(DISTINCT rank) AS ranks
    FROM stalls
    GROUP BY name
),
found AS (
    SELECT
        sum(lost_ns) AS lost_ns,
        CAST(sum(stalls) AS BIGINT) AS stalls,
        count(*) AS names,
        max(longest_ns) AS longest_ns,
        arg_max(name, (longest_ns, name)) AS longest,
        list_sort(list_distinct(flatten(list(ranks)))) AS ranks
    FROM names
    HAVING count(*) >= 5 AND 2 * max(lost_ns) < sum(lost_ns)
)
SELECT
    tw_subject(f.ranks, 'has host threads', 'have host threads') || ' that stop now and then' AS title,
    CASE WHEN len(f.ranks) < s.ranks THEN f.ranks END AS ranks,
    f.lost_ns / s.windows AS cost_ns,
    'kind=launch times=0' AS ceiling,
    format('{} one of {} operators took over {}, at least {} times its median. Their threads stood still {} per {}, {} at worst in {}',
        tw_many(f.stalls, 'time'), f.names, tw_time({{ param('host_stall_ns') }}), tw_digits({{ param('host_stall_factor') }}),
        tw_time(f.lost_ns / s.windows), s.unit, tw_time(f.longest_ns), tw_shortened(f.longest)) AS evidence,
    'Bind ranks to cores of their own and look for other load on them (loader workers, more threads than cores). '
    || 'Avoid garbage collection within steps (gc.freeze) and Python threads that hold the GIL' AS advice
FROM found AS f CROSS JOIN {{ ref('mean_step') }} AS s
