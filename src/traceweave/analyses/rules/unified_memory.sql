-- rule: unified_memory | pages of managed memory that migrate
-- topic: idling and copies
-- finds: Copies of unified (managed) memory between host and GPU, which the driver makes when a page is accessed where it does not reside: kernels wait for them. Cost: time in which they run, at most. Only nsys records them.
-- try: Prefetch with `cudaMemPrefetchAsync`, advise with `cudaMemAdvise`, or copy explicitly.
-- proof: copies
-- shows: ops memory
WITH migrations AS (
    SELECT rank, sum(time_ns) AS time_ns, sum(bytes) AS bytes, sum(count) AS copies
    FROM {{ ref('copies') }}
    WHERE starts_with(copy_kind, 'UVM')
    GROUP BY rank
)
SELECT
    format('Copies of managed memory run {} per {}', tw_time(sum(m.time_ns / r.windows) / any_value(s.ranks)), any_value(s.unit)) AS title,
    'ops memory ' || (SELECT tw_of_names(list(name)) FROM gpu_ops WHERE starts_with(copy_kind, 'UVM')) AS shows,
    sum(m.time_ns / r.windows) / any_value(s.ranks) AS cost_ns,
    format('Pages of managed memory migrate for {} per {}: {} in {}', tw_time(sum(m.time_ns / r.windows) / any_value(s.ranks)), any_value(s.unit),
        tw_size(sum(m.bytes / r.windows) / any_value(s.ranks)), tw_about(sum(m.copies / r.windows) / any_value(s.ranks), 'migration')) AS evidence,
    'Prefetch data before its use (cudaMemPrefetchAsync), advise its location (cudaMemAdvise), or copy it explicitly' AS advice
FROM migrations AS m JOIN {{ ref('rank_windows') }} AS r USING (rank) CROSS JOIN {{ ref('mean_step') }} AS s
HAVING count(*) > 0
