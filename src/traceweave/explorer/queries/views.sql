-- What is drawn of a stretch of time.

-- query: within
-- What runs between two times on some ranks; times count from the beginning of the run. DuckDB skips what lies elsewhere by the
-- least and largest start of each block of rows, so starts are bounded on the local clocks too (`low`, `high`): by an
-- operation that may have begun `short` before. Longer ones are few, and found by their length.
CREATE MACRO memory.explorer.within(from_ns, until_ns, low, high, short, chosen) AS TABLE
WITH found AS (
    FROM memory.explorer.placed
    WHERE list_contains(chosen, rank) AND start_local_ns >= low - short AND start_local_ns < high AND duration_ns <= short
    UNION ALL
    FROM memory.explorer.placed
    WHERE list_contains(chosen, rank) AND duration_ns > short AND start_local_ns < high AND start_local_ns + duration_ns >= low
)
FROM found
WHERE start_ns < until_ns AND (start_ns + duration_ns > from_ns OR start_ns >= from_ns);

-- query: hits
-- What runs in a stretch of time on some ranks, no shorter than least_ns: read once, for blocks and single operations. Names are
-- long: only operations of named_ns and more have theirs.
CREATE OR REPLACE TEMP TABLE hits AS
SELECT
    lane,
    code AS category,
    start_ns,
    duration_ns,
    CASE WHEN duration_ns >= $named_ns THEN op_id END AS op_id,
    CASE WHEN duration_ns >= $named_ns THEN step END AS step,
    CASE WHEN duration_ns >= $named_ns THEN class END AS class,
    CASE WHEN duration_ns >= $named_ns THEN name END AS name
FROM memory.explorer.within($from_ns, $until_ns, $low, $high, $short, $ranks)
WHERE duration_ns >= $least_ns

-- query: hits_alone
-- Operations of temp.hits that are long enough to be seen, the longest first if they are too many. wait_ns: how long a collective
-- waits for its last rank.
WITH shown AS (
    SELECT * FROM hits WHERE duration_ns >= $least_ns ORDER BY duration_ns DESC, op_id LIMIT $most
)
SELECT s.lane, s.category, s.op_id, s.start_ns, s.duration_ns, s.class, s.name, coalesce(s.step, -1) AS step, coalesce(w.wait_ns, 0) AS wait_ns
FROM shown AS s LEFT JOIN memory.explorer.waits AS w USING (op_id)
ORDER BY s.lane, s.start_ns, s.duration_ns DESC, s.op_id

-- query: count_hits
SELECT count(*) AS ops FROM hits

-- query: blocks
-- How busy each lane is with each category of work in stretches of 2^shift ns, of the operations in the relation `hits`, exactly:
-- what lies over several stretches counts in each as long as it lasts there, and as an operation where it begins. Of operations
-- that overlap on a lane each counts. Of those no longer than a stretch the next one has all the rest, so one pass sums both parts.
CREATE MACRO memory.explorer.blocks(hits, from_ns, until_ns, shift) AS TABLE
WITH begun AS (
    SELECT
        lane,
        category,
        block,
        sum(least(duration_ns, room_ns)) AS busy_ns,
        sum(duration_ns - room_ns) FILTER (duration_ns > room_ns AND duration_ns <= CAST(1 AS BIGINT) << shift) AS rest_ns,
        count(*) AS ops
    FROM (
        SELECT lane, category, duration_ns, start_ns >> shift AS block, (((start_ns >> shift) + 1) << shift) - start_ns AS room_ns
        FROM query_table(hits)
    )
    GROUP BY lane, category, block
),
parts AS (
    SELECT lane, category, block, busy_ns, ops FROM begun
    UNION ALL
    SELECT lane, category, block + 1, rest_ns, 0 FROM begun WHERE rest_ns > 0
    UNION ALL
    SELECT lane, category, block, least(start_ns + duration_ns, (block + 1) << shift) - (block << shift), 0
    FROM (
        SELECT
            *,
            unnest(range(
                greatest(start_ns >> shift, (from_ns >> shift) - 1) + 1,
                least((start_ns + duration_ns - 1) >> shift, (until_ns - 1) >> shift) + 1
            )) AS block
        FROM query_table(hits)
        WHERE duration_ns > CAST(1 AS BIGINT) << shift
    )
)
SELECT lane, category, block, CAST(sum(busy_ns) AS BIGINT) AS busy_ns, CAST(sum(ops) AS BIGINT) AS ops
FROM parts
WHERE block BETWEEN from_ns >> shift AND (until_ns - 1) >> shift
GROUP BY lane, category, block;

