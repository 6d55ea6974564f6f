-- Window functions: whole questions, answered here

-- numbers: local, local
SELECT id, row_number() OVER (ORDER BY id) FROM numbers ORDER BY id LIMIT 10;

-- numbers: local, local
SELECT id, SUM(mid) OVER (PARTITION BY g) FROM numbers ORDER BY id;

-- numbers: local, local
SELECT id, SUM(mid) OVER (ORDER BY id) FROM numbers ORDER BY id;

-- numbers: local, local
SELECT id, AVG(price) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM numbers ORDER BY id;

-- numbers: local, local, local
SELECT id, lag(mid) OVER (ORDER BY id), lead(mid, 2) OVER (ORDER BY id) FROM numbers ORDER BY id;

-- numbers: local, local
SELECT id, rank() OVER (PARTITION BY g ORDER BY price DESC, id) FROM numbers ORDER BY id;

-- numbers: local, local, local
SELECT id, dense_rank() OVER (ORDER BY h), percent_rank() OVER (ORDER BY h) FROM numbers ORDER BY id;

-- numbers: local, local
SELECT id, ntile(4) OVER (ORDER BY price, id) FROM numbers ORDER BY id;

-- numbers: local, local, local
SELECT id, first_value(mid) OVER w, last_value(mid) OVER w
FROM numbers WINDOW w AS (PARTITION BY g ORDER BY id) ORDER BY id;

-- numbers: local, local
SELECT id, COUNT(*) OVER () FROM numbers ORDER BY id LIMIT 3;

-- numbers: local, local
SELECT id, MEDIAN(mid) OVER (PARTITION BY g) FROM numbers ORDER BY id;

-- numbers: local, local, local
SELECT g, SUM(mid), rank() OVER (ORDER BY SUM(mid)) FROM numbers GROUP BY g ORDER BY g;

-- numbers: local, local, local
SELECT g, SUM(price), SUM(SUM(price)) OVER () FROM numbers GROUP BY g ORDER BY g;

-- numbers: local, local
SELECT g, SUM(price) / SUM(SUM(price)) OVER () AS share FROM numbers GROUP BY g ORDER BY g;

-- numbers: local, local
SELECT id, SUM(mid) FILTER (WHERE ok) OVER (PARTITION BY g) FROM numbers ORDER BY id;

-- numbers: local, local
SELECT id, MAX(code) OVER (PARTITION BY g) FROM numbers ORDER BY id;

-- numbers: local, local
SELECT id, SUM(mid) OVER (ORDER BY h GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM numbers ORDER BY id;

-- dates: local, local
SELECT id, cost - lag(cost) OVER (PARTITION BY site ORDER BY opened, id) FROM dates ORDER BY id;

-- dates: local, local
SELECT id, SUM(cost) OVER (ORDER BY day RANGE BETWEEN INTERVAL 7 DAY PRECEDING AND CURRENT ROW) FROM dates ORDER BY id;

-- dates: local, local
SELECT id, stay - MIN(stay) OVER () FROM dates ORDER BY id;

-- gaps: local, local, local
SELECT id, SUM(void) OVER (PARTITION BY g), COUNT(hollow) OVER (PARTITION BY g) FROM gaps ORDER BY id;

-- gaps: local, local
SELECT id, last_value(sparse IGNORE NULLS) OVER (ORDER BY id) FROM gaps ORDER BY id;

-- gaps: local x 5
SELECT first_value(sparse RESPECT NULLS) OVER w, last_value(sparse RESPECT NULLS) OVER w,
  nth_value(sparse, 2 RESPECT NULLS) OVER w, lag(sparse RESPECT NULLS) OVER w, lead(sparse RESPECT NULLS) OVER w
FROM gaps WINDOW w AS (PARTITION BY g ORDER BY id);
