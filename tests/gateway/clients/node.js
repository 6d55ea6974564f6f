// Prints what node-postgres answers as JSON: rows, prepared statements, a cursor, errors.
import pg from "pg";
import Cursor from "pg-cursor";

const QUERY = "SELECT * FROM stays ORDER BY id";
const PREPARED = "SELECT id, name, bill, day FROM stays WHERE id > $1 AND ward <> $2 AND bill > $3 ORDER BY id";
const BOUND = [1, "A' \\", "12.5"];
const EACH = [
  ["id = $1", 4],
  ["ward = $1 AND id < 5", "A"],
  ["insured = $1 AND id < 5", true],
  ["bill = $1", "22677.00"],
  ["level < $1", -0.005],
  ["day = $1", "2001-01-16"],
  ["seen = $1", "1970-01-01 00:04:05.000001"],
  ["zoned = $1", new Date("2024-06-19T00:59:59.500Z")],
  ["id < 3 AND $1::text IS NULL", null],
];
for (const oid of [1082, 1083, 1114, 1184, 1186]) pg.types.setTypeParser(oid, (text) => text);
const client = new pg.Client();
await client.connect();
const rows = async (text, values, more = {}) => (await client.query({ text, values, rowMode: "array", ...more })).rows;
const found = { query: await rows(QUERY) };
for (let i = 0; i < 3; i++) found.prepared = await rows(PREPARED, BOUND, { name: "one" });
found.unnamed = await rows(PREPARED, BOUND);
found.each = [];
for (const [sql, value] of EACH) found.each.push(await rows(`SELECT id FROM stays WHERE ${sql}`, [value]));
found.binary = (await rows("SELECT id, num, level FROM stays ORDER BY id", [], { binary: true })).map((row) => row.map(String));
const cursor = client.query(new Cursor("SELECT id, bill FROM stays ORDER BY id", [], { rowMode: "array" }));
found.cursor = [];
for (let part = await cursor.read(5); part.length; part = await cursor.read(5)) found.cursor.push(...part);
await cursor.close();
found.errors = [];
for (const sql of ["SELECT nothing FROM stays", "SELECT 1 FROM nosuch", "SELEC 1"])
  await client.query(sql).catch((error) => found.errors.push(error.code));
await client.query("BEGIN");
found.several = (await client.query("SELECT 1 AS one; SELECT count(*) AS n FROM wards")).map((each) => each.rows);
await client.query("ROLLBACK");
console.log(JSON.stringify(found));
await client.end();