-- query: fine_blocks
-- Blocks of a view from the operations themselves, which are in temp.hits.
FROM memory.explorer.blocks('hits', $from_ns, $until_ns, $shift)

-- query: coarse_blocks
-- Blocks of a view from the level that is at least as fine.
SELECT
    lane,
    category,
    block >> $by AS block,
    CAST(sum(busy_ns) AS BIGINT) AS busy_ns,
    CAST(sum(ops) AS BIGINT) AS ops
FROM memory.explorer.levels
WHERE shift = $shift
    AND block >= ($from_ns >> ($shift + $by)) << $by
    AND block <= ((($until_ns - 1) >> ($shift + $by)) + 1) << $by
    AND lane IN (SELECT lane FROM memory.explorer.lanes WHERE list_contains($ranks, rank))
GROUP BY lane, category, block >> $by

-- query: whole
-- All ranks together over the whole run, as far as their levels are made.
SELECT category, block >> $by AS block, CAST(sum(busy_ns) AS BIGINT) AS busy_ns
FROM memory.explorer.levels
WHERE shift = $shift
GROUP BY category, block >> $by

-- query: host_within
-- What the threads of one rank run between two times; bounds as in within.
CREATE MACRO memory.explorer.host_within(from_ns, until_ns, low, high, short, chosen) AS TABLE
WITH found AS (
    FROM run.base.host_ops
    WHERE rank = chosen AND start_local_ns >= low - short AND start_local_ns < high AND duration_ns <= short
    UNION ALL
    FROM run.base.host_ops
    WHERE rank = chosen AND duration_ns > short AND start_local_ns < high AND start_local_ns + duration_ns >= low
),
placed AS (
    SELECT
        t.thread,
        coalesce(o.depth, 0) AS depth,
        o.op_id,
        o.kind,
        o.name,
        o.duration_ns,
        run.base.align_by(o.start_local_ns, o.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns, c.pieces)
            - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns
    FROM found AS o
    JOIN memory.explorer.clocks AS c ON c.rank = o.rank
    JOIN memory.explorer.threads AS t ON t.rank = o.rank AND t.pid IS NOT DISTINCT FROM o.pid AND t.tid IS NOT DISTINCT FROM o.tid
)
FROM placed
WHERE start_ns < until_ns AND (start_ns + duration_ns > from_ns OR start_ns >= from_ns);

-- query: host_blocks
-- What is too short to be seen of the threads of a rank, in stretches of 2^shift ns: by where it begins.
SELECT
    thread,
    depth,
    CAST(list_position(['op', 'annotation', 'python', 'runtime', 'driver', 'nvtx', 'os', 'mpi'], kind) - 1 AS UTINYINT) AS kind,
    start_ns >> $shift AS block,
    CAST(sum(duration_ns) AS BIGINT) AS busy_ns,
    count(*) AS ops
FROM memory.explorer.host_within($from_ns, $until_ns, $low, $high, $short, $rank)
WHERE duration_ns < $least_ns
GROUP BY ALL

-- query: host_singles
-- Operations of a rank's threads that are long enough to be seen, the longest first.
WITH shown AS (
    SELECT * FROM memory.explorer.host_within($from_ns, $until_ns, $low, $high, $short, $rank)
    WHERE duration_ns >= $least_ns
    ORDER BY duration_ns DESC, op_id
    LIMIT $most
)
SELECT
    thread,
    depth,
    CAST(list_position(['op', 'annotation', 'python', 'runtime', 'driver', 'nvtx', 'os', 'mpi'], kind) - 1 AS UTINYINT) AS kind,
    op_id,
    start_ns,
    duration_ns,
    name
FROM shown
ORDER BY thread, depth, start_ns
