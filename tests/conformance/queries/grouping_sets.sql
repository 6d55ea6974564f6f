-- GROUPING SETS, ROLLUP, CUBE and GROUPING

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY ROLLUP (g) ORDER BY g;

-- numbers: key, key, encrypted
SELECT g, ok, SUM(mid) FROM numbers GROUP BY ROLLUP (g, ok) ORDER BY g, ok;

-- numbers: key, key, encrypted
SELECT g, ok, AVG(x) FROM numbers GROUP BY CUBE (g, ok) ORDER BY g, ok;

-- numbers: key, key, encrypted
SELECT g, ok, SUM(price) FROM numbers GROUP BY GROUPING SETS ((g), (ok), ()) ORDER BY g, ok;

-- numbers: key, key, encrypted
SELECT g, ok, SUM(price) FROM numbers GROUP BY GROUPING SETS ((g, ok), (g)) ORDER BY g, ok;

-- numbers: key, key, encrypted
SELECT g, GROUPING(g), SUM(mid) FROM numbers GROUP BY ROLLUP (g) ORDER BY 2, 1;

-- numbers: key, key, key, encrypted
SELECT g, ok, GROUPING(g, ok) AS level, STDDEV(x) FROM numbers GROUP BY CUBE (g, ok) ORDER BY level, g, ok;

-- numbers: key, plain, encrypted, plain
SELECT g, COUNT(*), SUM(mid), SUM(fee) FROM numbers GROUP BY ROLLUP (g) ORDER BY g;

-- numbers: key, plain, plain
SELECT g, SUM(h), MAX(fee) FROM numbers GROUP BY ROLLUP (g) ORDER BY g;

-- numbers: key, encrypted, local
SELECT g, AVG(price), MEDIAN(price) FROM numbers GROUP BY ROLLUP (g) ORDER BY g;

-- numbers: key, local
SELECT g, COUNT(DISTINCT tiny) FROM numbers GROUP BY ROLLUP (g) ORDER BY g;

-- numbers: key, encrypted, encrypted
SELECT g, CORR(x, y), REGR_SLOPE(y, x) FROM numbers GROUP BY ROLLUP (g) ORDER BY g;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY ROLLUP (g) HAVING GROUPING(g) = 0 ORDER BY g;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY ROLLUP (g) ORDER BY SUM(mid) LIMIT 3;

-- numbers: key, key, encrypted
SELECT h % 2 AS odd, g, SUM(mid) FROM numbers GROUP BY ROLLUP (odd, g) ORDER BY GROUPING(odd), GROUPING(g), odd, g;

-- numbers: key, key, encrypted
SELECT flag, g, SUM(price) FROM numbers GROUP BY CUBE (flag, g) ORDER BY GROUPING(flag), GROUPING(g), flag, g;

-- numbers: key, encrypted
SELECT g, SUM(price) FROM numbers WHERE mid > 0 GROUP BY ROLLUP (g) ORDER BY g;

-- numbers: key, encrypted
SELECT g, SUM(price) FROM numbers WHERE false GROUP BY ROLLUP (g);

-- numbers: key, key, encrypted
SELECT g, ok, SUM(mid) FROM numbers GROUP BY g, ROLLUP (ok) ORDER BY g, ok;

-- numbers: key, key, encrypted
SELECT g, ok, SUM(mid) FROM numbers GROUP BY GROUPING SETS (g, ok, (g, ok), ()) ORDER BY g, ok, SUM(mid);

-- numbers: key, encrypted
SELECT CASE WHEN GROUPING(g) = 1 THEN 'all' ELSE g END AS label, SUM(mid)
FROM numbers GROUP BY ROLLUP (g) ORDER BY label;

-- numbers: key, encrypted
SELECT g, SUM(mid) / COUNT(*) FROM numbers GROUP BY ROLLUP (g) ORDER BY g;

-- gaps: key, key, encrypted
SELECT g, GROUPING(g), SUM(hollow) FROM gaps GROUP BY ROLLUP (g) ORDER BY 2, 1;

-- gaps: key, key, encrypted, plain
SELECT g, part, SUM(sparse), COUNT(*) FROM gaps GROUP BY CUBE (g, part) ORDER BY GROUPING(g), GROUPING(part), g, part;

-- dates: key, key, encrypted
SELECT year(day) AS y, month(day) AS m, SUM(cost) FROM dates GROUP BY ROLLUP (y, m) ORDER BY y, m;

-- dates: key, key, encrypted
SELECT site, day, AVG(born) FROM dates GROUP BY ROLLUP (site, day) ORDER BY GROUPING(site), GROUPING(day), site, day;

-- numbers: key, key, encrypted
SELECT g, ok, SUM(mid) FROM numbers GROUP BY GROUPING SETS ((1, 2), (2)) ORDER BY (2), 1;

-- numbers: key, key, encrypted, plain
SELECT g, ok, SUM(mid), COUNT(*) FROM numbers GROUP BY ROLLUP ((1), ((2))), (()) ORDER BY g, ok;
