-- The class of each name of the staged GPU ops: classified (kind, name, category, class). Input: new_gpu_ops.

-- Names are few, ops are many: classify each name once.
CREATE OR REPLACE TEMP TABLE classified AS
SELECT kind, name, gpu_category(kind, name) AS category, gpu_class(kind, name) AS class
FROM (SELECT DISTINCT kind, name FROM new_gpu_ops);
