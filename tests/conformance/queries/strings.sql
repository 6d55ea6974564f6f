-- Text: unicode, empty, quotes

-- texts: key, encrypted
SELECT name, SUM(amount) FROM texts GROUP BY name ORDER BY name;

-- texts: key, plain, encrypted
SELECT tag, COUNT(*), AVG(score) FROM texts GROUP BY tag ORDER BY tag;

-- texts: encrypted
SELECT SUM(amount) FROM texts WHERE name = '';

-- texts: encrypted
SELECT SUM(amount) FROM texts WHERE name = 'O''Brien';

-- texts: encrypted
SELECT SUM(amount) FROM texts WHERE name = 'he said "no"';

-- texts: encrypted
SELECT SUM(amount) FROM texts WHERE name = 'Żółć';

-- texts: encrypted
SELECT SUM(amount) FROM texts WHERE name LIKE '%名%';

-- texts: encrypted
SELECT SUM(amount) FROM texts WHERE name ILIKE 'o%';

-- texts: encrypted
SELECT SUM(amount) FROM texts WHERE name SIMILAR TO '[A-Z].*';

-- texts: encrypted
SELECT SUM(amount) FROM texts WHERE regexp_matches(name, '^\w+$');

-- texts: key, encrypted
SELECT length(name) AS n, SUM(amount) FROM texts GROUP BY n ORDER BY n;

-- texts: key, encrypted
SELECT upper(name) AS u, AVG(amount) FROM texts GROUP BY u ORDER BY u;

-- texts: key, encrypted
SELECT left(name, 1) AS initial, SUM(amount) FROM texts GROUP BY initial ORDER BY initial;

-- texts: key, encrypted
SELECT name || '/' || tag AS path, SUM(amount) FROM texts GROUP BY path ORDER BY path;

-- texts: key, encrypted
SELECT replace(name, '''', '"') AS r, SUM(amount) FROM texts GROUP BY r ORDER BY r;

-- texts: key, key, encrypted
SELECT name, tag, SUM(amount) FROM texts GROUP BY name, tag ORDER BY name, tag NULLS FIRST;

-- texts: key, plain
SELECT tag, STRING_AGG(name, '; ' ORDER BY id) FROM texts GROUP BY tag ORDER BY tag;

-- texts: plain, plain, plain
SELECT MIN(name), MAX(name), COUNT(DISTINCT name) FROM texts;

-- texts: plain, plain
SELECT MODE(tag), COUNT(tag) FROM texts;

-- texts: local, local
SELECT MIN(note), MAX(note) FROM texts;

-- texts: key, local
SELECT tag, COUNT(DISTINCT note) FROM texts GROUP BY tag ORDER BY tag;

-- texts: key, local
SELECT tag, STRING_AGG(note, ' | ' ORDER BY id) FROM texts GROUP BY tag ORDER BY tag;

-- texts: key, encrypted
SELECT note, SUM(amount) FROM texts GROUP BY note ORDER BY note;

-- texts: encrypted
SELECT SUM(amount) FROM texts WHERE note LIKE '%a%';

-- texts: encrypted
SELECT SUM(amount) FROM texts WHERE memo IS NULL;

-- texts: encrypted
SELECT SUM(length(name) * amount) FROM texts;

-- texts: local
SELECT SUM(length(note) * amount) FROM texts;

-- texts: key, encrypted
SELECT tag AS "quoted ""name""", SUM(amount) AS "Σ 名" FROM texts GROUP BY tag ORDER BY tag;

-- texts: key, encrypted
SELECT tag AS 'select', SUM(amount) AS "from" FROM texts GROUP BY tag ORDER BY tag;

-- texts: key, encrypted
SELECT trim(name) AS t, SUM(score) FROM texts GROUP BY t ORDER BY t;

-- texts: key, encrypted
SELECT CASE WHEN name = '' THEN 'empty' WHEN name IS NULL THEN 'null' ELSE 'text' END AS c, SUM(amount)
FROM texts GROUP BY c ORDER BY c;

-- texts: encrypted
SELECT 'Σ = ' || SUM(amount) || ' €' FROM texts;

-- texts: encrypted
SELECT SUM(amount)::VARCHAR || '%' FROM texts;

-- texts: encrypted
SELECT printf('%d rows', COUNT(amount)) FROM texts;

-- texts: encrypted
SELECT length(SUM(amount)::VARCHAR) FROM texts;

-- texts: local, local, local
SELECT id, name, note FROM texts ORDER BY id LIMIT 7;

-- texts: local, local
SELECT upper(note), amount FROM texts WHERE amount > 50 ORDER BY id;
