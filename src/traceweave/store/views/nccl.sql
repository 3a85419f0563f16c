-- relation: communicators | one row per NCCL communicator that NCCL's logs or its Inspector tell of, over all its processes; one whose processes do not say which is the same on others has a row for each of them
-- column: communicator VARCHAR | its hash, with the number and color of a split after it; a name of this database ('file 3 communicator 0') where the log has no hash
-- column: name VARCHAR | the name that the program gave it; NULL if it is not recorded
-- column: size INTEGER | number of members
-- column: ranks INTEGER[] | global rank of each member, in the communicator's own order; NULL for one that is not known
-- column: known BIGINT | members whose global rank is known
-- column: group_id INTEGER | process group; NULL if none fits, or several do
-- column: group_ids INTEGER[] | all process groups that fit: as large, and with the known members at their places
-- column: nodes INTEGER | hosts it lies over
-- column: channels INTEGER | channels for collectives
-- column: nvls_channels INTEGER | of them for NVLS, the reduction inside NVLink switches; 0: it is not used
-- column: p2p_channels INTEGER | channels for send and recv
-- column: ring_gbps DOUBLE | bandwidth that NCCL counts on for its rings together, decimal GB/s: of the slowest part of any of its processes (NCCL_DEBUG_SUBSYS=GRAPH)
-- column: paths VARCHAR | slowest path of these rings in a node and to the network, as NCCL names them: 'NVL/PIX'
-- column: network VARCHAR | network plug-in, as 'IB' or 'Socket'
-- column: devices VARCHAR | network devices that its processes found, separated by commas
-- column: hosts VARCHAR[] | hosts of the processes that recorded it
CREATE VIEW communicators AS
WITH known AS (
    SELECT *, coalesce(identity, format('file {} communicator {}', source_id, number)) AS communicator FROM base.nccl_communicators
),
places AS (
    SELECT communicator, size, place, any_value(rank) AS rank FROM known GROUP BY ALL HAVING count(DISTINCT rank) = 1
),
-- a trace that has hashes itself names the group, whoever its members are
hashed AS (
    SELECT DISTINCT k.comm_id AS communicator, m.group_id
    FROM base.collective_calls AS k JOIN base.matches AS m USING (call_id)
    WHERE k.comm_id IN (SELECT identity FROM base.nccl_communicators) AND m.group_id IS NOT NULL
),
fitting AS (
    SELECT p.communicator, g.group_id
    FROM places AS p JOIN groups AS g ON g.size = p.size AND len(g.ranks) = p.size
    WHERE p.communicator NOT IN (SELECT communicator FROM hashed)
    GROUP BY p.communicator, g.group_id
    HAVING bool_and(g.ranks[p.place + 1] = p.rank)
    UNION ALL
    FROM hashed
),
assigned AS (
    SELECT communicator, list(group_id ORDER BY group_id) AS group_ids FROM fitting GROUP BY communicator
),
members AS (
    SELECT communicator, map_from_entries(list((place, rank))) AS rank_of, count(*) AS known FROM places GROUP BY communicator
)
SELECT
    k.communicator,
    any_value(k.name) AS name,
    any_value(k.size) AS size,
    list_transform(range(any_value(k.size)::BIGINT), lambda place: any_value(m.rank_of)[place::INTEGER])::INTEGER[] AS ranks,
    coalesce(any_value(m.known), 0) AS known,
    CASE WHEN len(any_value(a.group_ids)) = 1 THEN any_value(a.group_ids)[1] END AS group_id,
    coalesce(any_value(a.group_ids), []) AS group_ids,
    any_value(k.nodes) AS nodes,
    any_value(k.channels) AS channels,
    any_value(k.nvls_channels) AS nvls_channels,
    any_value(k.p2p_channels) AS p2p_channels,
    min(k.ring_gbps) AS ring_gbps,
    arg_min(k.paths, k.ring_gbps) AS paths,
    any_value(k.network) AS network,
    array_to_string(list_sort(list_distinct(flatten(list(string_split(k.devices, ','))))), ',') AS devices,
    list(DISTINCT k.host ORDER BY k.host) FILTER (k.host IS NOT NULL) AS hosts
FROM known AS k
LEFT JOIN members AS m USING (communicator)
LEFT JOIN assigned AS a USING (communicator)
GROUP BY k.communicator;

