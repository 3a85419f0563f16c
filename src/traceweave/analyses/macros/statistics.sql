-- Statistics whose definition must be the same wherever they appear.

-- macro: tw_percentile(value, fraction) | nearest-rank percentile of a group: the smallest value that at least this fraction of the values does not exceed; always one of the values, NULLs left out, NULL if there are none
CREATE TEMP MACRO IF NOT EXISTS tw_percentile(value, fraction) AS
    quantile_disc(value, fraction);

-- macro: tw_ratio(part, whole) | part / whole as DOUBLE; NULL if whole is 0 or NULL
CREATE TEMP MACRO IF NOT EXISTS tw_ratio(part, whole) AS
    part / nullif(whole, 0);

-- macro: tw_bytes_from(bytes) | lower end of the power-of-two size bucket: the largest power of two that is not above bytes; 0 for 0, NULL if unknown
CREATE TEMP MACRO IF NOT EXISTS tw_bytes_from(bytes) AS
    CASE WHEN bytes > 0 THEN 1::BIGINT << (length(bin(bytes)) - 1) ELSE bytes END;

-- macro: tw_bytes_to(bytes) | upper end of the power-of-two size bucket, not part of it
CREATE TEMP MACRO IF NOT EXISTS tw_bytes_to(bytes) AS
    CASE WHEN bytes > 0 THEN 1::BIGINT << length(bin(bytes)) ELSE bytes + 1 END;
