-- What the loader's statements share.

-- Element count of the first tensor of an operation: shapes are recorded as [[4, 2048], ...] or, for lists,
-- [[[4, 2048]], ...]; a scalar has the shape [].
CREATE OR REPLACE TEMP MACRO elements(shape) AS CASE WHEN len(shape) = 0 THEN 1 WHEN list_min(shape) >= 0 THEN TRY_CAST(list_product(shape) AS BIGINT) END;

CREATE OR REPLACE TEMP MACRO first_tensor_elements(args) AS elements(coalesce(
    TRY_CAST(json_extract(args, '$."Input Dims"[0]') AS BIGINT[]),
    TRY_CAST(json_extract(args, '$."Input Dims"[0][0]') AS BIGINT[])
));
