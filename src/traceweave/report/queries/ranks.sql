-- Every rank with what it ran on, and whether it recorded work on a GPU.
SELECT
    r.rank,
    r.host,
    r.device,
    r.gpu_name,
    r.world_size,
    r.backend,
    r.nccl_version,
    r.format,
    r.windows,
    r.rank_source,
    r.last_local_ns - r.first_local_ns AS recorded_ns,
    r.rank IN (SELECT DISTINCT rank FROM base.gpu_ops) AS has_gpu
FROM ranks AS r
ORDER BY r.rank