-- relation: nccl_choices | one row per file, process, operation, size, what NCCL ran for it as its log says (NCCL_DEBUG_SUBSYS=TUNING, written by rank 0 of a communicator alone), and communicator that the lines may be of
-- column: communicator VARCHAR | as in communicators: one in which the process is rank 0 and, where calls are logged too, had such a call; NULL if none is known
-- column: possible BIGINT | how many communicators the lines may be of: 1 is certain; of more there are as many rows with the same lines; 0: none is known
-- column: group_id INTEGER | process group of the communicator; NULL if none fits, or several do
-- column: group_ids INTEGER[] | all process groups that fit; NULL if no communicator is known
-- column: op VARCHAR | which operation; NULL in logs of NCCL before 2.23, which do not say
-- column: bytes BIGINT | size S as nccl-tests defines it (the whole buffer); NULL if it depends on a communicator that is not known
-- column: algorithm VARCHAR | as NCCL names it: RING, TREE, COLLNET_DIRECT, COLLNET_CHAIN, NVLS, NVLS_TREE, PAT; SYMMETRIC and a kernel's name; COPY_ENGINE
-- column: protocol VARCHAR | LL, LL128 or SIMPLE; NULL where the algorithm has none
-- column: channels INTEGER | channels used; NULL if the log does not say
-- column: lines BIGINT | how often the log says so
-- column: logged_bytes BIGINT | bytes as the log has them: since NCCL 2.24 those of one rank, where each rank has a part of its own
-- column: host VARCHAR | host of the process
-- column: pid BIGINT | its process id
-- column: line BIGINT | first line of the log that says so
-- column: source_id INTEGER | file it comes from
CREATE VIEW nccl_choices AS
SELECT
    o.communicator, coalesce(len(c.numbers), 0) AS possible, o.group_id, o.group_ids, c.op,
    c.bytes * CASE WHEN c.per_rank AND c.op IN ('all_gather', 'reduce_scatter', 'all_to_all', 'gather', 'scatter') THEN k.size ELSE 1 END AS bytes,
    c.algorithm, c.protocol, c.channels, c.chosen AS lines, c.bytes AS logged_bytes, c.host, c.pid, c.line, c.source_id
FROM (
    SELECT *, unnest(CASE WHEN numbers = [] THEN [NULL] ELSE numbers END) AS number FROM base.nccl_choices
) AS c
LEFT JOIN base.nccl_communicators AS k USING (source_id, number)
LEFT JOIN communicators AS o ON o.communicator = coalesce(k.identity, format('file {} communicator {}', k.source_id, k.number));

-- relation: nccl_calls | one row per file, process, communicator, operation, size and type: how often the job called NCCL for it, as its log says (NCCL_DEBUG_SUBSYS=COLL)
-- column: rank INTEGER | global rank of the process; NULL if it is not known
-- column: communicator VARCHAR | as in communicators; NULL if the log lacks its beginning
-- column: group_id INTEGER | process group of the communicator; NULL if either is not known
-- column: op VARCHAR | which operation
-- column: count BIGINT | elements, as they are given to NCCL: of one rank for operations with a part for each
-- column: dtype VARCHAR | type of the elements
-- column: bytes BIGINT | of these elements
-- column: calls BIGINT | how often
-- column: host VARCHAR | host of the process
-- column: pid BIGINT | its process id
-- column: source_id INTEGER | file it comes from
CREATE VIEW nccl_calls AS
SELECT
    k.rank, o.communicator, o.group_id, c.op, c."count", c.dtype, c.bytes, c.calls, c.host, c.pid, c.source_id
FROM base.nccl_calls AS c
LEFT JOIN base.nccl_communicators AS k USING (source_id, number)
LEFT JOIN communicators AS o ON o.communicator = coalesce(k.identity, format('file {} communicator {}', k.source_id, k.number));

-- relation: nccl_inspected | one row per operation of one process that NCCL Inspector measured
-- column: rank INTEGER | global rank of the process; NULL if it is not known
-- column: communicator VARCHAR | as in communicators
-- column: group_id INTEGER | process group of the communicator; NULL if none fits, or several do
-- column: op VARCHAR | which operation
-- column: nth BIGINT | number of the operation among those of its kind in the communicator: the same on all its ranks
-- column: peer INTEGER | the other rank of a send or recv; NULL if it is not known
-- column: bytes BIGINT | size S as nccl-tests defines it (the whole buffer)
-- column: duration_ns BIGINT | length of its kernel as Inspector measured it, in whole microseconds, waiting included
-- column: timing VARCHAR | what measured it: 'kernel_gpu', 'kernel_cpu' or 'collective_cpu'
-- column: algbw_gbps DOUBLE | as Inspector states it, decimal GB/s
-- column: busbw_gbps DOUBLE | as Inspector states it, decimal GB/s
-- column: algorithm VARCHAR | NCCL's algorithm; NULL if the record does not say (format before 4.2)
-- column: protocol VARCHAR | NCCL's protocol; NULL if the record does not say
-- column: start_local_ns BIGINT | first start of its kernel as the host noticed it, rank's own clock; NULL unless verbose
-- column: end_local_ns BIGINT | last end of the same
-- column: call_id BIGINT | the same operation in collectives, where times tell
-- column: source_id INTEGER | file it comes from
CREATE VIEW nccl_inspected AS
SELECT
    c.rank, o.communicator, o.group_id, i.op, i.nth,
    o.ranks[i.peer_place + 1] AS peer,
    i.bytes, i.duration_ns, i.timing, i.algbw_gbps, i.busbw_gbps, i.algorithm, i.protocol, i.start_local_ns, i.end_local_ns, i.call_id, i.source_id
FROM base.nccl_inspected AS i
JOIN base.nccl_communicators AS c USING (source_id, number)
JOIN communicators AS o ON o.communicator = coalesce(c.identity, format('file {} communicator {}', c.source_id, c.number));
