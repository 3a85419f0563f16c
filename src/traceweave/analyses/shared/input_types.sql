-- shared: input_types | types of numbers that of all ranks only a straggler has among the inputs of what it takes longer for
-- grain: one row per rank that has one, in at least half of its calls, where all ranks recorded types and run it, no rank twice as often as another
-- needs: host_ops, ref('input_calls')
-- column: rank INTEGER | global rank
-- column: name VARCHAR | the operator, or the kernel that it launches
-- column: type VARCHAR | that type, as recorded
WITH typed AS (
    SELECT arguments_hash, type
    FROM (
        SELECT h.arguments_hash, unnest(list_distinct(TRY_CAST(h.args -> 'Input type' AS VARCHAR[]))) AS type
        FROM (SELECT arguments_hash, min(op_id) AS op_id FROM {{ ref('input_calls') }} GROUP BY arguments_hash) AS c JOIN host_ops AS h USING (op_id)
    )
    -- lists and missing tensors are no types of numbers
    WHERE {{ names('element_types', 'lower(type)') }} IS NOT NULL
),
called AS (
    SELECT
        rank, name, sum(n) AS calls,
        count(*) OVER (PARTITION BY name) = (SELECT count(*) FROM ranks) AND max(sum(n)) OVER (PARTITION BY name) < 2 * min(sum(n)) OVER (PARTITION BY name) AS is_common
    FROM {{ ref('input_calls') }}
    GROUP BY rank, name
),
counted AS (
    SELECT rank, name, type, sum(n) AS calls, count(DISTINCT rank) OVER (PARTITION BY name) = (SELECT count(*) FROM ranks) AS is_known
    FROM {{ ref('input_calls') }} JOIN typed USING (arguments_hash)
    GROUP BY rank, name, type
)
SELECT c.rank, c.name, c.type
FROM (FROM counted QUALIFY count(*) OVER (PARTITION BY name, type) = 1) AS c JOIN called AS n USING (rank, name)
WHERE n.is_common AND c.is_known AND 2 * c.calls >= n.calls
QUALIFY row_number() OVER (PARTITION BY c.rank ORDER BY c.calls DESC, c.name, c.type) = 1
