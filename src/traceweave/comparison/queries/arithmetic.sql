-- In which types of numbers most of the arithmetic is done, the most used first; `rows` holds the rows of the analysis op_work.
-- A type with less than a tenth of it says nothing of the run. `step_flops`: how much a rank does in its usual step.
WITH each_step AS (
    SELECT sum(flops * calls) AS flops FROM rows WHERE step IS NOT NULL GROUP BY rank, step
)
SELECT dtype, (SELECT CAST(median(flops) AS DOUBLE) FROM each_step) AS step_flops
FROM rows
WHERE dtype IS NOT NULL
GROUP BY dtype
HAVING sum(flops * calls) >= 0.1 * (SELECT sum(flops * calls) FROM rows)
ORDER BY sum(flops * calls) DESC, dtype
