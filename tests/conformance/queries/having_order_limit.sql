-- HAVING, ORDER BY, LIMIT and OFFSET

-- numbers: key, encrypted, encrypted
SELECT g, SUM(mid) AS s, AVG(x) FROM numbers GROUP BY g HAVING SUM(mid) > 0 ORDER BY g;

-- numbers: key, encrypted
SELECT g, SUM(mid) AS s FROM numbers GROUP BY g HAVING s > 0 ORDER BY s DESC;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY g HAVING COUNT(*) > 20 AND AVG(x) > -100 ORDER BY g;

-- numbers: key
SELECT g FROM numbers GROUP BY g HAVING SUM(price) > 10 ORDER BY g;

-- numbers: key
SELECT g FROM numbers GROUP BY g ORDER BY AVG(x);

-- numbers: key
SELECT g FROM numbers GROUP BY g ORDER BY AVG(x) DESC LIMIT 2;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY g ORDER BY SUM(mid) DESC LIMIT 1;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY g ORDER BY 2 LIMIT 3 OFFSET 1;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY g ORDER BY g LIMIT 0;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY g ORDER BY g OFFSET 4;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY g ORDER BY g OFFSET 400;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY g ORDER BY g FETCH FIRST 2 ROWS ONLY;

-- numbers: key, encrypted
SELECT h, AVG(x) FROM numbers GROUP BY h ORDER BY h DESC NULLS FIRST;

-- numbers: key, encrypted
SELECT h, AVG(x) FROM numbers GROUP BY h ORDER BY h DESC NULLS LAST LIMIT 3;

-- numbers: key, key, encrypted
SELECT g, ok, SUM(mid) FROM numbers GROUP BY ALL ORDER BY ALL DESC;

-- numbers: key, key, encrypted
SELECT g, ok, SUM(mid) FROM numbers GROUP BY g, ok ORDER BY ok DESC, g ASC;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY g HAVING false;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY g HAVING NULL;

-- numbers: key, encrypted
SELECT g, COUNT(mid) FROM numbers GROUP BY g HAVING g IN ('a', 'c') ORDER BY g;

-- numbers: encrypted
SELECT SUM(mid) FROM numbers HAVING COUNT(*) > 1;

-- numbers: encrypted
SELECT SUM(mid) FROM numbers HAVING COUNT(*) > 1000000;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY g HAVING SUM(mid) BETWEEN -100000 AND 100000 ORDER BY g;

-- numbers: key, encrypted
SELECT g, AVG(price) FROM numbers GROUP BY g HAVING NOT AVG(price) < 100 ORDER BY g;

-- numbers: key, encrypted
SELECT g, SUM(price) FROM numbers GROUP BY g ORDER BY SUM(price) / COUNT(*), g;

-- numbers: key, plain
SELECT g, COUNT(*) FROM numbers GROUP BY g HAVING SUM(fee) > 0 ORDER BY COUNT(*), g;

-- numbers: key, plain
SELECT h, COUNT(*) AS n FROM numbers GROUP BY h ORDER BY n DESC, h LIMIT 2;

-- numbers: key
SELECT g FROM numbers GROUP BY g ORDER BY CORR(x, y), g;

-- numbers: key, encrypted
SELECT g, STDDEV(x) FROM numbers GROUP BY g HAVING STDDEV(x) > 1 ORDER BY STDDEV(x);

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY g ORDER BY CASE g WHEN 'c' THEN 0 ELSE 1 END, g;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY g ORDER BY g COLLATE NOCASE;

-- numbers: local, local
SELECT g, SUM(mid) FROM numbers GROUP BY g ORDER BY g LIMIT 40 PERCENT;

-- numbers: local, local
SELECT g, SUM(mid) FROM numbers GROUP BY g ORDER BY g LIMIT (SELECT 2);

-- numbers: local, local
SELECT g, SUM(mid) FROM numbers GROUP BY g ORDER BY g LIMIT 1 + 1;
