-- Who made the others wait, and why; `rows` holds the rows of the analysis stragglers.
SELECT rank, caused_wait_ns, resolved_wait_ns, concat_ws(': ', cause, cause_detail) AS cause
FROM rows
ORDER BY rank
