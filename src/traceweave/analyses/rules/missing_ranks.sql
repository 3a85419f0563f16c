-- rule: missing_ranks | ranks that were not recorded
-- topic: what costs no time
-- finds: Fewer ranks recorded than the job has.
-- proof: pop
SELECT
    format('{} of {} ranks were recorded', count(*), max(world_size)) AS title,
    format('{} of {} ranks recorded: waiting for the missing ranks cannot be attributed', count(*), max(world_size)) AS evidence,
    'Record every rank' AS advice
FROM ranks
HAVING count(*) < max(world_size)
