-- shared: stages_held | the stages of an interleaved pipeline that a rank has, as torch's ranges name what it does
-- grain: one row per rank with several stages
-- needs: host_ops
-- column: rank INTEGER | global rank
-- column: held BIGINT[] | its stages, in order
-- column: last BIGINT | the last stage of all
SELECT rank, list_sort(list(DISTINCT stage)) AS held, max(held[-1]) OVER () AS last
FROM host_ops JOIN (
    -- stage, F for forward, micro-batch
    SELECT name, CAST(regexp_extract(name, '^PP:(\d+)F', 1) AS BIGINT) AS stage FROM tw_range_names WHERE regexp_matches(name, '^PP:\d+F\d+$')
) AS n USING (name)
GROUP BY rank
HAVING len(held) > 1
