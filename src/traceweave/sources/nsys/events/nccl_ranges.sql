-- The calls of NCCL that its ranges tell of, and its communicators.

-- NCCL's element types (ncclDataType_t, by number or by name), called as torch calls them.
CREATE OR REPLACE TEMP MACRO nccl_dtype_of(type) AS list_extract(
    ['Char', 'Byte', 'Int', 'UInt32', 'Long', 'UInt64', 'Half', 'Float', 'Double', 'BFloat16', 'Float8_e4m3fn', 'Float8_e5m2'],
    coalesce(
        list_position(CAST(range(12) AS VARCHAR[]), type),
        list_position(
            ['int8', 'uint8', 'int32', 'uint32', 'int64', 'uint64', 'float16', 'float32', 'float64', 'bfloat16', 'float8e4m3', 'float8e5m2'], type
        ),
        6 + list_position(['half', 'float', 'double'], type)
    )
);
CREATE OR REPLACE TEMP MACRO nccl_dtype(text) AS nccl_dtype_of(lower(regexp_replace(text, '^nccl', '')));

-- NCCL's own ranges. The tracer of NCCL 2.28 and later writes names without the prefix.
CREATE OR REPLACE TEMP TABLE nsys_nccl_ranges AS
SELECT h.rank, h.op_id, n.thread, n.start, n.until AS "end", lower(regexp_replace(h.name, '^nccl', '')) AS call
FROM new_host_ops AS h
JOIN nsys_comm_ranges AS n ON h.op_id = n.op_id
JOIN host_names AS m USING (kind, name)
WHERE n.in_domain OR m.part = 'library';

CREATE OR REPLACE TEMP TABLE nsys_nccl_levels AS
WITH
steps AS (
    SELECT
        *,
        sum(CASE call WHEN 'groupstart' THEN 1 WHEN 'groupend' THEN -1 ELSE 0 END) OVER thread_so_far AS level
    FROM nsys_nccl_ranges
    WINDOW thread_so_far AS (PARTITION BY thread ORDER BY start, op_id ROWS UNBOUNDED PRECEDING)
),
floored AS (
    -- a recording that begins inside a group sees its end only
    SELECT *, level - least(0, min(level) OVER (PARTITION BY thread ORDER BY start, op_id ROWS UNBOUNDED PRECEDING))
        AS depth
    FROM steps
)
SELECT
    * EXCLUDE (level),
    call = 'groupend' AND depth = 0 AS closes,
    coalesce(sum((call = 'groupend' AND depth = 0)::INTEGER) OVER (
        PARTITION BY thread ORDER BY start, op_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), 0) AS group_number
FROM floored;

-- Calls with the range that launches them: their own, or the end of their group.
CREATE OR REPLACE TEMP TABLE nsys_nccl_calls AS
WITH
calls AS (
    SELECT
        *,
        collective_op(call) AS op
    FROM nsys_nccl_levels
    WHERE regexp_matches(
        call, '^(allreduce|allgather|reducescatter|broadcast|bcast|reduce|alltoall|alltoallv|gather|scatter|send|recv)$'
    )
),
fields AS (
    SELECT
        op_id,
        any_value(value) FILTER (entry IN ('NCCL communicator ID', 'commHash') AND value <> '0') AS comm,
        any_value(try_cast(value AS BIGINT)) FILTER (entry IN ('Message size [bytes]', 'Bytes')) AS bytes,
        -- what the tracer of nsys 2025.6.1 and NCCL 2.28 (--trace=nccl) writes instead
        any_value(try_cast(value AS BIGINT)) FILTER (entry = 'count') AS count,
        any_value(nccl_dtype(value)) FILTER (entry = 'dataType') AS dtype,
        any_value(try_cast(value AS INTEGER)) FILTER (entry = 'commRank') AS comm_rank,
        any_value(try_cast(value AS INTEGER)) FILTER (entry IN ('Peer rank', 'Peer', 'peer')) AS peer
    FROM nsys_payloads
    GROUP BY op_id
),
payloads AS (SELECT * REPLACE (coalesce(bytes, count * dtype_bytes(dtype)) AS bytes) FROM fields)
SELECT
    c.op_id, c.thread, c.start, c.op, coalesce(e.op_id, c.op_id) AS launcher, p.comm, p.bytes, p.dtype, p.comm_rank, p.peer
FROM calls AS c
LEFT JOIN nsys_nccl_levels AS e
    ON c.depth > 0 AND e.closes AND c.thread = e.thread AND c.group_number = e.group_number
LEFT JOIN payloads AS p ON c.op_id = p.op_id;

-- Sizes of communicators, and which of their ranks this file's processes are, from the calls that create or end them.
CREATE OR REPLACE TEMP TABLE nsys_communicators AS
SELECT
    any_value(value) FILTER (entry = 'NCCL communicator ID') AS comm,
    any_value(try_cast(value AS INTEGER)) FILTER (entry = 'No. of ranks') AS size,
    any_value(try_cast(value AS INTEGER)) FILTER (entry = 'Rank') AS comm_rank,
    any_value(r.rank) AS rank
FROM nsys_payloads AS y
JOIN nsys_nccl_ranges AS r ON y.op_id = r.op_id
-- the fields of a split describe the parent
WHERE r.call IN ('comminitrank', 'comminitrankconfig', 'comminitrankscalable', 'commdestroy', 'commabort')
GROUP BY y.op_id
HAVING comm IS NOT NULL AND comm <> '0';
