-- what one rank knows of one of its collective or point-to-point operations
CREATE TABLE base.collective_calls (
    call_id BIGINT NOT NULL,
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    gpu_op_id BIGINT,
    -- of an operation that is two kernels, with its data under way in between: the second
    receive_op_id BIGINT,
    host_op_id BIGINT,
    op VARCHAR NOT NULL,
    -- of an all_to_all that is one of two kinds, 'dispatch' or 'combine': to match calls, all that counts is what they exchange
    kind VARCHAR,
    group_name VARCHAR,
    group_desc VARCHAR,
    group_ranks INTEGER[],
    group_size INTEGER,
    comm_id VARCHAR,
    -- numbers inside the communicator, where nothing else is known: of this rank, and of a send's or recv's peer
    comm_rank INTEGER,
    comm_peer INTEGER,
    seq BIGINT,
    dtype VARCHAR,
    bytes BIGINT,
    peer INTEGER,
    -- of a broadcast, reduce, gather or scatter: its root's place in the group, from 0
    root_place INTEGER,
    stream BIGINT,
    start_local_ns BIGINT NOT NULL,
    duration_ns BIGINT NOT NULL,
    step BIGINT,
    evidence VARCHAR NOT NULL
);

-- what other files or ranks tell of a call that its own trace does not say: one row per call and evidence, NULL where that tells
-- nothing. What a trace says of a call stays as it is. A group is told as a whole: its size with it, and of the rest what is known.
CREATE TABLE base.inferences (
    call_id BIGINT NOT NULL,
    -- 'flight recorder', 'communicator', 'stream', 'worker thread' or 'order of messages'
    evidence VARCHAR NOT NULL,
    op VARCHAR,
    group_name VARCHAR,
    group_desc VARCHAR,
    group_ranks INTEGER[],
    group_size INTEGER,
    seq BIGINT,
    bytes BIGINT,
    peer INTEGER,
    duration_ns BIGINT
);

-- calls with all that is known of them
CREATE VIEW base.known_calls AS
SELECT
    k.call_id, k.rank, k.source_id, k.gpu_op_id, k.receive_op_id, k.host_op_id,
    coalesce(i.op, k.op) AS op,
    k.kind,
    CASE WHEN i.group_size IS NULL THEN k.group_name ELSE i.group_name END AS group_name,
    CASE WHEN i.group_size IS NULL THEN k.group_desc ELSE i.group_desc END AS group_desc,
    CASE WHEN i.group_size IS NULL THEN k.group_ranks ELSE i.group_ranks END AS group_ranks,
    coalesce(i.group_size, k.group_size) AS group_size,
    k.comm_id, k.comm_rank, k.comm_peer,
    coalesce(i.seq, k.seq) AS seq,
    k.dtype,
    coalesce(i.bytes, k.bytes) AS bytes,
    coalesce(i.peer, k.peer) AS peer,
    k.root_place,
    k.stream, k.start_local_ns,
    coalesce(i.duration_ns, k.duration_ns) AS duration_ns, k.duration_ns AS stated_ns,
    k.step, k.evidence,
    i.inferred
FROM base.collective_calls AS k
LEFT JOIN (
    SELECT
        call_id, any_value(op) AS op, any_value(group_name) AS group_name, any_value(group_desc) AS group_desc,
        any_value(group_ranks) AS group_ranks, any_value(group_size) AS group_size, any_value(seq) AS seq, any_value(bytes) AS bytes,
        any_value(peer) AS peer, any_value(duration_ns) AS duration_ns,
        string_agg(
            concat_ws(
                ', ', CASE WHEN op IS NOT NULL THEN 'op' END, CASE WHEN group_size IS NOT NULL THEN 'group' END,
                CASE WHEN seq IS NOT NULL THEN 'seq' END, CASE WHEN bytes IS NOT NULL THEN 'bytes' END,
                CASE WHEN peer IS NOT NULL THEN 'peer' END, CASE WHEN duration_ns IS NOT NULL THEN 'duration_ns' END
            ) || ' by ' || evidence, '; ' ORDER BY evidence
        ) AS inferred
    FROM base.inferences
    GROUP BY call_id
) AS i USING (call_id);

-- written by weave, one row per call
CREATE TABLE base.matches (
    call_id BIGINT NOT NULL,
    group_id INTEGER,
    collective_id BIGINT,
    match VARCHAR NOT NULL
);
