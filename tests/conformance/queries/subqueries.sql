-- Subqueries in FROM, WHERE and SELECT

-- numbers: local
SELECT SUM(mid) FROM (SELECT * FROM numbers WHERE g = 'a');

-- numbers: local
SELECT AVG(s) FROM (SELECT g, SUM(price) AS s FROM numbers GROUP BY g);

-- numbers: local
SELECT COUNT(*) FROM (SELECT DISTINCT g FROM numbers);

-- numbers: local, local
SELECT id, mid FROM numbers WHERE mid = (SELECT MAX(mid) FROM numbers);

-- numbers: local
SELECT COUNT(*) FROM numbers WHERE price > (SELECT AVG(price) FROM numbers);

-- numbers: local
SELECT (SELECT MAX(mid) FROM numbers) - (SELECT MIN(mid) FROM numbers);

-- numbers: local, local
SELECT g, SUM(mid) FROM numbers WHERE g IN (SELECT g FROM numbers WHERE tiny > 100) GROUP BY g ORDER BY g;

-- numbers: local, local
SELECT g, SUM(mid)
FROM numbers AS n WHERE EXISTS (SELECT 1 FROM numbers AS m WHERE m.g = n.g AND m.tiny > 100) GROUP BY g ORDER BY g;

-- numbers: local, local
SELECT id, (SELECT COUNT(*) FROM numbers AS m WHERE m.price > n.price) FROM numbers AS n ORDER BY id;

-- numbers: local
SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM numbers GROUP BY h);

-- numbers: local, local
SELECT g, m FROM (SELECT g, MEDIAN(price) AS m FROM numbers GROUP BY g) ORDER BY g;

-- numbers: local
SELECT SUM(a.mid) FROM numbers AS a JOIN numbers AS b ON a.id = b.id + 1;

-- numbers: local, local
SELECT a.g, COUNT(*) FROM numbers AS a, numbers AS b WHERE a.id = b.id GROUP BY a.g ORDER BY a.g;

-- numbers: local, local
SELECT a.id, b.mid FROM numbers AS a LEFT JOIN numbers AS b ON b.id = a.id + 200 ORDER BY a.id;

-- numbers: local
SELECT COUNT(*) FROM numbers WHERE mid > ALL (SELECT tiny FROM numbers);

-- numbers: local
SELECT COUNT(*) FROM numbers WHERE h = ANY (SELECT tiny FROM numbers);

-- numbers: local, local
SELECT u, COUNT(*) FROM (SELECT unnest([mid, tiny]) AS u FROM numbers WHERE id < 20) GROUP BY u ORDER BY u;

-- numbers: local, local
SELECT id, t.s FROM numbers, LATERAL (SELECT mid + tiny AS s) AS t ORDER BY id;

-- numbers: key, encrypted
SELECT g, SUM(mid) FROM numbers GROUP BY g HAVING SUM(mid) > -1e9 ORDER BY g;

-- numbers: local, local
SELECT g, SUM(mid) FROM numbers GROUP BY g HAVING SUM(mid) > (SELECT AVG(mid) FROM numbers) ORDER BY g;

-- numbers: local
SELECT 1;

-- numbers: local, local
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(i, t) ORDER BY i;

-- numbers: local
SELECT SUM(i) FROM range(10) AS r(i);

-- gaps: local
SELECT COUNT(*) FROM gaps WHERE sparse NOT IN (SELECT void FROM gaps);

-- gaps: local
SELECT COUNT(*) FROM gaps WHERE NOT EXISTS (SELECT 1 FROM gaps AS o WHERE o.sparse = gaps.void);

-- texts: local, local
SELECT tag, longest FROM (SELECT tag, MAX(length(note)) AS longest FROM texts GROUP BY tag) ORDER BY tag;
