-- Drawing: what ran on the timeline's ranks in its steps (`shown_ranks`, `shown_steps`: the queries above), times from the
-- beginning of the stretch shown. Per rank and step the 2000 longest operations stand alone; the shorter ones
-- between them are one block as far as they follow each other on one stream within 1/2000 of the stretch. Of a rank's
-- streams the eight busiest are kept. own: launched in this step. wait_ns: how much of an operation is waiting, and
-- is_whole: whether the rest is transfer. last_rank: where the clocks can tell it from the last but one.
WITH ops AS MATERIALIZED (
    SELECT
        s.role,
        o.rank,
        coalesce(o.device, -1) AS device,
        coalesce(o.stream, -1) AS stream,
        o.timeline,
        o.op_id,
        o.category,
        o.name,
        o.start_ns,
        o.end_ns,
        s.step IS NULL OR (o.step IS NOT NULL AND o.step = s.step) AS own,
        s.from_ns,
        (s.until_ns - s.from_ns) // 2000 AS apart_ns,
        row_number() OVER (PARTITION BY s.role, o.rank ORDER BY o.end_ns - o.start_ns DESC, o.op_id) > 2000 AS small
    FROM device_ops AS o
    JOIN shown_ranks AS r ON r.rank = o.rank
    JOIN shown_steps AS s ON o.start_ns < s.until_ns AND o.end_ns > s.from_ns
),
lanes AS (
    SELECT rank, device, stream
    FROM ops
    GROUP BY rank, device, stream
    QUALIFY row_number() OVER (PARTITION BY rank ORDER BY sum(end_ns - start_ns) DESC, device, stream) <= 8
),
calls AS (
    SELECT
        CASE WHEN k.gpu_op_id IS NULL THEN 'cpu' ELSE 'gpu' END AS timeline,
        k.op_id,
        min(k.op) AS op,
        CAST(sum(k.bytes) AS BIGINT) AS bytes,
        max(k.start_ns + CASE WHEN k.is_send_half THEN least(s.wait_ns, 0) ELSE s.wait_ns END) AS awaited_ns,
        bool_and(s.is_whole) AS is_whole,
        CASE WHEN arg_max(coalesce(i.last_is_known, FALSE), (i.awaited_ns, -i.last_rank))
             THEN arg_max(i.last_rank, (i.awaited_ns, -i.last_rank)) END AS last_rank,
        bool_and(i.below_resolution) AS below_resolution
    FROM (
        SELECT *, coalesce(receive_op_id, gpu_op_id, host_op_id) AS op_id, FALSE AS is_send_half FROM collectives
        UNION ALL
        -- it waits for nobody
        SELECT *, gpu_op_id, TRUE FROM collectives WHERE receive_op_id IS NOT NULL
    ) AS k
    JOIN shown_ranks AS r ON r.rank = k.rank
    LEFT JOIN split_calls AS s ON s.call_id = k.call_id
    LEFT JOIN collective_instances AS i ON i.collective_id = k.collective_id AND s.call_id IS NOT NULL
    GROUP BY ALL
),
marked AS (
    SELECT
        ops.*,
        NOT (
            small AND lag(small, 1, FALSE) OVER line AND category = lag(category) OVER line
            AND own = lag(own) OVER line
            AND start_ns - max(end_ns) OVER (line ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) <= apart_ns
        ) AS begins
    FROM ops JOIN lanes USING (rank, device, stream)
    WINDOW line AS (PARTITION BY role, rank, device, stream ORDER BY start_ns, end_ns DESC, op_id)
),
blocks AS (
    SELECT
        role,
        rank,
        device,
        stream,
        sum(CAST(begins AS INTEGER)) OVER (
            PARTITION BY role, rank, device, stream ORDER BY start_ns, end_ns DESC, op_id
        ) AS block,
        timeline,
        op_id,
        category,
        own,
        name,
        start_ns,
        end_ns,
        from_ns
    FROM marked
),
merged AS (
    SELECT
        role,
        rank,
        device,
        stream,
        block,
        any_value(timeline) AS timeline,
        any_value(category) AS category,
        any_value(own) AS own,
        count(*) AS ops,
        min(op_id) AS op_id,
        arg_max(name, (end_ns - start_ns, -op_id)) AS name,
        min(start_ns) AS began_ns,
        min(start_ns) - any_value(from_ns) AS start_ns,
        max(end_ns) - min(start_ns) AS duration_ns
    FROM blocks
    GROUP BY role, rank, device, stream, block
)
SELECT
    m.role,
    m.rank,
    m.device,
    m.stream,
    m.timeline,
    m.start_ns,
    m.duration_ns,
    m.category,
    m.own,
    m.ops,
    m.name,
    CASE WHEN m.ops = 1 THEN c.op END AS op,
    CASE WHEN m.ops = 1 THEN c.bytes END AS bytes,
    CASE WHEN m.ops = 1 AND c.awaited_ns IS NOT NULL
         THEN least(greatest(c.awaited_ns - m.began_ns, 0), m.duration_ns) END AS wait_ns,
    CASE WHEN m.ops = 1 THEN c.is_whole END AS is_whole,
    CASE WHEN m.ops = 1 THEN c.last_rank END AS last_rank,
    CASE WHEN m.ops = 1 THEN c.below_resolution END AS below_resolution
FROM merged AS m LEFT JOIN calls AS c ON c.timeline = m.timeline AND c.op_id = m.op_id AND m.category = 'communication'
ORDER BY m.role DESC, m.rank, m.device, m.stream, m.block
