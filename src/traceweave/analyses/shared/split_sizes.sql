-- shared: split_sizes | how unevenly all_to_all divides the work, by the sizes that were recorded
-- grain: one row per rank of which sizes are known
-- needs: collectives
-- column: rank INTEGER | global rank
-- column: times_mean DOUBLE | what it receives (or, where that is even, sends back) in these collectives / the mean over their ranks
SELECT rank, avg(times_mean) AS times_mean
FROM (
    SELECT
        rank,
        greatest(
            received / nullif(avg(received) OVER (PARTITION BY collective_id), 0),
            sent / nullif(avg(sent) OVER (PARTITION BY collective_id), 0)
        ) AS times_mean
    FROM (
        SELECT
            k.rank, k.collective_id,
            coalesce(
                TRY_CAST(g.args->>'Out msg nelems' AS DOUBLE),
                CASE WHEN h.name = 'c10d::alltoall_base_' THEN TRY_CAST(json_extract_string(h.args, '$."Input Dims"[0][0]') AS DOUBLE) END
            ) AS received,
            -- gloo tells what a rank sends
            coalesce(TRY_CAST(g.args->>'In msg nelems' AS DOUBLE), k.bytes) AS sent
        FROM collectives AS k LEFT JOIN gpu_ops AS g ON g.op_id = k.gpu_op_id LEFT JOIN host_ops AS h ON h.op_id = k.host_op_id
        WHERE k.op = 'all_to_all' AND k.collective_id IS NOT NULL
    )
)
WHERE times_mean IS NOT NULL
GROUP BY rank
