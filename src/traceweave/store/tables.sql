-- Base tables, in the schema `base`: what the files said, each rank on its own clock, integer
-- nanoseconds since the Unix epoch (`*_local_ns`). Loaders fill them, `weave` adds `matches`, `clocks`
-- and `groups`, nobody else writes. Users read the public relations of views.sql.
--
-- op_id is unique in the whole database: source_id * 1 000 000 000 + position of the event in its file.
--
-- args hold the same keys again and again with a few numbers that never repeat. zstd makes a fifth of what DuckDB's own
-- choice (a dictionary of symbols) makes of them, in a third of the time.

CREATE SCHEMA base;

CREATE TABLE meta (name VARCHAR NOT NULL, value VARCHAR);

CREATE TABLE sources (
    source_id INTEGER NOT NULL,
    path VARCHAR NOT NULL,
    format VARCHAR NOT NULL,
    producer VARCHAR,
    producer_version VARCHAR,
    size_bytes BIGINT NOT NULL,
    events_read BIGINT NOT NULL,
    events_stored BIGINT NOT NULL,
    events_skipped BIGINT NOT NULL,
    status VARCHAR NOT NULL,
    message VARCHAR
);

CREATE TABLE ingest_issues (
    source_id INTEGER,
    kind VARCHAR NOT NULL,
    count BIGINT,
    example VARCHAR,
    message VARCHAR NOT NULL
);

-- one row per rank and source: a rank with several profiling windows has several
CREATE TABLE base.rank_sources (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    rank_source VARCHAR NOT NULL,
    host VARCHAR,
    pid BIGINT,
    device INTEGER,
    gpu_name VARCHAR,
    world_size INTEGER,
    backend VARCHAR,
    nccl_version VARCHAR,
    format VARCHAR NOT NULL,
    first_local_ns BIGINT,
    last_local_ns BIGINT,
    tick_ns INTEGER,
    -- added to the file's own times; NULL where they are none of one clock
    base_ns BIGINT,
    -- of a rank without GPU ops: calls that launch kernels, and tasks of a device that is not read
    launches BIGINT,
    unread_tasks BIGINT
);

-- what the records of a rank cannot support, as far as its file tells: see sources/doubts.sql and ingestion/recording.py
CREATE TABLE base.doubts (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    step BIGINT,                                       -- NULL: outside any
    kind VARCHAR NOT NULL,
    count BIGINT NOT NULL,
    total BIGINT NOT NULL,                             -- of so many
    is_unknown BOOLEAN NOT NULL                        -- the step, or the rank where it has none, counts in no number
);

-- the verdict on all of them, written once at ingest
CREATE TABLE recording (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    steps BIGINT[] NOT NULL,
    count BIGINT,
    total BIGINT,
    is_unknown BOOLEAN NOT NULL,
    message VARCHAR NOT NULL,
    advice VARCHAR NOT NULL
);

CREATE TABLE clocks (
    rank INTEGER NOT NULL,
    from_local_ns BIGINT,
    reference_rank INTEGER,
    offset_ns BIGINT NOT NULL,
    drift_ppm DOUBLE NOT NULL,
    reference_local_ns BIGINT NOT NULL,
    bound_ns BIGINT,
    residual_p50_ns BIGINT,
    residual_p95_ns BIGINT,
    anchors BIGINT NOT NULL,
    method VARCHAR NOT NULL,
    status VARCHAR NOT NULL
);

CREATE TABLE groups (
    group_id INTEGER NOT NULL,
    name VARCHAR,
    description VARCHAR,
    size INTEGER,
    ranks INTEGER[],
    role VARCHAR NOT NULL,
    role_source VARCHAR NOT NULL,
    stated_role VARCHAR,
    membership VARCHAR NOT NULL DEFAULT 'stated'
);

CREATE TABLE base.steps (
    rank INTEGER NOT NULL,
    step BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    start_local_ns BIGINT NOT NULL,
    duration_ns BIGINT NOT NULL,
    device_start_local_ns BIGINT,
    device_end_local_ns BIGINT,
    source VARCHAR NOT NULL,
    kind VARCHAR
);

