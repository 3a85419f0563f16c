-- Every process group, with the collective calls that it carried.
SELECT
    g.group_id,
    g.name,
    g.description,
    g.role,
    g.size,
    g.ranks,
    count(k.call_id) AS calls
FROM groups AS g LEFT JOIN collectives AS k USING (group_id)
GROUP BY ALL
ORDER BY g.group_id
