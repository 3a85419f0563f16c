-- shared: pipeline_stages | the chains that ranks form by sending to each other
-- grain: one row per rank that is in one chain
-- needs: ref('pipeline_links')
-- column: rank INTEGER | global rank
-- column: first_rank INTEGER | the rank of the first stage: identifies the pipeline
-- column: last_rank INTEGER | that of the last one
-- column: stage INTEGER | place in the pipeline, from 0
-- column: shared_stage INTEGER | stage, where another rank is in that stage of any pipeline: stages have other layers, so that a rank is like those of its own; else NULL
-- column: stages INTEGER | how many it has
-- column: is_chain BOOLEAN | no two ranks share a stage
-- column: is_whole BOOLEAN | every stage was recorded
WITH RECURSIVE members AS (
    SELECT from_rank AS rank FROM {{ ref('pipeline_links') }} UNION SELECT to_rank FROM {{ ref('pipeline_links') }}
),
chains AS (
    SELECT rank AS first_rank, rank, 0 AS stage
    FROM members WHERE rank NOT IN (SELECT to_rank FROM {{ ref('pipeline_links') }})
    UNION
    SELECT c.first_rank, l.to_rank, c.stage + 1
    FROM chains AS c JOIN {{ ref('pipeline_links') }} AS l ON l.from_rank = c.rank
    WHERE c.stage < (SELECT count(*) FROM members)
),
placed AS MATERIALIZED (
    SELECT first_rank, rank, max(stage) AS stage
    FROM chains
    GROUP BY first_rank, rank
    -- a chain is a chain: one first stage, and no stage with two ranks
    QUALIFY count(*) OVER (PARTITION BY rank) = 1
)
SELECT
    rank,
    first_rank,
    arg_max(rank, stage) OVER pipeline AS last_rank,
    stage,
    CASE WHEN count(*) OVER (PARTITION BY stage) > 1 THEN stage END AS shared_stage,
    max(stage) OVER pipeline + 1 AS stages,
    count(*) OVER pipeline = max(stage) OVER pipeline + 1 AS is_chain,
    bool_and(rank IN (SELECT rank FROM tw_timelines)) OVER pipeline AS is_whole
FROM placed
WINDOW pipeline AS (PARTITION BY first_rank)
