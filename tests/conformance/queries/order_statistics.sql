-- What no sum gives: computed here, item by item

-- numbers: local, local
SELECT MIN(mid), MAX(mid) FROM numbers;

-- numbers: key, local, local
SELECT g, MIN(price), MAX(price) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted, local
SELECT g, AVG(price), MEDIAN(price) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, plain, encrypted, local
SELECT g, COUNT(*), SUM(mid), MAX(x) FROM numbers GROUP BY g ORDER BY g;

-- numbers: local
SELECT COUNT(DISTINCT mid) FROM numbers;

-- numbers: key, local
SELECT g, COUNT(DISTINCT tiny) FROM numbers GROUP BY g ORDER BY g;

-- numbers: local, local
SELECT SUM(DISTINCT tiny), AVG(DISTINCT tiny) FROM numbers;

-- numbers: local, local, local
SELECT QUANTILE_CONT(x, 0.25), QUANTILE_DISC(x, 0.75), QUANTILE(mid, 0.5) FROM numbers;

-- numbers: local
SELECT QUANTILE_CONT(x, [0.1, 0.5, 0.9]) FROM numbers;

-- numbers: local
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x) FROM numbers;

-- numbers: local
SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY price DESC) FROM numbers;

-- numbers: local
SELECT MODE(flag) FROM numbers;

-- numbers: local, local
SELECT MAD(x), MAD(mid) FROM numbers;

-- numbers: local, local
SELECT ARG_MIN(g, x), ARG_MAX(id, x) FROM numbers;

-- numbers: local, local
SELECT ARG_MAX(mid, h * 1000 + id), MIN_BY(price, id) FROM numbers;

-- numbers: local
SELECT MAX(x, 3) FROM numbers;

-- numbers: local
SELECT STRING_AGG(tiny, ',' ORDER BY id) FROM numbers;

-- numbers: key, local
SELECT g, LIST(mid ORDER BY id) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, local
SELECT g, ARRAY_AGG(price ORDER BY price DESC, id) FROM numbers GROUP BY g ORDER BY g;

-- numbers: local, local
SELECT FIRST(mid ORDER BY id), LAST(x ORDER BY id) FROM numbers;

-- numbers: local
SELECT ANY_VALUE(mid ORDER BY id) FROM numbers;

-- numbers: local, local
SELECT BIT_AND(mid), BIT_XOR(tiny) FROM numbers;

-- numbers: local
SELECT HISTOGRAM(tiny) FROM numbers;

-- numbers: local
SELECT ENTROPY(tiny) FROM numbers;

-- numbers: local
SELECT APPROX_COUNT_DISTINCT(mid) FROM numbers;

-- numbers: local
SELECT APPROX_QUANTILE(x, 0.5) FROM numbers;

-- numbers: local
SELECT MAX(mid) - MIN(mid) FROM numbers;

-- numbers: key, local
SELECT g, MEDIAN(x) - AVG(x) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, local, encrypted
SELECT g, MEDIAN(x) / COUNT(*), AVG(x) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, local, encrypted
SELECT g, MEDIAN(price) AS m, SUM(price) AS s FROM numbers GROUP BY g HAVING MEDIAN(price) > 300 ORDER BY m;

-- numbers: key, encrypted
SELECT g, SUM(price) FROM numbers GROUP BY g ORDER BY MAX(price) DESC;

-- numbers: key, encrypted
SELECT g, SUM(price) FROM numbers GROUP BY g HAVING MIN(price) < 50 ORDER BY g;

-- numbers: key, encrypted, local
SELECT g, SUM(price) FILTER (WHERE ok), MEDIAN(price) FILTER (WHERE ok) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, local
SELECT g, CASE WHEN MAX(x) > 20 THEN 'high' ELSE 'low' END FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, local
SELECT g, MAX(x) > AVG(x) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, plain, local
SELECT g, MEDIAN(h), MEDIAN(mid) FROM numbers GROUP BY g ORDER BY g;

-- numbers: plain, plain, plain
SELECT MEDIAN(h), MODE(ok), QUANTILE_CONT(p, 0.5) FROM numbers;

-- numbers: key, plain
SELECT g, COUNT(DISTINCT h) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, plain
SELECT g, STRING_AGG(h, '-' ORDER BY h, id) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, plain
SELECT g, LIST(id ORDER BY id) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, local
SELECT g, LIST(id) FROM numbers GROUP BY g ORDER BY g;

-- numbers: local, local, local
SELECT MIN(code), MAX(code), COUNT(code) FROM numbers;

-- numbers: local, local, local
SELECT SUM(rank), AVG(rank), COUNT(DISTINCT rank) FROM numbers;

-- numbers: key, encrypted, local
SELECT g, SUM(mid), SUM(rank) FROM numbers GROUP BY g ORDER BY g;

-- numbers: local
SELECT SUM(mid * rank) FROM numbers;

-- numbers: local
SELECT SUM(mid) FILTER (WHERE rank > 10) FROM numbers;
