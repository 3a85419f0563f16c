-- shared: longest_stage | the stage of a pipeline that computes longer than the others, which keep its pace
-- grain: one row per number of stages; none where all compute about as long
-- needs: ref('pipeline')
-- param: unequal_stages DOUBLE = 0.1 | a pipeline is unequal if one stage computes longer than the mean of its stages by this share
-- column: stages BIGINT | how many stages
-- column: stage BIGINT | the longest
-- column: ranks INTEGER[] | its ranks
-- column: busy_ns DOUBLE | its compute per step: of a stage that of its fastest rank, which has nothing else on top of it
-- column: mean_ns DOUBLE | the mean of all stages
-- column: cost_ns DOUBLE | how much shorter the pipeline is if all take that: M - 1 times for M micro-batches what the longest stage takes for one, and once what each takes
-- column: scenario VARCHAR | that, for what-if
WITH measured AS (
    SELECT step, stages, stage, min(busy_ns) AS busy_ns, max(microbatches) AS microbatches, list(rank) AS ranks
    FROM {{ ref('pipeline') }}
    WHERE busy_ns IS NOT NULL
    GROUP BY step, stages, stage
),
compared AS (
    SELECT
        stages,
        stage,
        avg(busy_ns) AS busy_ns,
        avg(microbatches) AS microbatches,
        list_sort(list_distinct(flatten(list(ranks)))) AS ranks,
        avg(avg(busy_ns)) OVER (PARTITION BY stages) AS mean_ns
    FROM measured
    GROUP BY stages, stage
)
SELECT
    stages,
    arg_max(stage, busy_ns) AS stage,
    arg_max(ranks, busy_ns) AS ranks,
    max(busy_ns) AS busy_ns,
    any_value(mean_ns) AS mean_ns,
    (max(busy_ns) - any_value(mean_ns)) * (max(microbatches) - 1) / max(microbatches) AS cost_ns,
    string_agg(format('rank={} kind=compute times={:.4f}', array_to_string(ranks, ','), mean_ns / busy_ns), '; ' ORDER BY stage) AS scenario
FROM compared
GROUP BY stages
HAVING max(microbatches) > 1 AND max(busy_ns) >= (1 + {{ param('unequal_stages') }}) * any_value(mean_ns)
