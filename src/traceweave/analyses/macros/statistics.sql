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

-- macro: tw_upper_tail(z) | probability that a normal variable exceeds its mean by z standard deviations or more, to 0.00014 for z >= 0 (Bowling et al., 2009)
CREATE TEMP MACRO IF NOT EXISTS tw_upper_tail(z) AS
    1 / (1 + exp(1.5976 * least(z, 20) + 0.07056 * least(z, 20) ** 3));

-- macro: tw_deviate_of_t(t, freedom) | the standard normal deviate with the same upper tail as Student's t, to some hundredths; 0 below t = 0 (Wallace, 1959)
CREATE TEMP MACRO IF NOT EXISTS tw_deviate_of_t(t, freedom) AS
    (8 * freedom + 1) / (8 * freedom + 3) * sqrt(freedom * ln(1 + greatest(t, 0) ** 2 / freedom));
