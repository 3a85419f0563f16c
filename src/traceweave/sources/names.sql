-- The kinds and names of staged host ops, which are many of few names: what names mean is asked once of each. `part` is what of a
-- collective a range stands for: 'device', 'host', 'operator', 'issue', 'wait' or 'library'; NULL for other ranges. Input: new_host_ops.
CREATE OR REPLACE TEMP TABLE host_names AS
SELECT kind, name, CASE WHEN kind IN ('op', 'annotation', 'nvtx') THEN {{ names('collective_ranges', 'name') }} END AS part
FROM (SELECT DISTINCT kind, name FROM new_host_ops);
