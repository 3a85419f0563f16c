-- analysis: settings | versions and switches that the job ran with, and where ranks differ
-- answers: What did the job run with, and is it the same on every rank?
-- topic: overview
-- grain: one row per version or switch and value
-- column: kind VARCHAR | 'version': of the software; 'switch': an environment variable that tells how the job communicates
-- column: name VARCHAR | 'torch', 'NCCL_ALGO' ...
-- column: value VARCHAR | its value; NULL: the ranks that do not have it, where others do
-- column: ranks INTEGER[] | the ranks that have this value
-- column: values BIGINT | different values among the ranks; 1: all that tell have the same
-- order: values DESC, kind DESC, name, value NULLS LAST
-- caveat: needs traces recorded with traceweave.capture, which writes these into them; ranks recorded without it are in no row.
-- caveat: a difference need not be wrong: CUDA_VISIBLE_DEVICES or a network interface may differ from rank to rank on purpose.
WITH ran_with AS (
    SELECT rank, kind, name, value FROM job_settings WHERE kind <> 'measured'
),
told AS (
    SELECT DISTINCT rank FROM ran_with
),
-- a rank that was recorded in several windows says the same each time, or both values count
each AS (
    SELECT DISTINCT t.rank, n.kind, n.name, s.value
    FROM told AS t
    CROSS JOIN (SELECT DISTINCT kind, name FROM ran_with) AS n
    LEFT JOIN ran_with AS s ON s.rank = t.rank AND s.kind = n.kind AND s.name = n.name
)
SELECT
    kind,
    name,
    value,
    list(rank ORDER BY rank) AS ranks,
    count(*) OVER (PARTITION BY kind, name) AS values
FROM each
GROUP BY kind, name, value
ORDER BY values DESC, kind DESC, name, value NULLS LAST
