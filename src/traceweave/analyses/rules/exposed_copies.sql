-- rule: exposed_copies | copies that run alone
-- topic: idling and copies
-- finds: Other copies and memsets with neither compute nor communication at the same time.
-- try: A separate stream, or fewer copies.
-- proof: copies
SELECT
    s.exposed_memory_ns - coalesce(p.cost_ns, 0) AS cost_ns,
    CASE WHEN p.cost_ns IS NULL THEN 'kind=copy times=0' END AS scenario,
    format('Copies and memsets run alone for {} per {}', tw_time(s.exposed_memory_ns - coalesce(p.cost_ns, 0)), s.unit) AS evidence,
    'Move them to a separate stream, or avoid them' AS advice
FROM shared_mean_step() AS s LEFT JOIN rule_pageable_copies() AS p ON TRUE
