-- Base tables, in the schema `base`: what the files said, each rank on its own clock, integer
-- nanoseconds since the Unix epoch (`*_local_ns`). Loaders fill them, `weave` adds `matches`, `clocks`
-- and `groups`, nobody else writes. Users read the public relations of views/.
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
    membership VARCHAR NOT NULL DEFAULT 'stated',
    link VARCHAR,
    via VARCHAR,
    link_gbps DOUBLE
);
