-- The public relations. Each begins with a documented header: `-- relation: name | what one row is`, then one
-- `-- column: name TYPE | meaning` per column, in order. The header is checked against the database by a test,
-- written into it as COMMENT ON, and printed by `traceweave schema`. Times are integer nanoseconds.

-- relation: sources | one row per input file
-- column: source_id INTEGER | number of the file in this database
-- column: path VARCHAR | where the file was at ingest
-- column: format VARCHAR | 'kineto', 'nsys', 'capture', 'flight_recorder', 'nccl_log' or 'nccl_inspector'
-- column: producer VARCHAR | what wrote the file: 'PyTorch Profiler', 'Nsight Systems', 'traceweave.capture', 'torch flight recorder', 'NCCL', 'RCCL', 'NCCL Inspector'
-- column: producer_version VARCHAR | version of the producer, if the file has it
-- column: size_bytes BIGINT | size on disk
-- column: events_read BIGINT | events found in the file = events_stored + events_skipped
-- column: events_stored BIGINT | events whose content is in this database
-- column: events_skipped BIGINT | events that are not; ingest_issues counts them by kind
-- column: status VARCHAR | 'ok', 'partial' (something was lost; ingest_issues says whether it was counted) or 'failed' (nothing could be read)
-- column: message VARCHAR | what was wrong; NULL if nothing

-- relation: ingest_issues | one row per source and kind of problem
-- column: source_id INTEGER | the file; NULL if it concerns the run
-- column: kind VARCHAR | short stable name of the trouble
-- column: count BIGINT | how many events it concerns; NULL: not known, as of what lies beyond a cut
-- column: example VARCHAR | one of them
-- column: message VARCHAR | what it means and what was done

-- relation: recording | what the records of a rank cannot support: one row per rank, file and kind; none where all is fit to judge
-- column: rank INTEGER | global rank
-- column: source_id INTEGER | the file
-- column: kind VARCHAR | short stable name of what is wrong
-- column: steps BIGINT[] | the steps it concerns; empty: none in particular
-- column: count BIGINT | how many records it concerns; NULL: not counted
-- column: total BIGINT | of how many in these steps, or in the file; NULL like count
-- column: is_unknown BOOLEAN | whether these steps (without any, the rank) are unknown: they count in no average, no idle time and no cause
-- column: message VARCHAR | what it means for the answers
-- column: advice VARCHAR | how to record so that it does not happen

-- relation: clocks | how to convert a rank's clock to the common one: aligned = local + offset_ns + drift_ppm * 1e-6 * (local - reference_local_ns)
-- column: rank INTEGER | global rank
-- column: from_local_ns BIGINT | start of validity, up to the rank's next row; NULL: from the beginning
-- column: reference_rank INTEGER | the rank whose clock is the common one
-- column: offset_ns BIGINT | added to the local time
-- column: drift_ppm DOUBLE | rate difference, parts per million
-- column: reference_local_ns BIGINT | local time at which offset_ns is exact
-- column: bound_ns BIGINT | the true offset lies within offset_ns +- this: causality proves it, unless ingest_issues has 'causality_contradicts_itself', or more where the ends near reference_local_ns leave more open; NULL if unbounded, as before the first call of a clock that wanders
-- column: residual_p50_ns BIGINT | median distance of the rank's collective ends from the fit; NULL without anchors
-- column: residual_p95_ns BIGINT | 95th percentile of the same: differences between ranks below this are noise; no more than what clock probes prove, and 20 us where threads of one host time all calls
-- column: anchors BIGINT | matched collectives in the fit, of this row's time; 0 between two anchors around a step of the clock
-- column: method VARCHAR | how the offset was found; 'steps' and 'wander' in it where a clock is more than one line
-- column: status VARCHAR | 'aligned', 'same host', 'wall clock' or 'unaligned'

