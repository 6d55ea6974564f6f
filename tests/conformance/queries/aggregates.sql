-- Sums, counts and means of encrypted and plain columns, whole and by group

-- numbers: encrypted
SELECT SUM(mid) FROM numbers;

-- numbers: encrypted
SELECT COUNT(mid) FROM numbers;

-- numbers: encrypted
SELECT AVG(mid) FROM numbers;

-- numbers: encrypted x 5
SELECT SUM(tiny), SUM(small), SUM(mid), SUM(big), SUM(flag) FROM numbers;

-- numbers: encrypted x 5
SELECT AVG(tiny), AVG(small), AVG(mid), AVG(big), AVG(real) FROM numbers;

-- numbers: encrypted x 5
SELECT COUNT(tiny), COUNT(price), COUNT(x), COUNT(flag), COUNT(extreme) FROM numbers;

-- numbers: encrypted, encrypted, encrypted
SELECT SUM(price), AVG(price), COUNT(price) FROM numbers;

-- numbers: encrypted, encrypted, encrypted
SELECT SUM(wide), AVG(wide), COUNT(wide) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(real), AVG(real) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(x), AVG(x) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(extreme), AVG(extreme) FROM numbers;

-- numbers: plain x 5
SELECT COUNT(*), SUM(h), AVG(fee), MIN(g), MAX(p) FROM numbers;

-- numbers: local, encrypted
SELECT COUNT(*), SUM(mid) FROM numbers;

-- numbers: key, plain, encrypted
SELECT g, COUNT(*), SUM(mid) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted, encrypted
SELECT g, AVG(x), AVG(y) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, key, encrypted, encrypted, plain
SELECT g, ok, SUM(price), AVG(price), SUM(fee) FROM numbers GROUP BY g, ok ORDER BY g, ok;

-- numbers: key, encrypted
SELECT h, SUM(big) FROM numbers GROUP BY h ORDER BY h;

-- numbers: key, encrypted
SELECT h, SUM(big) FROM numbers GROUP BY h ORDER BY h NULLS LAST;

-- numbers: key, encrypted
SELECT g AS grp, SUM(tiny) AS total FROM numbers GROUP BY grp ORDER BY grp;

-- numbers: key, encrypted
SELECT g, SUM(tiny) FROM numbers GROUP BY ALL ORDER BY ALL;

-- numbers: key, encrypted
SELECT g, SUM(tiny) FROM numbers GROUP BY 1 ORDER BY 1;

-- numbers: encrypted
SELECT SUM(mid) FROM numbers GROUP BY g;

-- numbers: encrypted, encrypted
SELECT SUM(mid + 1), SUM(mid * 2) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(price * 2), SUM(price * h) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(mid * tiny), SUM(price * (1 - 0.05)) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(-mid), SUM(abs(mid)) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(x * y), SUM(x + y) FROM numbers;

-- numbers: encrypted, encrypted
SELECT AVG(abs(x)), AVG(x * x) FROM numbers;

-- numbers: encrypted
SELECT SUM(x * mid) / SUM(mid) FROM numbers WHERE mid IS NOT NULL;

-- numbers: encrypted
SELECT SUM(x * h) / SUM(h) AS weighted FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(mid) FILTER (WHERE g = 'a'), COUNT(mid) FILTER (WHERE h > 3) FROM numbers;

-- numbers: encrypted, encrypted, encrypted
SELECT SUM(mid) FILTER (WHERE flag), COUNT(*) FILTER (WHERE mid > 0), SUM(fee) FILTER (WHERE x > 0) FROM numbers;

-- numbers: key, encrypted
SELECT g, AVG(price) FILTER (WHERE ok) FROM numbers GROUP BY g ORDER BY g;

-- numbers: plain, plain
SELECT COUNT(*) FILTER (WHERE ok), SUM(h) FILTER (WHERE g <> 'a') FROM numbers;

-- numbers: encrypted x 4
SELECT COUNT_IF(flag), COUNT_IF(mid > 0), COUNTIF(x < y), COUNT_IF(price > 500) FROM numbers;

-- numbers: encrypted, encrypted
SELECT BOOL_AND(flag), BOOL_OR(flag) FROM numbers;

-- numbers: key, encrypted, encrypted
SELECT g, BOOL_AND(mid > -1000000), BOOL_OR(mid > 900) FROM numbers GROUP BY g ORDER BY g;

-- numbers: plain, plain
SELECT BOOL_AND(ok), BOOL_OR(h = 3) FROM numbers;

-- numbers: encrypted, encrypted
SELECT FSUM(x), FAVG(x) FROM numbers;

-- numbers: key, encrypted, encrypted
SELECT g, KAHAN_SUM(x), SUMKAHAN(y) FROM numbers GROUP BY g ORDER BY g;

-- numbers: encrypted, encrypted
SELECT FSUM(mid), FAVG(price) FROM numbers;

-- numbers: encrypted, encrypted
SELECT MEAN(mid), MEAN(x) FROM numbers;

-- numbers: encrypted
SELECT SUM(+mid) FROM numbers;

-- numbers: encrypted
SELECT PRODUCT(1 + real / 100) FROM numbers;

-- numbers: key, encrypted
SELECT g, PRODUCT(1 + x / 1000) FROM numbers GROUP BY g ORDER BY g;

-- numbers: encrypted, encrypted
SELECT PRODUCT(flag::INT), PRODUCT(mid * 0) FROM numbers;

-- numbers: encrypted
SELECT GEOMEAN(price + 1) FROM numbers;

-- numbers: key, encrypted
SELECT g, GEOMETRIC_MEAN(price + 1) FROM numbers GROUP BY g ORDER BY g;

-- numbers: encrypted
SELECT WEIGHTED_AVG(x, price + 1) FROM numbers;

-- numbers: key, encrypted
SELECT g, WAVG(x, price + 1) FROM numbers GROUP BY g ORDER BY g;

-- numbers: plain
SELECT WEIGHTED_AVG(p, h + 1) FROM numbers;

-- numbers: encrypted x 4
SELECT SUM(mid), sum(MID), Sum("mid"), SUM(numbers.mid) FROM numbers;

-- numbers: key, encrypted
SELECT n.g, SUM(n.mid) FROM numbers AS n GROUP BY n.g ORDER BY n.g;

-- numbers: key, encrypted
SELECT g || '!', SUM(mid) FROM numbers GROUP BY g || '!' ORDER BY 1;

-- numbers: key, encrypted
SELECT h % 2, SUM(mid) FROM numbers GROUP BY h % 2 ORDER BY 1;

-- numbers: key, key, encrypted
SELECT h % 2 AS odd, upper(g) AS u, AVG(x) FROM numbers GROUP BY odd, u ORDER BY odd, u;

-- numbers: local, encrypted
SELECT 'all', SUM(mid) FROM numbers;

-- numbers: encrypted
SELECT SUM(1.5 * tiny) FROM numbers;

-- numbers: encrypted, encrypted
SELECT SUM(CAST(price AS DOUBLE)), SUM(CAST(mid AS DECIMAL(18,3))) FROM numbers;

-- numbers: encrypted, encrypted
FROM numbers SELECT SUM(mid), AVG(x);

-- numbers: plain x 4
SELECT SUM(p), AVG(p), COUNT(p), COUNT(DISTINCT h) FROM numbers;

-- numbers: key, plain, plain, plain
SELECT g, MIN(fee), MAX(fee), MEDIAN(h) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, plain, plain
SELECT ok, SUM(fee) / COUNT(*), MAX(h) - MIN(h) FROM numbers GROUP BY ok ORDER BY ok;
