-- What the statements about collectives share.

-- The process groups that a rank's file lists. The list of a merged file is one rank's: it says of another only what both are in.
CREATE OR REPLACE TEMP VIEW known_groups AS
SELECT s.rank, g.*
FROM new_groups AS g JOIN new_source AS s USING (source_id)
WHERE NOT s.is_merged OR list_contains(g.ranks, s.rank);

-- Those that are the only ones of their file.
CREATE OR REPLACE TEMP VIEW only_groups AS
FROM known_groups WHERE source_id IN (SELECT source_id FROM new_groups GROUP BY source_id HAVING count(*) = 1);

-- Who a rank's calls are with where no label says it, as all groups of its file have the same members; one of a rank alone has no calls.
CREATE OR REPLACE TEMP VIEW only_members AS
SELECT rank, any_value(list_sort(ranks)) AS ranks
FROM known_groups
WHERE coalesce(size, len(ranks), 2) > 1
GROUP BY rank
HAVING count(*) = count(ranks) AND count(DISTINCT list_sort(ranks)) = 1;

-- Element count of the first tensor of an operation: shapes are recorded as [[4, 2048], ...] or, for lists,
-- [[[4, 2048]], ...]; a scalar has the shape [].
CREATE OR REPLACE TEMP MACRO elements(shape) AS CASE WHEN len(shape) = 0 THEN 1 WHEN list_min(shape) >= 0 THEN TRY_CAST(list_product(shape) AS BIGINT) END;

CREATE OR REPLACE TEMP MACRO first_tensor_elements(args) AS elements(coalesce(
    TRY_CAST(json_extract(args, '$."Input Dims"[0][0]') AS BIGINT[]),
    TRY_CAST(json_extract(args, '$."Input Dims"[0]') AS BIGINT[])
));

-- The same of the input of a call of c10d: it comes after the output, where it is not also that.
CREATE OR REPLACE TEMP MACRO input_elements(args) AS coalesce(
    elements(coalesce(
        TRY_CAST(json_extract(args, '$."Input Dims"[1][0]') AS BIGINT[]),
        nullif(TRY_CAST(json_extract(args, '$."Input Dims"[1]') AS BIGINT[]), [])
    )),
    first_tensor_elements(args)
);

-- Whether a `record_param_comms` is of a send or a receive.
CREATE OR REPLACE TEMP MACRO is_message(args) AS json_extract_string(args, '$."Collective name"') IN ('send', 'recv');

-- The number of a call in its group. Where it is missing, the id that all members make of it, the group's name and size stands for it:
-- an unsigned 64-bit integer, of which 63 bits tell as much.
CREATE OR REPLACE TEMP MACRO call_number(keys) AS coalesce(
    CASE WHEN TRY_CAST(keys.Seq AS BIGINT) >= 0 THEN TRY_CAST(keys.Seq AS BIGINT) END,
    CAST(TRY_CAST(keys."Comms Id" AS UBIGINT) & 9223372036854775807::UBIGINT AS BIGINT)
);
