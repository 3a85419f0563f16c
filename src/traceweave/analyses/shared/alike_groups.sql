-- shared: alike_groups | process groups that do the same for other ranks, as all tensor-parallel ones do: what is wrong with one is mended with the others
-- grain: one row per process group
-- column: group_id INTEGER | the group
-- column: kind INTEGER | the first of those that are as large, have its role and description, and no rank in common; itself where there are none
WITH members AS (
    SELECT group_id, (size, role, coalesce(description, '')) AS sort, unnest(coalesce(ranks, [NULL])) AS rank FROM groups
),
apart AS (
    SELECT sort, min(group_id) AS kind FROM members GROUP BY sort HAVING count(*) = count(DISTINCT rank)
)
SELECT g.group_id, coalesce(a.kind, g.group_id) AS kind
FROM groups AS g LEFT JOIN apart AS a ON a.sort = (g.size, g.role, coalesce(g.description, ''))
