-- shared: mean_step | the mean step of a run, which costs are shares of
-- grain: one row; none if there is no step worth the name
-- column: ranks BIGINT | ranks with steps
-- column: steps BIGINT | different steps; 0 where whole recordings count as one
-- column: windows BIGINT | ranks times their steps
-- column: length_ns DOUBLE | mean length of a step as the analysis steps has it, which is what replay shortens
-- column: step_ns DOUBLE | mean window of a step; this and the following are means over windows
-- column: compute_ns DOUBLE | time in which compute ran
-- column: overlap_ns DOUBLE | time in which compute and communication both ran
-- column: exposed_comm_ns DOUBLE | time in which communication ran and compute did not
-- column: exposed_wait_ns DOUBLE | of that, time in which ranks waited for each other
-- column: exposed_memory_ns DOUBLE | time in which only copies or memsets ran
-- column: unit VARCHAR | 'step', or 'recording' where no step is marked
-- column: each_unit VARCHAR | 'Each step', or 'The recording'
-- column: has_steps BOOLEAN | whether steps are marked
-- column: has_gpu BOOLEAN | whether the times are those of GPUs
SELECT
    count(DISTINCT rank) AS ranks,
    count(DISTINCT step) AS steps,
    count(*) AS windows,
    coalesce((SELECT mean_ns FROM {{ ref('steadiness') }}), avg(window_ns)) AS length_ns,
    avg(window_ns) AS step_ns,
    avg(compute_ns) AS compute_ns,
    avg(overlap_ns) AS overlap_ns,
    avg(exposed_comm_ns) AS exposed_comm_ns,
    avg(exposed_wait_ns) AS exposed_wait_ns,
    avg(exposed_memory_ns) AS exposed_memory_ns,
    CASE WHEN any_value(has_steps) THEN 'step' ELSE 'recording' END AS unit,
    CASE WHEN any_value(has_steps) THEN 'Each step' ELSE 'The recording' END AS each_unit,
    any_value(has_steps) AS has_steps,
    any_value(timeline) = 'gpu' AS has_gpu
FROM {{ ref('budget') }}
-- shorter than 10 us a step is none, and a recording shorter than a millisecond says nothing about a training run
HAVING avg(window_ns) >= CASE WHEN any_value(has_steps) THEN 10000 ELSE 1000000 END
