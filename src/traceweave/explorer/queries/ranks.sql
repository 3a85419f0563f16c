-- The ranks, and how far their clocks can be trusted.
SELECT r.rank, r.host, r.device, r.gpu_name, r.pid, c.status AS clock, c.residual_p95_ns AS resolution_ns
FROM ranks AS r LEFT JOIN (SELECT DISTINCT ON (rank) * FROM clocks ORDER BY rank, from_local_ns NULLS FIRST) AS c USING (rank)
ORDER BY r.rank
