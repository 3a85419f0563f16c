-- analysis: pop | how efficient the ranks are together, in the terms of the POP methodology
-- answers: Is time lost because ranks have unequal work, or because all of them do something other than compute?
-- topic: time
-- grain: one row per step; one row with step NULL for ranks without steps, or for window = 'span'
-- page: table-budget
-- param: window
-- column: step BIGINT | step number; NULL: the ranks' whole spans
-- column: ranks BIGINT | ranks that recorded it
-- column: runtime_ns BIGINT | the longest window over the ranks
-- column: useful_mean_ns BIGINT | mean over the ranks of the time in which compute ran
-- column: useful_max_ns BIGINT | the largest of these
-- column: load_balance DOUBLE | mean / largest useful time, 0 to 1; NULL without compute or with one rank only
-- column: communication_efficiency DOUBLE | largest useful time / runtime, 0 to 1
-- column: parallel_efficiency DOUBLE | mean useful time / runtime = load_balance * communication_efficiency
-- column: busiest_rank INTEGER | the rank of the largest useful time, the lowest of several
-- column: idlest_rank INTEGER | the rank of the smallest, the lowest of several
-- column: note VARCHAR | why a value is NULL, or which ranks are missing; NULL if there is nothing to say
-- order: step NULLS FIRST
-- caveat: useful time is the union of compute on a rank; communication_efficiency counts all other time as lost, including idle time and copies: breakdown separates them.
-- caveat: ranks that are meant to do different work, as the stages of a pipeline, are measured in the same way.
WITH per_step AS (
    SELECT
        step,
        count(*) AS ranks,
        max(window_ns) AS runtime_ns,
        avg(compute_ns) AS useful_ns,
        max(compute_ns) AS useful_max_ns,
        first(rank ORDER BY compute_ns DESC, rank) AS busiest_rank,
        first(rank ORDER BY compute_ns, rank) AS idlest_rank
    FROM {{ ref('breakdown', window=param('window')) }}
    GROUP BY step
),
worlds AS (
    SELECT max(world_size) AS world_size FROM ranks
)
SELECT
    step,
    ranks,
    runtime_ns,
    CAST(round(useful_ns) AS BIGINT) AS useful_mean_ns,
    useful_max_ns,
    CASE WHEN ranks > 1 THEN tw_ratio(useful_ns, useful_max_ns) END AS load_balance,
    tw_ratio(useful_max_ns, runtime_ns) AS communication_efficiency,
    tw_ratio(useful_ns, runtime_ns) AS parallel_efficiency,
    busiest_rank,
    idlest_rank,
    nullif(concat_ws('; ',
        CASE WHEN ranks = 1 THEN 'one rank has nothing to be balanced with' END,
        CASE WHEN ranks > 1 AND useful_max_ns = 0 THEN 'no compute' END,
        CASE WHEN ranks < world_size THEN ranks || ' of ' || world_size || ' ranks recorded' END
    ), '') AS note
FROM per_step CROSS JOIN worlds
ORDER BY step NULLS FIRST
