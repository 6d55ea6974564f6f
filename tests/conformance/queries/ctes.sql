-- WITH

-- numbers: local
WITH a AS (SELECT * FROM numbers WHERE g = 'a') SELECT SUM(mid) FROM a;

-- numbers: local, local
WITH s AS (SELECT g, SUM(price) AS total FROM numbers GROUP BY g) SELECT g, total FROM s ORDER BY g;

-- numbers: local, local
WITH s AS (SELECT g, SUM(price) AS total FROM numbers GROUP BY g) SELECT g, total / (SELECT SUM(total) FROM s)
FROM s ORDER BY g;

-- numbers: local, local
WITH a AS (SELECT g, AVG(x) AS m FROM numbers GROUP BY g), b AS (SELECT g, AVG(y) AS m FROM numbers GROUP BY g) SELECT
  a.g, a.m - b.m
FROM a JOIN b USING (g) ORDER BY a.g;

-- numbers: local
WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t WHERE i < 10) SELECT SUM(i) FROM t;

-- numbers: local, local
WITH ranked AS (SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY price DESC, id) AS r FROM numbers) SELECT g,
  id
FROM ranked WHERE r = 1 ORDER BY g;

-- numbers: local
WITH a AS MATERIALIZED (SELECT mid FROM numbers) SELECT SUM(mid) FROM a;

-- numbers: local
WITH numbers AS (SELECT 1 AS mid) SELECT SUM(mid) FROM numbers;

-- numbers: local
WITH a AS (SELECT mid FROM numbers), b AS (SELECT mid FROM a WHERE mid > 0) SELECT COUNT(*) FROM b;

-- dates: local, local
WITH monthly AS (SELECT date_trunc('month', day) AS m, SUM(cost) AS c FROM dates GROUP BY m) SELECT m, c - lag(c) OVER
  (ORDER BY m)
FROM monthly ORDER BY m;

-- texts: local, local
WITH t(a, b) AS (SELECT name, amount FROM texts) SELECT a, SUM(b) FROM t GROUP BY a ORDER BY a;
