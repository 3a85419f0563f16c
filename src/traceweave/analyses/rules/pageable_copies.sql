-- rule: pageable_copies | copies from pageable memory
-- topic: idling and copies
-- finds: Copies between the GPU and pageable memory that compute does not hide; mean over the ranks.
-- try: `pin_memory=True` with `non_blocking=True`.
-- proof: copies
-- shows: ops memory
WITH named AS (
    SELECT op_id, name, tw_host_memory(name, NULL) AS memory FROM gpu_ops WHERE kind = 'memcpy'
),
memories AS (
    SELECT DISTINCT name, memory FROM named WHERE memory IS NOT NULL
    UNION
    -- arguments only where the name does not tell: reading them takes longer than all the rest
    SELECT name, tw_host_memory(NULL, args) FROM gpu_ops WHERE op_id IN (SELECT op_id FROM named WHERE memory IS NULL)
),
-- Kineto's names say what memory it is; those of nsys do not, and can stand for it where all copies of the name are pageable
names AS (
    SELECT
        CASE
            WHEN bool_and(contains(name, 'Pageable')) THEN 'kind=copy name=*Pageable* times=0'
            WHEN bool_and(is_all) THEN string_agg(format('kind=copy name={} times=0', replace(name, ' ', '*')), '; ' ORDER BY name)
        END AS scenario,
        tw_of_names(list(name)) AS selectors
    FROM (
        SELECT name, bool_and(coalesce(memory = 'pageable', FALSE)) AS is_all
        FROM memories
        GROUP BY name
        HAVING bool_or(memory = 'pageable')
    )
),
pageable AS (
    SELECT
        c.rank,
        sum(c.time_ns - c.compute_overlap_ns) / any_value(r.windows) AS exposed_ns,
        coalesce(sum(c.time_ns - c.compute_overlap_ns) FILTER (WHERE c.copy_kind = 'DtoH'), 0) / any_value(r.windows) AS read_ns,
        sum(c.bytes) / any_value(r.windows) AS bytes,
        sum(c.bytes) / sum(c.time_ns) AS rate_gbps
    FROM {{ ref('copies') }} AS c JOIN {{ ref('rank_windows') }} AS r USING (rank)
    WHERE c.host_memory = 'pageable'
    GROUP BY c.rank
)
SELECT
    'Copies between the GPU and pageable memory run without compute' AS title,
    sum(p.exposed_ns) / any_value(s.ranks) AS cost_ns,
    any_value(n.scenario) AS scenario,
    'ops memory ' || any_value(n.selectors) AS shows,
    format('Copies between the GPU and pageable memory take {} per {} without compute: {} at {} GB/s',
        tw_time(sum(p.exposed_ns) / any_value(s.ranks)), any_value(s.unit), tw_size(avg(p.bytes)), tw_digits(avg(p.rate_gbps))) AS evidence,
    CASE
        WHEN any_value(g.is_torch) AND 2 * sum(p.read_ns) > sum(p.exposed_ns)
            THEN 'Keep the data on the GPU, and read it less often, in one piece; into pinned memory with copy_(..., non_blocking=True)'
        WHEN any_value(g.is_torch) THEN 'pin_memory=True and .to(device, non_blocking=True); keep the data on the GPU'
        ELSE 'Copy from pinned memory (cudaMallocHost, cudaHostRegister) with cudaMemcpyAsync; keep the data on the GPU'
    END AS advice
FROM pageable AS p CROSS JOIN {{ ref('mean_step') }} AS s CROSS JOIN {{ ref('program') }} AS g CROSS JOIN names AS n
HAVING count(*) > 0
