-- shared: rank_windows | the ranks that the time budget is of
-- grain: one row per rank
-- column: rank INTEGER | global rank
-- column: windows BIGINT | its steps
SELECT rank, any_value(windows) AS windows FROM {{ ref('budget') }} GROUP BY rank
