-- shared: input_shares | how unevenly work is divided, by the shapes of the inputs of what stragglers take longer for
-- grain: one row per rank and operator that all ranks run as often, of whose input it has more than any other rank by a tenth, where shapes are recorded
-- needs: host_ops, ref('input_calls')
-- column: rank INTEGER | global rank
-- column: name VARCHAR | the operator, or the kernel that it launches
-- column: times_mean DOUBLE | elements of the input that is most uneven / the mean over the ranks
-- column: steps VARCHAR | the first and the last step in which it has more of that than the mean, as 'step=' has them; NULL: in all of them
WITH calls AS NOT MATERIALIZED (FROM {{ ref('input_calls') }}),
shapes AS (
    SELECT s.arguments_hash, unnest(s.dims) AS dims, generate_subscripts(s.dims, 1) AS place
    FROM (
        SELECT c.arguments_hash, TRY_CAST(h.args -> 'Input Dims' AS BIGINT[][]) AS dims
        FROM (SELECT arguments_hash, min(op_id) AS op_id FROM calls GROUP BY arguments_hash) AS c JOIN host_ops AS h USING (op_id)
    ) AS s
),
in_steps AS (
    SELECT
        c.rank, c.name, s.place, c.step, sum(c.n) AS calls, sum(c.n * list_product(s.dims)) AS elements,
        elements > avg(elements) OVER (PARTITION BY c.name, s.place, c.step) AS is_more
    FROM calls AS c JOIN shapes AS s USING (arguments_hash)
    WHERE len(s.dims) > 0
    GROUP BY c.rank, c.name, s.place, c.step
),
totals AS (
    SELECT
        rank, name, place, sum(calls) AS calls, sum(elements) AS elements,
        CASE WHEN count(step) FILTER (is_more) < count(step) THEN min(step) FILTER (is_more) || '-' || max(step) FILTER (is_more) END AS steps
    FROM in_steps
    GROUP BY rank, name, place
),
shares AS (
    SELECT
        rank, name, steps, elements / nullif(avg(elements) OVER over_ranks, 0) AS times_mean,
        min(calls) OVER over_ranks = max(calls) OVER over_ranks AND count(*) OVER over_ranks = (SELECT count(*) FROM ranks) AS is_alike,
        -- who has as much and is not late shows that this is not why
        max(elements, 2) OVER over_ranks AS largest,
        elements = largest[1] AND elements >= 1.1 * largest[2] AS is_most
    FROM totals
    WINDOW over_ranks AS (PARTITION BY name, place)
)
SELECT rank, name, max(times_mean) AS times_mean, arg_max(steps, times_mean) AS steps FROM shares WHERE is_alike AND is_most GROUP BY rank, name
