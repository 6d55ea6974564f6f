// Prints what mysql2 answers as JSON: rows of a query, rows of a prepared statement.
import { createConnection } from "mysql2/promise";

const { PORT, PASSWORD, QUERY, PREPARED } = process.env;
const connection = await createConnection({
  host: "127.0.0.1",
  port: Number(PORT),
  user: "owner",
  password: PASSWORD,
  database: "cleave",
  ssl: { rejectUnauthorized: false },
  rowsAsArray: true,
  dateStrings: true,
  supportBigNumbers: true,
});
const [query] = await connection.query(QUERY);
const [prepared] = await connection.execute(PREPARED, [7, "A' \\", 12.5]);
console.log(JSON.stringify({ query, prepared }));
await connection.end();
