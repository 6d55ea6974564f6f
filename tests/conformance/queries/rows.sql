-- Single rows

-- numbers: local x 19
SELECT * FROM numbers ORDER BY id LIMIT 5;

-- numbers: local x 19
SELECT * FROM numbers ORDER BY id;

-- numbers: local, local
SELECT id, mid FROM numbers WHERE mid > 500 ORDER BY id;

-- numbers: local, local
SELECT g, mid FROM numbers WHERE id = 7;

-- numbers: local
SELECT mid FROM numbers ORDER BY mid DESC NULLS LAST LIMIT 1;

-- numbers: local, local
SELECT id, x * 2 + y FROM numbers ORDER BY id;

-- numbers: local x 18
SELECT * EXCLUDE (wide) FROM numbers WHERE id < 3 ORDER BY id;

-- numbers: local x 19
SELECT * REPLACE (round(x, 1) AS x) FROM numbers WHERE id < 3 ORDER BY id;

-- numbers: local, local
SELECT COLUMNS('^(tiny|small)$') FROM numbers ORDER BY id;

-- numbers: local, local
SELECT id, CASE WHEN flag THEN 'yes' WHEN NOT flag THEN 'no' END FROM numbers ORDER BY id;

-- numbers: local, local
SELECT code, rank FROM numbers WHERE rank < 10 ORDER BY id;

-- numbers: local, local
SELECT id, extreme FROM numbers ORDER BY extreme, id;

-- numbers: local
SELECT unnest([id, mid]) FROM numbers WHERE id < 4;

-- numbers: local, local
SELECT id, typeof(price) FROM numbers WHERE id = 0;

-- numbers: local x 19
FROM numbers WHERE id = 1;

-- numbers: local
SELECT g FROM numbers ORDER BY id LIMIT 10 OFFSET 235;

-- numbers: local
SELECT id FROM numbers ORDER BY id LIMIT 10 PERCENT;

-- dates: local x 4
SELECT born, seen, slot, stay FROM dates ORDER BY id;

-- dates: local, local
SELECT id, age(day, born) FROM dates WHERE born IS NOT NULL ORDER BY id;

-- texts: local x 7
SELECT * FROM texts ORDER BY id;

-- texts: local, local
SELECT id, reverse(name) FROM texts ORDER BY id;

-- gaps: local x 9
SELECT * FROM gaps ORDER BY id;

-- singles: local x 7
SELECT * FROM singles ORDER BY k;

-- lineitem: local, local
SELECT l_orderkey, l_comment FROM lineitem WHERE l_quantity = 50 ORDER BY l_orderkey, l_linenumber LIMIT 20;

-- numbers: local, local, local
SELECT * FROM (PIVOT (SELECT g, ok, tiny FROM numbers) ON ok IN (true, false) USING SUM(tiny) GROUP BY g) ORDER BY g;

-- numbers: local, local, local
UNPIVOT (SELECT id, tiny, small FROM numbers WHERE id < 3) ON tiny, small ORDER BY ALL;

-- gaps: local x 5
SELECT * EXCLUDE (gaps.void, nothing, main.gaps.hollow, gaps.hint) RENAME (gaps.maybe AS m, gaps.sparse AS s) FROM gaps ORDER BY id;

-- numbers: local, local
SELECT id, list_sum([tiny, small]) FROM numbers ORDER BY id;

-- numbers: local, local
SELECT id, [v FOR v IN [tiny, small] IF v > 0] FROM numbers ORDER BY id;

-- numbers: local
SELECT struct_pack(a := mid, b := g) FROM numbers ORDER BY id LIMIT 3;
