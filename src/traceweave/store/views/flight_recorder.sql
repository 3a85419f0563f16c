-- relation: flight_calls | one row per rank and operation in its flight recorder's dump: what process groups did last
-- column: rank INTEGER | global rank
-- column: record_id BIGINT | number of the record in its process, in the order in which operations were issued
-- column: group_id INTEGER | process group; NULL if its members are not known
-- column: group_name VARCHAR | the group's own name
-- column: group_desc VARCHAR | the group's description, for example 'default_pg'
-- column: group_ranks INTEGER[] | global ranks of the members, ascending; NULL if not known
-- column: seq BIGINT | number of a collective in its group; for a send or recv that of the collective before it
-- column: p2p_seq BIGINT | number of a send or recv, as its rank counts them in the group
-- column: is_p2p BOOLEAN | whether it is a send or recv
-- column: op VARCHAR | all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter, send, recv, barrier or unknown
-- column: name VARCHAR | as the recorder names it
-- column: peer INTEGER | the other rank of a send or recv
-- column: input_sizes BIGINT[][] | shape of each input
-- column: input_dtypes VARCHAR[] | element type of each input
-- column: output_sizes BIGINT[][] | shape of each output
-- column: output_dtypes VARCHAR[] | element type of each output
-- column: state VARCHAR | 'scheduled', 'started' or 'completed', as last noticed; gloo leaves it at 'scheduled'
-- column: pending BOOLEAN | whether it was under way when the dump was made
-- column: created_ns BIGINT | when the host issued it, common clock
-- column: created_local_ns BIGINT | the same on the rank's own clock
-- column: duration_ns BIGINT | length, if the job measured it (TORCH_NCCL_ENABLE_TIMING=1)
-- column: timeout_ns BIGINT | after how long the job gives up
-- column: call_id BIGINT | the same operation in collectives, where a trace has it too
-- column: source_id INTEGER | file it comes from
CREATE VIEW flight_calls AS
SELECT
    f.rank, f.record_id, g.group_id, f.group_name, f.group_desc, f.group_ranks, f.seq, f.p2p_seq, f.is_p2p, f.op, f.name,
    f.group_ranks[f.peer_place + 1] AS peer,
    f.input_sizes, f.input_dtypes, f.output_sizes, f.output_dtypes, f.state,
    coalesce(NOT retired, TRUE) AND (state IS DISTINCT FROM 'completed') AND completed_local_ns IS NULL AS pending,
    aligned_ns(f.created_local_ns, coalesce(c.offset_ns, 0), coalesce(c.drift_ppm, 0), coalesce(c.reference_local_ns, 0)) AS created_ns,
    f.created_local_ns, f.duration_ns, f.timeout_ns, f.call_id, f.source_id
FROM base.flight_calls AS f
LEFT JOIN groups AS g ON g.name = f.group_name AND g.ranks = f.group_ranks
LEFT JOIN clock_spans AS c
    ON f.rank = c.rank AND coalesce(f.created_local_ns, 0) >= c.from_local_ns AND coalesce(f.created_local_ns, 0) < c.until_local_ns;

-- relation: flight_groups | one row per rank and process group in its flight recorder's dump: how far the rank has come in it
-- column: rank INTEGER | global rank
-- column: group_id INTEGER | process group; NULL if its members are not known
-- column: group_name VARCHAR | the group's own name
-- column: group_desc VARCHAR | the group's description
-- column: group_ranks INTEGER[] | global ranks of the members, ascending; NULL if not known
-- column: last_enqueued BIGINT | number of the last operation that the rank issued there (a send or recv has its own count); -1: none; NULL if the dump does not say
-- column: last_started BIGINT | of the last one that began; -1: none, or the job does not watch it
-- column: last_completed BIGINT | of the last one that finished; -1: none
-- column: source_id INTEGER | file it comes from
CREATE VIEW flight_groups AS
SELECT f.rank, g.group_id, f.group_name, f.group_desc, f.group_ranks, f.last_enqueued, f.last_started, f.last_completed, f.source_id
FROM base.flight_groups AS f
LEFT JOIN groups AS g ON g.name = f.group_name AND g.ranks = f.group_ranks;
