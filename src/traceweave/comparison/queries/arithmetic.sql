-- In which types of numbers most of the arithmetic is done, the most used first; `rows` holds the rows of the analysis op_work.
-- A type with less than a tenth of it says nothing of the run.
SELECT dtype
FROM rows
WHERE dtype IS NOT NULL
GROUP BY dtype
HAVING sum(flops * calls) >= 0.1 * (SELECT sum(flops * calls) FROM rows)
ORDER BY sum(flops * calls) DESC, dtype
