-- Further tables by --with, on this machine only

-- numbers + regions: local, local
SELECT r.region, SUM(n.mid) FROM numbers AS n JOIN regions AS r USING (g) GROUP BY r.region ORDER BY r.region;

-- numbers + regions: local, local
SELECT region, AVG(price) FROM numbers NATURAL JOIN regions GROUP BY region ORDER BY region;

-- numbers + regions: local, local
SELECT n.id, r.region FROM numbers AS n LEFT JOIN regions AS r ON r.g = n.g ORDER BY n.id;

-- numbers + regions: local
SELECT SUM(n.mid * r.weight) FROM numbers AS n JOIN regions AS r USING (g);

-- numbers + regions: local, local
SELECT r.g, COUNT(n.id) FROM regions AS r LEFT JOIN numbers AS n USING (g) GROUP BY r.g ORDER BY r.g;

-- numbers + regions: local
SELECT COUNT(*) FROM numbers WHERE g IN (SELECT g FROM regions WHERE weight > 1);

-- numbers + regions: local
SELECT COUNT(*) FROM numbers CROSS JOIN regions;

-- numbers + regions: local, local
SELECT region, MEDIAN(mid) FROM numbers JOIN regions USING (g) GROUP BY region HAVING COUNT(*) > 1 ORDER BY region;

-- numbers + regions: local, local
SELECT g, weight FROM regions ORDER BY g;

-- numbers + regions: local
SELECT SUM(budget) FROM regions;

-- numbers + regions: local
SELECT COUNT(*) FROM numbers SEMI JOIN regions USING (g);

-- numbers + regions: local
SELECT COUNT(*) FROM numbers ANTI JOIN regions USING (g);

-- numbers + regions: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY g ORDER BY g;

-- numbers + regions: local, local, local
WITH t AS (SELECT g, SUM(price) AS s FROM numbers GROUP BY g) SELECT g, s, s / budget
FROM t JOIN regions USING (g) ORDER BY g;
