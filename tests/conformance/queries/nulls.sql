-- NULLs: columns, groups and keys of nothing but NULL

-- gaps: encrypted x 4
SELECT SUM(void), COUNT(void), AVG(void), STDDEV(void) FROM gaps;

-- gaps: encrypted x 4
SELECT SUM(hollow), COUNT(hollow), AVG(hollow), STDDEV(hollow) FROM gaps;

-- gaps: key, encrypted x 4
SELECT g, SUM(hollow), COUNT(hollow), AVG(hollow), STDDEV(hollow) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, encrypted, encrypted, encrypted
SELECT g, SUM(void), PRODUCT(void), VAR_POP(void) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, encrypted, encrypted
SELECT g, CORR(hollow, sparse), COVAR_SAMP(hollow, sparse) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, encrypted, encrypted, encrypted
SELECT g, REGR_COUNT(hollow, sparse), REGR_SLOPE(hollow, sparse), REGR_AVGX(hollow, sparse)
FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, encrypted, encrypted
SELECT g, SKEWNESS(hollow), KURTOSIS(hollow) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, encrypted, encrypted
SELECT g, BOOL_AND(maybe), BOOL_OR(maybe) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, encrypted, encrypted
SELECT g, COUNT_IF(maybe), COUNT_IF(void > 0) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, encrypted, encrypted
SELECT g, GEOMEAN(abs(sparse) + 1), SEM(sparse) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, encrypted, encrypted
SELECT g, FSUM(hollow), FAVG(hollow) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, encrypted
SELECT g, SUM(sparse) FROM gaps GROUP BY g ORDER BY g NULLS LAST;

-- gaps: key, encrypted
SELECT g, SUM(sparse) FROM gaps GROUP BY g ORDER BY g NULLS FIRST;

-- gaps: key, encrypted
SELECT g, SUM(sparse) AS s FROM gaps GROUP BY g ORDER BY s NULLS FIRST, g;

-- gaps: key, encrypted
SELECT nothing, SUM(sparse) FROM gaps GROUP BY nothing;

-- gaps: key, key, encrypted
SELECT g, part, SUM(sparse) FROM gaps GROUP BY g, part ORDER BY g, part;

-- gaps: key, encrypted
SELECT g IS NULL AS missing, SUM(sparse) FROM gaps GROUP BY missing ORDER BY missing;

-- gaps: plain x 4
SELECT COUNT(nothing), MIN(nothing), MAX(nothing), COUNT(DISTINCT nothing) FROM gaps;

-- gaps: key, plain, plain, plain
SELECT g, SUM(part), AVG(part), COUNT(part) FROM gaps GROUP BY g ORDER BY g;

-- gaps: encrypted
SELECT COALESCE(SUM(void), -1) FROM gaps;

-- gaps: key, encrypted
SELECT g, COALESCE(SUM(hollow), 0) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, encrypted
SELECT g, SUM(hollow) IS NULL FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, encrypted
SELECT g, SUM(hollow) FROM gaps GROUP BY g HAVING SUM(hollow) IS NOT NULL ORDER BY g;

-- gaps: key, encrypted
SELECT g, SUM(hollow) FROM gaps GROUP BY g HAVING SUM(hollow) IS NULL ORDER BY g;

-- gaps: key, encrypted
SELECT g, NULLIF(COUNT(hollow), 0) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, encrypted
SELECT g, SUM(sparse) / NULLIF(COUNT(hollow), 0) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, encrypted
SELECT g, SUM(sparse) / COUNT(hollow) FROM gaps GROUP BY g ORDER BY g;

-- gaps: encrypted
SELECT SUM(sparse) FROM gaps WHERE hollow IS NULL;

-- gaps: encrypted
SELECT SUM(sparse) FROM gaps WHERE part IS NULL;

-- gaps: encrypted
SELECT SUM(sparse) FROM gaps WHERE g <> 'b';

-- gaps: encrypted
SELECT SUM(sparse) FROM gaps WHERE g IS DISTINCT FROM 'b';

-- gaps: encrypted
SELECT SUM(sparse) FROM gaps WHERE g NOT IN ('a', NULL);

-- gaps: encrypted, encrypted
SELECT SUM(COALESCE(sparse, 0)), SUM(sparse + void) FROM gaps;

-- gaps: key, local, local
SELECT g, MIN(hollow), MAX(void) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, local, local
SELECT g, MEDIAN(sparse), COUNT(DISTINCT sparse) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, local
SELECT g, LIST(sparse ORDER BY id) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, local
SELECT void, COUNT(*) FROM gaps GROUP BY void;

-- gaps: key, local, encrypted
SELECT maybe, COUNT(*), SUM(sparse) FROM gaps GROUP BY maybe ORDER BY maybe;

-- gaps: encrypted, encrypted, encrypted
SELECT SUM(sparse), AVG(sparse), COUNT(sparse) FROM gaps WHERE id < 0;

-- gaps: encrypted x 4
SELECT CORR(sparse, hollow), REGR_COUNT(sparse, hollow), BOOL_AND(maybe), PRODUCT(sparse) FROM gaps WHERE id < 0;

-- gaps: key, encrypted
SELECT g, SUM(sparse) FROM gaps WHERE id < 0 GROUP BY g;

-- gaps: local, local
SELECT g, void FROM gaps WHERE id < 5 ORDER BY id;
