-- Variances, moments, covariances and regressions

-- numbers: encrypted x 4
SELECT VAR_SAMP(mid), VAR_POP(mid), STDDEV_SAMP(mid), STDDEV_POP(mid) FROM numbers;

-- numbers: encrypted x 4
SELECT VARIANCE(x), STDDEV(x), VAR_POP(x), STDDEV_POP(x) FROM numbers;

-- numbers: key, encrypted, encrypted, encrypted
SELECT g, VAR_SAMP(price), STDDEV_SAMP(x), VAR_POP(tiny) FROM numbers GROUP BY g ORDER BY g;

-- numbers: encrypted, encrypted
SELECT STDDEV(real), VAR_POP(real) FROM numbers;

-- numbers: encrypted, encrypted
SELECT STDDEV(big), VAR_POP(big) FROM numbers;

-- numbers: encrypted, encrypted
SELECT STDDEV(extreme), VAR_POP(extreme) FROM numbers WHERE abs(extreme) < 1e100;

-- numbers: encrypted, encrypted
SELECT SKEWNESS(x), SKEWNESS(mid) FROM numbers;

-- numbers: encrypted x 4
SELECT KURTOSIS(x), KURTOSIS_POP(x), KURTOSIS(price), KURTOSIS_POP(price) FROM numbers;

-- numbers: key, encrypted, encrypted, encrypted
SELECT g, SKEWNESS(x), KURTOSIS(x), KURTOSIS_POP(x) FROM numbers GROUP BY g ORDER BY g;

-- numbers: encrypted, encrypted
SELECT SEM(x), SEM(mid) FROM numbers;

-- numbers: key, encrypted
SELECT g, SEM(price) FROM numbers GROUP BY g ORDER BY g;

-- numbers: encrypted, encrypted, encrypted
SELECT COVAR_SAMP(x, y), COVAR_POP(x, y), CORR(x, y) FROM numbers;

-- numbers: key, encrypted, encrypted, encrypted
SELECT g, COVAR_SAMP(x, y), COVAR_POP(x, y), CORR(x, y) FROM numbers GROUP BY g ORDER BY g;

-- numbers: encrypted, encrypted, encrypted
SELECT COVAR_SAMP(mid, price), COVAR_POP(mid, price), CORR(mid, price) FROM numbers;

-- numbers: encrypted, encrypted, encrypted
SELECT COVAR_SAMP(h, x), COVAR_POP(x, h), CORR(x, h) FROM numbers;

-- numbers: encrypted, encrypted
SELECT CORR(x, x), CORR(y, -y) FROM numbers;

-- numbers: encrypted, encrypted, encrypted
SELECT REGR_COUNT(y, x), REGR_AVGX(y, x), REGR_AVGY(y, x) FROM numbers;

-- numbers: encrypted, encrypted, encrypted
SELECT REGR_SXX(y, x), REGR_SXY(y, x), REGR_SYY(y, x) FROM numbers;

-- numbers: encrypted, encrypted, encrypted
SELECT REGR_SLOPE(y, x), REGR_INTERCEPT(y, x), REGR_R2(y, x) FROM numbers;

-- numbers: key, encrypted, encrypted, encrypted
SELECT g, REGR_SLOPE(y, x), REGR_INTERCEPT(y, x), REGR_R2(y, x) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted x 6
SELECT g, REGR_COUNT(mid, price), REGR_AVGX(mid, price), REGR_AVGY(mid, price), REGR_SXX(mid, price), REGR_SXY(mid,
  price), REGR_SYY(mid, price)
FROM numbers GROUP BY g ORDER BY g;

-- numbers: encrypted, encrypted, encrypted
SELECT REGR_SLOPE(x, h), REGR_INTERCEPT(h, x), REGR_R2(x, fee) FROM numbers;

-- numbers: encrypted
SELECT CORR(x, y) FILTER (WHERE ok) FROM numbers;

-- numbers: key, encrypted
SELECT ok, REGR_SLOPE(y, x) FILTER (WHERE mid > 0) FROM numbers GROUP BY ok ORDER BY ok;

-- numbers: encrypted
SELECT SQRT(VAR_POP(x)) / AVG(price) FROM numbers;

-- numbers: encrypted
SELECT CORR(x, y) * CORR(x, y) FROM numbers;

-- numbers: key, encrypted
SELECT g, STDDEV(price) / AVG(price) AS cv FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted
SELECT g, AVG(x) - 1.96 * STDDEV(x) / SQRT(COUNT(x)) AS lower FROM numbers GROUP BY g ORDER BY g;

-- numbers: plain x 5
SELECT VAR_SAMP(p), STDDEV_POP(h), SKEWNESS(h), KURTOSIS(fee), CORR(h, fee) FROM numbers;

-- numbers: key, plain, plain
SELECT g, REGR_SLOPE(h, fee), COVAR_POP(h, fee) FROM numbers GROUP BY g ORDER BY g;

-- numbers: plain, plain
SELECT SEM(h), GEOMEAN(h + 1) FROM numbers;

-- numbers: encrypted x 4
SELECT VAR_SAMP(mid * tiny), STDDEV(x - y), SKEWNESS(x * 2), CORR(x + y, x - y) FROM numbers;

-- numbers: key, plain, plain, encrypted
SELECT g, COUNT(*), STDDEV(h), STDDEV(mid) FROM numbers GROUP BY g HAVING COUNT(*) > 10 ORDER BY g;

-- numbers: encrypted
SELECT VAR_POP(flag::INT) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SKEWNESS(5 + 0 * mid), KURTOSIS(5 + 0 * mid) FROM numbers;

-- numbers: encrypted, encrypted, encrypted
SELECT CORR(5 + 0 * mid, mid), REGR_SLOPE(mid, 5 + 0 * mid), REGR_R2(5 + 0 * mid, mid) FROM numbers;
