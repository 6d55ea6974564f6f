-- Groups of one row and of two

-- singles: key, encrypted, encrypted, encrypted
SELECT k, SUM(x), AVG(x), COUNT(x) FROM singles GROUP BY k ORDER BY k;

-- singles: key, encrypted, encrypted, encrypted
SELECT k, SUM(n), AVG(n), COUNT(n) FROM singles GROUP BY k ORDER BY k;

-- singles: key, encrypted, encrypted
SELECT k, SUM(d), AVG(d) FROM singles GROUP BY k ORDER BY k;

-- singles: key, encrypted, encrypted
SELECT k, VAR_SAMP(x), STDDEV_SAMP(x) FROM singles GROUP BY k ORDER BY k;

-- singles: key, encrypted, encrypted
SELECT k, VAR_POP(x), STDDEV_POP(n) FROM singles GROUP BY k ORDER BY k;

-- singles: key, encrypted, encrypted
SELECT k, SKEWNESS(x), KURTOSIS(x) FROM singles GROUP BY k ORDER BY k;

-- singles: key, encrypted
SELECT k, KURTOSIS_POP(x) FROM singles GROUP BY k ORDER BY k;

-- singles: key, encrypted, encrypted
SELECT k, COVAR_SAMP(x, n), COVAR_POP(x, n) FROM singles GROUP BY k ORDER BY k;

-- singles: key, encrypted
SELECT k, CORR(x, n) FROM singles GROUP BY k ORDER BY k;

-- singles: key, encrypted, encrypted, encrypted
SELECT k, REGR_SLOPE(x, n), REGR_INTERCEPT(x, n), REGR_R2(x, n) FROM singles GROUP BY k ORDER BY k;

-- singles: key, encrypted
SELECT k, SEM(x) FROM singles GROUP BY k ORDER BY k;

-- singles: key, encrypted
SELECT k, PRODUCT(x) FROM singles GROUP BY k ORDER BY k;

-- singles: key, encrypted
SELECT k, GEOMEAN(abs(x) + 1) FROM singles GROUP BY k ORDER BY k;

-- singles: key, encrypted, encrypted, encrypted
SELECT pair, SUM(x), VAR_SAMP(x), STDDEV_POP(n) FROM singles GROUP BY pair ORDER BY pair;

-- singles: key, encrypted, encrypted
SELECT pair, COVAR_SAMP(x, n), REGR_SLOPE(x, n) FROM singles GROUP BY pair ORDER BY pair;

-- singles: key, encrypted, encrypted
SELECT pair, SKEWNESS(n), KURTOSIS(n) FROM singles GROUP BY pair ORDER BY pair;

-- singles: key, key, encrypted, encrypted
SELECT k, word, SUM(x), SUM(d) FROM singles GROUP BY k, word ORDER BY k;

-- singles: key, local, local
SELECT k, MIN(x), MEDIAN(n) FROM singles GROUP BY k ORDER BY k;

-- singles: key, encrypted
SELECT k, SUM(x) FROM singles GROUP BY k ORDER BY SUM(x) DESC LIMIT 3;

-- singles: key, encrypted
SELECT k, SUM(n) FROM singles GROUP BY k HAVING SUM(n) > 0 ORDER BY k;

-- singles: key, plain
SELECT word, MAX(k) FROM singles GROUP BY word ORDER BY word;

-- singles: key, encrypted, encrypted
SELECT k, BOOL_AND(x > 0), COUNT_IF(x > 0) FROM singles GROUP BY k ORDER BY k;

-- singles: encrypted, encrypted
SELECT SUM(x), VAR_SAMP(x) FROM singles WHERE k = 3;

-- singles: encrypted x 4
SELECT CORR(x, n), SKEWNESS(x), REGR_R2(x, n), VAR_SAMP(n) FROM singles WHERE k = 3;

-- singles: key, encrypted
SELECT n, SUM(x) FROM singles GROUP BY n ORDER BY n;

-- singles: key, local
SELECT k, LIST(d) FROM singles GROUP BY k ORDER BY k;