-- relation: groups | one row per process group (communicator)
-- column: group_id INTEGER | number of the group in this database
-- column: name VARCHAR | the group's own name; NULL if the trace has none
-- column: description VARCHAR | the group's description, for example 'default_pg'
-- column: size INTEGER | number of members
-- column: ranks INTEGER[] | global ranks of the members as far as known, ascending
-- column: role VARCHAR | 'world', 'dp', 'tp', 'pp', 'ep', 'cp' or 'unknown'
-- column: role_source VARCHAR | evidence for the role
-- column: stated_role VARCHAR | what the job itself says the group is for (roles of traceweave.capture): a role, or its own words where they name none; NULL if it says nothing
-- column: membership VARCHAR | what the members rest on: 'stated', 'inferred: ' and how clearly ends prove it, or 'unknown: ' and why
-- column: link VARCHAR | where its bytes go: 'intra-node', 'inter-node' (no two members on one host) or 'mixed', by NCCL's own records, else by the host names of its members; NULL if neither tells
-- column: via VARCHAR | what they go over: in a node 'NVLink 4', 'PCIe 4', 'Infinity Fabric' and the like, beyond it NCCL's network, as 'IB'; NULL if unknown
-- column: link_gbps DOUBLE | bus bandwidth that this has at most, decimal GB/s: in a node what a GPU's links to the others carry in one direction, by its vendor (gpus.toml); beyond it, and where the GPU is not listed, what NCCL counts on for its rings, by its log; NULL if unknown

-- relation: ranks | one row per rank
-- column: rank INTEGER | global rank
-- column: source_id INTEGER | first file of the rank
-- column: host VARCHAR | host name; NULL if unknown
-- column: pid BIGINT | process id on that host
-- column: device INTEGER | device number inside the process
-- column: gpu_name VARCHAR | product name of that device
-- column: world_size INTEGER | number of ranks of the job
-- column: backend VARCHAR | communication backend, for example 'nccl'
-- column: nccl_version VARCHAR | NCCL version
-- column: format VARCHAR | 'kineto' or 'nsys'
-- column: first_local_ns BIGINT | first event, rank's own clock
-- column: last_local_ns BIGINT | end of the last event, rank's own clock
-- column: windows BIGINT | profiling windows (files) of this rank
-- column: rank_source VARCHAR | the evidence for the rank number
-- column: tick_ns INTEGER | time resolution of its trace: 1000 where all are whole microseconds, else 1
-- column: launches BIGINT | of a rank without GPU ops: calls that launch kernels, so that it used a GPU whose work was not recorded
-- column: unread_tasks BIGINT | of a rank without GPU ops: tasks of its device in a format that is not read
CREATE VIEW ranks AS
SELECT
    rank,
    min(source_id) AS source_id,
    arg_min(host, source_id) AS host,
    arg_min(pid, source_id) AS pid,
    arg_min(device, source_id) AS device,
    arg_min(gpu_name, source_id) AS gpu_name,
    max(world_size) AS world_size,
    arg_min(backend, source_id) AS backend,
    arg_min(nccl_version, source_id) AS nccl_version,
    arg_min(format, source_id) AS format,
    min(first_local_ns) AS first_local_ns,
    max(last_local_ns) AS last_local_ns,
    count(*) AS windows,
    arg_min(rank_source, source_id) AS rank_source,
    max(tick_ns) AS tick_ns,
    sum(launches)::BIGINT AS launches,
    sum(unread_tasks)::BIGINT AS unread_tasks
FROM base.rank_sources
GROUP BY rank;

-- relation: clock_spans | one row per rank and piece of its clock, with both ends, for every rank: aligned_ns(local_ns, offset_ns, drift_ppm, reference_local_ns) converts a time between them to the common clock
-- column: rank INTEGER | global rank
-- column: from_local_ns BIGINT | start of validity
-- column: until_local_ns BIGINT | end of validity, exclusive
-- column: offset_ns BIGINT | this and the following as in clocks; 0 for a rank that has no row there
-- column: drift_ppm DOUBLE | rate difference, parts per million
-- column: reference_local_ns BIGINT | local time at which offset_ns is exact
-- It is a join from the left where there are many rows, although every rank has a row here: DuckDB expects next to no rows
-- from an inner join on a range of times, and then builds its hash tables on the ops.
CREATE VIEW clock_spans AS
WITH known AS (
    SELECT DISTINCT rank FROM base.rank_sources
)
SELECT
    known.rank,
    CASE WHEN row_number() OVER by_rank = 1 THEN -9223372036854775807
         ELSE coalesce(from_local_ns, -9223372036854775807) END AS from_local_ns,
    coalesce(lead(from_local_ns) OVER by_rank, 9223372036854775807) AS until_local_ns,
    coalesce(offset_ns, 0) AS offset_ns,
    coalesce(drift_ppm, 0) AS drift_ppm,
    coalesce(reference_local_ns, 0) AS reference_local_ns
