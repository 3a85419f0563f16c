-- analysis: ranks | where each rank ran, and what was recorded of it
-- answers: Which ranks are here, where did they run, and how much was recorded of each?
-- topic: overview
-- grain: one row per rank
-- within: rank
-- column: rank INTEGER | global rank
-- column: host VARCHAR | host name; NULL if unknown
-- column: gpu_name VARCHAR | product name of its device
-- column: recorded_ns BIGINT | from its first event to the end of its last; NULL without an event that has a time
-- column: steps BIGINT | steps that its traces mark
-- column: gpu_ops BIGINT | kernels, copies and memsets on its GPU
-- column: host_ops BIGINT | operators, annotations, calls and ranges on its host
-- column: collectives BIGINT | collective calls, sends and recvs
-- column: matched BIGINT | those that belong to a collective of the run
-- column: timeline VARCHAR | what its times are measured on: 'gpu', or 'cpu' in a run without any GPU work; NULL: nothing, the rank is left out of all numbers
-- column: pid BIGINT | process id on that host
-- column: device INTEGER | device number inside the process
-- column: world_size INTEGER | number of ranks of the job, as its trace says
-- column: backend VARCHAR | communication backend, for example 'nccl'
-- column: nccl_version VARCHAR | NCCL version
-- column: format VARCHAR | 'kineto' or 'nsys'
-- column: windows BIGINT | profiling windows (files) of this rank
-- column: rank_source VARCHAR | the evidence for the rank number
-- column: first_local_ns BIGINT | its first event, on its own clock
-- main: rank, host, gpu_name, recorded_ns, steps, gpu_ops, host_ops, collectives, matched
-- order: rank
-- caveat: a rank of the job that is not here was not recorded; world_size says how many there were.
SELECT
    r.rank,
    r.host,
    r.gpu_name,
    r.last_local_ns - r.first_local_ns AS recorded_ns,
    coalesce(s.n, 0) AS steps,
    coalesce(g.n, 0) AS gpu_ops,
    coalesce(h.n, 0) AS host_ops,
    coalesce(k.n, 0) AS collectives,
    coalesce(k.matched, 0) AS matched,
    t.timeline,
    r.pid,
    r.device,
    r.world_size,
    r.backend,
    r.nccl_version,
    r.format,
    r.windows,
    r.rank_source,
    r.first_local_ns
FROM ranks AS r
LEFT JOIN (SELECT rank, count(*) AS n FROM gpu_ops GROUP BY rank) AS g USING (rank)
LEFT JOIN (SELECT rank, count(*) AS n FROM host_ops GROUP BY rank) AS h USING (rank)
LEFT JOIN (SELECT rank, count(DISTINCT step) AS n FROM steps GROUP BY rank) AS s USING (rank)
LEFT JOIN (SELECT rank, count(*) AS n, count(collective_id) AS matched FROM collectives GROUP BY rank) AS k USING (rank)
LEFT JOIN tw_timelines AS t USING (rank)
ORDER BY r.rank
