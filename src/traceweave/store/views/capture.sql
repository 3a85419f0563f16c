-- relation: clock_probes | one row per exchange of probes between two ranks, as traceweave.capture makes them before and after what it records
-- column: rank INTEGER | who asked
-- column: peer_rank INTEGER | who answered
-- column: meeting INTEGER | which of their meetings, counted from 0: before and after what is recorded
-- column: asked_local_ns BIGINT | when the request left, on the clock of rank
-- column: heard_local_ns BIGINT | when it arrived, on the clock of peer_rank
-- column: answered_local_ns BIGINT | when the answer left, on the clock of peer_rank
-- column: received_local_ns BIGINT | when it arrived, on the clock of rank
-- column: round_trip_ns BIGINT | how long both ways took
-- column: ahead_ns BIGINT | by how much the clock of peer_rank is ahead of that of rank, to within half of round_trip_ns
-- column: source_id INTEGER | file it comes from
CREATE VIEW clock_probes AS
SELECT
    rank, peer_rank, meeting, asked_local_ns, heard_local_ns, answered_local_ns, received_local_ns,
    (received_local_ns - asked_local_ns) - (answered_local_ns - heard_local_ns) AS round_trip_ns,
    ((heard_local_ns - asked_local_ns) + (answered_local_ns - received_local_ns)) // 2 AS ahead_ns,
    source_id
FROM base.clock_probes;

-- relation: job_settings | one row per rank and version or switch that it ran with, as traceweave.capture wrote them into the trace, and what that measured itself
-- column: rank INTEGER | global rank
-- column: kind VARCHAR | 'version': of the software; 'switch': an environment variable that tells how the job communicates; 'measured': by capture
-- column: name VARCHAR | 'torch', 'NCCL_ALGO' ...; measured is 'unprofiled_step_ns', the median of the latest steps before the profiler was made ready
-- column: value VARCHAR | its value
-- column: source_id INTEGER | file it comes from
CREATE VIEW job_settings AS
SELECT rank, kind, name, value, source_id FROM base.job_settings;