FROM known LEFT JOIN clocks USING (rank)
WINDOW by_rank AS (PARTITION BY known.rank ORDER BY from_local_ns NULLS FIRST);

-- Internal: the same clocks, one row per rank, for the relations that have millions of rows. Of a join from the left with what
-- is grouped by the key DuckDB expects as many rows as come in; it compares nothing but ranks, and where rows that ask for
-- local times alone are only grouped it leaves the join out. `pieces` is NULL for a clock that is one line, as most are.
CREATE VIEW base.rank_clocks AS
SELECT
    rank,
    any_value(offset_ns) AS offset_ns,
    any_value(drift_ppm) AS drift_ppm,
    any_value(reference_local_ns) AS reference_local_ns,
    CASE WHEN count(*) > 1 THEN
        list({from_local_ns: from_local_ns, offset_ns: offset_ns, drift_ppm: drift_ppm, reference_local_ns: reference_local_ns}
            ORDER BY from_local_ns)
    END AS pieces
FROM clock_spans
GROUP BY rank;

-- Internal: a moment on the common clock, by the piece of the rank's clock that holds at `at_ns`; clock: columns of rank_clocks.
CREATE MACRO base.align_by(local_ns, at_ns, offset_ns, drift_ppm, reference_local_ns, pieces) AS
    CASE WHEN pieces IS NULL THEN aligned_ns(local_ns, offset_ns, drift_ppm, reference_local_ns)
    ELSE list_transform(
        list_filter(pieces, lambda p: p.from_local_ns <= at_ns)[-1:],
        lambda p: aligned_ns(local_ns, p.offset_ns, p.drift_ppm, p.reference_local_ns)
    )[1] END;

-- relation: steps | one row per rank and training step
-- column: rank INTEGER | global rank
-- column: step BIGINT | step number
-- column: start_ns BIGINT | start of the host's step range, common clock
-- column: end_ns BIGINT | end of the host's step range, common clock
-- column: duration_ns BIGINT | length of the host's step range on the rank's own clock
-- column: device_start_ns BIGINT | start of the step's first GPU op; NULL if it has none
-- column: device_end_ns BIGINT | start of the next step's first GPU op; for the last step the end of its last op. The only step of a rank lasts as long as its range on the host, where its GPU ops take less than half of that
-- column: source VARCHAR | what marks the step: 'ProfilerStep', 'engine' (a batch of an inference engine), 'nvtx' (any other range), 'module' (the model's calls), 'inferred' from repeating kernels where nothing does, or 'recording' (each of several of the rank)
-- column: start_local_ns BIGINT | start of the host's step range, rank's own clock
-- column: device_start_local_ns BIGINT | device_start_ns on the rank's own clock
-- column: device_end_local_ns BIGINT | device_end_ns on the rank's own clock
-- column: kind VARCHAR | what an inference engine runs in it: 'prefill', 'decode', 'mixed' ...; NULL where it does not say
CREATE VIEW steps AS
SELECT
    s.rank,
    s.step,
    aligned_ns(s.start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS start_ns,
    aligned_ns(s.start_local_ns + s.duration_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS end_ns,
    s.duration_ns,
    aligned_ns(s.device_start_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS device_start_ns,
    aligned_ns(s.device_end_local_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns) AS device_end_ns,
    s.source, s.start_local_ns, s.device_start_local_ns, s.device_end_local_ns, s.kind
FROM base.steps AS s
JOIN clock_spans AS c
    ON s.rank = c.rank AND s.start_local_ns >= c.from_local_ns AND s.start_local_ns < c.until_local_ns;
