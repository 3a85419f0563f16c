-- Every process group, with the collective calls that it carried.
SELECT
    g.group_id,
    g.name,
    g.description,
    g.role,
    g.size,
    g.ranks,
    coalesce(k.calls, 0) AS calls
FROM groups AS g
LEFT JOIN (SELECT group_id, count(*) AS calls FROM collectives GROUP BY group_id) AS k USING (group_id)
ORDER BY g.group_id