CREATE TABLE base.gpu_ops (
    rank INTEGER,
    op_id BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    category VARCHAR NOT NULL,
    class VARCHAR NOT NULL,
    class_source VARCHAR,
    name VARCHAR NOT NULL,
    device INTEGER,
    context BIGINT,
    stream BIGINT,
    start_local_ns BIGINT NOT NULL,
    duration_ns BIGINT NOT NULL,
    step BIGINT,
    correlation BIGINT,
    launch_op_id BIGINT,
    bytes BIGINT,
    copy_kind VARCHAR,
    graph_node BIGINT,
    args JSON USING COMPRESSION zstd,
    -- what host_ops says of the launching call, so that nobody has to join the two; NULL if it is not recorded
    launch_start_local_ns BIGINT,
    launch_duration_ns BIGINT,
    launch_pid BIGINT,
    launch_tid BIGINT,
    launch_call VARCHAR
);

CREATE TABLE base.host_ops (
    rank INTEGER,
    op_id BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    pid BIGINT,
    tid BIGINT,
    start_local_ns BIGINT NOT NULL,
    duration_ns BIGINT NOT NULL,
    depth INTEGER,
    parent_id BIGINT,
    step BIGINT,
    correlation BIGINT,
    sequence BIGINT,
    arguments_hash BIGINT,
    args JSON USING COMPRESSION zstd
);

-- what is left of operators in which their thread waited for a collective: a row per part, of which the last may have no length; none where a GPU works
CREATE TABLE base.op_parts (
    op_id BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    start_local_ns BIGINT NOT NULL,
    duration_ns BIGINT NOT NULL
);

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
    k.stream, k.start_local_ns,
    coalesce(i.duration_ns, k.duration_ns) AS duration_ns,
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

CREATE TABLE base.flows (
    rank INTEGER,
    source_id INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    from_op_id BIGINT NOT NULL,
    to_op_id BIGINT NOT NULL
);

CREATE TABLE base.memory_events (
    rank INTEGER,
    op_id BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    device VARCHAR,
    name VARCHAR NOT NULL,
    at_local_ns BIGINT NOT NULL,
    value BIGINT,
    address BIGINT,
    total_allocated_bytes BIGINT,
    total_reserved_bytes BIGINT,
    args JSON USING COMPRESSION zstd
);

CREATE TABLE base.counters (
    rank INTEGER,
    op_id BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    device VARCHAR,
    name VARCHAR NOT NULL,
    at_local_ns BIGINT NOT NULL,
    value DOUBLE,
    unit VARCHAR
);

CREATE TABLE base.other_events (
    rank INTEGER,
    op_id BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    phase VARCHAR NOT NULL,
    category VARCHAR,
    name VARCHAR,
    pid VARCHAR,
    tid VARCHAR,
    start_local_ns BIGINT,
    duration_ns BIGINT,
    args JSON USING COMPRESSION zstd
);

-- what torch's flight recorder, a record of the job itself, knows of the last operations of one rank
CREATE TABLE base.flight_calls (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    record_id BIGINT NOT NULL,
    group_name VARCHAR NOT NULL,
    group_desc VARCHAR,
    group_ranks INTEGER[],
    seq BIGINT,
    p2p_seq BIGINT,
    is_p2p BOOLEAN NOT NULL,
    op VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    -- the other side of a send or recv, as its place in the group
    peer_place BIGINT,
    input_sizes BIGINT[][],
    input_dtypes VARCHAR[],
    output_sizes BIGINT[][],
    output_dtypes VARCHAR[],
    state VARCHAR,
    retired BOOLEAN,
    created_local_ns BIGINT,
    started_local_ns BIGINT,
    completed_local_ns BIGINT,
    duration_ns BIGINT,
    timeout_ns BIGINT,
    call_id BIGINT
);

CREATE TABLE base.flight_groups (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    group_name VARCHAR NOT NULL,
    group_desc VARCHAR,
    group_ranks INTEGER[],
    last_enqueued BIGINT,
    last_started BIGINT,
    last_completed BIGINT
);

