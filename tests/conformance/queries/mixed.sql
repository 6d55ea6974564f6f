-- Keys, plain, encrypted and local outputs side by side, joined by key

-- numbers: key, plain, local, encrypted, encrypted
SELECT g, COUNT(*), MAX(mid), SUM(mid), AVG(x) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted, local
SELECT h, SUM(mid), MIN(x) FROM numbers GROUP BY h ORDER BY h NULLS FIRST;

-- numbers: key, encrypted, local
SELECT round(p) AS r, SUM(mid), MAX(mid) FROM numbers GROUP BY r ORDER BY r;

-- numbers: key, encrypted, local
SELECT CASE WHEN p > 0 THEN 0.0 ELSE -0.0 END AS z, SUM(mid), MAX(mid) FROM numbers GROUP BY z ORDER BY z;

-- numbers: key, encrypted, local
SELECT p::FLOAT AS w, SUM(mid), MAX(mid) FROM numbers GROUP BY w ORDER BY w;

-- numbers: key, encrypted, local
SELECT [g, 'x'] AS pair, SUM(mid), MAX(mid) FROM numbers GROUP BY pair ORDER BY pair;

-- numbers: key, encrypted, local
SELECT {'a': g, 'b': ok} AS s, SUM(mid), MAX(mid) FROM numbers GROUP BY s ORDER BY s;

-- numbers: key, key, encrypted, local
SELECT g, ok, SUM(mid), MEDIAN(mid) FROM numbers GROUP BY g, ok ORDER BY MEDIAN(mid), g, ok;

-- numbers: key, encrypted, local
SELECT g, SUM(mid), MEDIAN(mid) AS m FROM numbers GROUP BY g ORDER BY m DESC, g LIMIT 2;

-- numbers: key, encrypted, local
SELECT g, SUM(mid), MEDIAN(mid) FROM numbers GROUP BY g HAVING MAX(x) > 30 AND COUNT(*) > 5 ORDER BY g;

-- numbers: key, encrypted, local
SELECT g, SUM(mid), MEDIAN(mid) FROM numbers GROUP BY g HAVING SUM(mid) > 0 ORDER BY g;

-- numbers: key, encrypted, local, local, local
SELECT g, SUM(mid), MAX(mid), MAX(mid), MAX(mid) + 1 FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted, local, local
SELECT g, SUM(mid), MAX(mid) - SUM(mid), MAX(mid) - COUNT(*) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted, local
SELECT g, SUM(mid), LIST(mid ORDER BY id) FILTER (WHERE flag) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted, local
SELECT g, SUM(mid), MAX({'m': mid, 'i': id}) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted, local
SELECT g, SUM(mid), HISTOGRAM(tiny // 100) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted, local
SELECT g, SUM(mid), MAX(code) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted, plain, local, local
SELECT g, SUM(mid), SUM(h), SUM(rank), MIN(code) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted, local, encrypted
SELECT g, SUM(mid), COUNT(*), SUM(fee) FROM numbers WHERE x > 0 GROUP BY g ORDER BY g;

-- numbers: key, encrypted, local
SELECT g, SUM(mid), MAX(mid) FROM numbers WHERE x > 0 GROUP BY g ORDER BY g;

-- numbers: key, encrypted, local
SELECT g, SUM(mid), MAX(fee) FROM numbers WHERE x > 0 GROUP BY g ORDER BY g;

-- numbers: key, encrypted, local
SELECT g, SUM(mid), MAX(mid) FROM numbers WHERE rank > 50 GROUP BY g ORDER BY g;

-- numbers: key, encrypted, local
SELECT flag, SUM(price), MAX(price) FROM numbers GROUP BY flag ORDER BY flag;

-- numbers: encrypted, local
SELECT SUM(mid), MAX(mid) FROM numbers;

-- numbers: encrypted, local
SELECT SUM(mid), MAX(mid) FROM numbers WHERE false;

-- numbers: key, encrypted, local
SELECT g, SUM(mid), MAX(mid) FROM numbers WHERE false GROUP BY g;

-- numbers: encrypted, local
SELECT SUM(mid), MAX(mid) FROM numbers WHERE mid > 100000;

-- numbers: key, encrypted, local
SELECT id, SUM(mid), MAX(mid) FROM numbers GROUP BY id ORDER BY id;

-- numbers: key, encrypted, local
SELECT g, SUM(mid) / COUNT(mid), COUNT(DISTINCT mid) / COUNT(mid) FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted, local, local
SELECT g, AVG(price), MAX(price)::VARCHAR || '!', CASE WHEN MAX(price) > 990 THEN 'top' END
FROM numbers GROUP BY g ORDER BY g;

-- numbers: key, encrypted
SELECT g, AVG(price) FROM numbers GROUP BY g HAVING MEDIAN(price) > AVG(price) ORDER BY g;

-- numbers: key, encrypted, local
SELECT g, AVG(price), QUANTILE_CONT(price, [0.25, 0.5, 0.75]) FROM numbers GROUP BY g ORDER BY g;

-- numbers: local, local
SELECT AVG(x), (SELECT 1) + MAX(x) FROM numbers HAVING MAX(x) > 0;

-- gaps: key, encrypted, local, local
SELECT g, SUM(sparse), MAX(hollow), COUNT(DISTINCT void) FROM gaps GROUP BY g ORDER BY g;

-- gaps: key, key, encrypted, local
SELECT g, part, SUM(sparse), MIN(sparse) FROM gaps GROUP BY g, part ORDER BY g, part;

-- gaps: key, encrypted, local
SELECT nothing, SUM(sparse), MIN(hint) FROM gaps GROUP BY nothing;

-- texts: key, encrypted, local
SELECT name, SUM(amount), MAX(note) FROM texts GROUP BY name ORDER BY name;

-- texts: key, encrypted, local
SELECT note, SUM(amount), MAX(score) FROM texts GROUP BY note ORDER BY note;

-- texts: key, encrypted, local
SELECT tag AS "l0", SUM(amount) AS "e0", MAX(score) AS "k0" FROM texts GROUP BY "l0" ORDER BY "l0";

-- dates: key, encrypted, local
SELECT day, AVG(cost), MAX(cost) FROM dates GROUP BY day ORDER BY day;

-- dates: key, encrypted, local
SELECT date_trunc('month', opened) AS m, AVG(cost), MEDIAN(cost) FROM dates GROUP BY m ORDER BY m;

-- dates: key, encrypted, local
SELECT opened::TIME AS t, SUM(cost), MAX(cost) FROM dates GROUP BY t ORDER BY t;

-- dates: key, encrypted, local
SELECT opened - day AS wait, SUM(cost), MAX(cost) FROM dates GROUP BY wait ORDER BY wait;

-- singles: key, encrypted, local
SELECT k, SUM(x), MAX(secret) FROM singles GROUP BY k ORDER BY k;

-- lineitem: key, key, encrypted, local
SELECT l_returnflag, l_shipdate, SUM(l_quantity), MAX(l_extendedprice) FROM lineitem GROUP BY ALL ORDER BY ALL;
