-- What the loaders ask the vocabulary. Tables are long and names repeat: ask each name once where there are many.

-- The file that an op is from: op_ids of one source lie together.
CREATE OR REPLACE TEMP MACRO source_of(op_id) AS CAST(op_id // 1000000000 AS INTEGER);

-- The operation that a collective's or its kernel's name stands for; 'unknown' if it says none.
CREATE OR REPLACE TEMP MACRO collective_op(text) AS coalesce({{ names('collective_ops', 'lower(text)') }}, 'unknown');

-- One rank sends to all others, or receives from them.
CREATE OR REPLACE TEMP MACRO has_root(op) AS op IN ('broadcast', 'reduce', 'gather', 'scatter');

-- Bytes per element of an ATen or C++ type name; NULL if unknown.
CREATE OR REPLACE TEMP MACRO dtype_bytes(dtype) AS CAST({{ names('element_types', 'lower(dtype)') }} AS INTEGER);