-- What NCCL itself recorded: its logs and its Inspector. A communicator is told by its number in the file, in one process; `identity`
-- is the same in all its processes, where they tell. `rank` is the global rank of the process, NULL until (and unless) join_nccl finds it.
-- One row per file, process and communicator:
CREATE TABLE base.nccl_communicators (
    source_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    host VARCHAR,
    pid BIGINT NOT NULL,
    rank INTEGER,
    identity VARCHAR,
    name VARCHAR,
    -- the rank of the process in the communicator, and how many there are
    place INTEGER NOT NULL,
    size INTEGER NOT NULL,
    device INTEGER,
    nodes INTEGER,
    local_ranks INTEGER,
    channels INTEGER,
    nvls_channels INTEGER,
    p2p_channels INTEGER,
    network VARCHAR,
    devices VARCHAR
);

-- COLL lines, counted: one row per process, communicator (NULL: its beginning is not in the log), operation, size and type
CREATE TABLE base.nccl_calls (
    source_id INTEGER NOT NULL,
    host VARCHAR,
    pid BIGINT NOT NULL,
    number INTEGER,
    op VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    "count" BIGINT NOT NULL,
    dtype VARCHAR NOT NULL,
    bytes BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    line BIGINT NOT NULL
);

-- TUNING lines, counted: one row per process, communicators that the line may be of, operation, size and choice
CREATE TABLE base.nccl_choices (
    source_id INTEGER NOT NULL,
    host VARCHAR,
    pid BIGINT NOT NULL,
    numbers INTEGER[] NOT NULL,
    op VARCHAR,
    name VARCHAR,
    bytes BIGINT NOT NULL,
    per_rank BOOLEAN NOT NULL,
    algorithm VARCHAR NOT NULL,
    protocol VARCHAR,
    channels INTEGER,
    chosen BIGINT NOT NULL,
    line BIGINT NOT NULL
);

-- one operation of one process as NCCL Inspector measured it
CREATE TABLE base.nccl_inspected (
    source_id INTEGER NOT NULL,
    record BIGINT NOT NULL,
    number INTEGER NOT NULL,
    op VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    is_p2p BOOLEAN NOT NULL,
    -- counts the operations of one kind in a communicator
    nth BIGINT,
    peer_place INTEGER,
    bytes BIGINT,
    duration_ns BIGINT NOT NULL,
    timing VARCHAR,
    algbw_gbps DOUBLE,
    busbw_gbps DOUBLE,
    algorithm VARCHAR,
    protocol VARCHAR,
    start_local_ns BIGINT,
    end_local_ns BIGINT,
    call_id BIGINT
);

-- what traceweave.capture wrote into the trace of `rank`: it asked `peer_rank` for the time
CREATE TABLE base.clock_probes (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    peer_rank INTEGER NOT NULL,
    meeting INTEGER NOT NULL,
    asked_local_ns BIGINT NOT NULL,
    -- by the clock of the peer
    heard_local_ns BIGINT NOT NULL,
    answered_local_ns BIGINT NOT NULL,
    received_local_ns BIGINT NOT NULL
);

-- the process groups of a rank in the order they were made, as its trace lists them for calls that name none
CREATE TABLE base.listed_groups (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    place INTEGER NOT NULL,
    group_name VARCHAR NOT NULL,
    group_desc VARCHAR,
    group_ranks INTEGER[],                             -- ascending; NULL: all ranks
    world_size INTEGER NOT NULL
);

-- when a rank that lists its groups may have made others: its threads that issue collectives recorded nothing
CREATE TABLE base.pauses (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    start_local_ns BIGINT NOT NULL,
    duration_ns BIGINT NOT NULL
);

-- messages of gloo: what their calls say, and the file they are in. A call of either side waits for the other.
CREATE TABLE base.messages (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    host_op_id BIGINT NOT NULL,                        -- the call that issued it
    peer_place INTEGER,                                -- the other side by its place in the group, which no call names
    tag BIGINT,
    issued_local_ns BIGINT NOT NULL,
    waited_local_ns BIGINT,                            -- when it was over for who issued it; NULL: not while it was recorded
    recorded_from_ns BIGINT NOT NULL,
    recorded_to_ns BIGINT NOT NULL
);

-- what the job said its process groups are for, as traceweave.capture was told
CREATE TABLE base.group_roles (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    group_name VARCHAR NOT NULL,
    group_ranks INTEGER[] NOT NULL,
    role VARCHAR NOT NULL
);

CREATE TABLE base.job_settings (
    rank INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    value VARCHAR NOT NULL
);
