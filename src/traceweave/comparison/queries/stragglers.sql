-- Who made the others wait, and why; `rows` holds the rows of the analysis stragglers.
SELECT rank, origin_wait_ns, concat_ws(': ', cause, cause_detail) AS cause
FROM rows
ORDER BY rank
