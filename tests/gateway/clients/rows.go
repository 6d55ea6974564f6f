// Prints what go-sql-driver/mysql answers as JSON: rows of a query, rows of a prepared statement, cells as texts.
package main

import (
	"database/sql"
	"encoding/json"
	"os"

	"github.com/go-sql-driver/mysql"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func read(rows *sql.Rows, err error) [][]*string {
	found := [][]*string{}
	names := must(must(rows, err).Columns())
	for rows.Next() {
		row, places := make([]*string, len(names)), make([]any, len(names))
		for i := range row {
			places[i] = &row[i]
		}
		if err := rows.Scan(places...); err != nil {
			panic(err)
		}
		found = append(found, row)
	}
	if err := rows.Err(); err != nil {
		panic(err)
	}
	return found
}

func main() {
	config := mysql.NewConfig()
	config.User, config.Passwd, config.DBName = "owner", os.Getenv("PASSWORD"), "cleave"
	config.Net, config.Addr, config.TLSConfig = "tcp", "127.0.0.1:"+os.Getenv("PORT"), "skip-verify"
	db := must(sql.Open("mysql", config.FormatDSN()))
	defer db.Close()
	prepared := must(db.Prepare(os.Getenv("PREPARED")))
	json.NewEncoder(os.Stdout).Encode(map[string][][]*string{
		"query":    read(db.Query(os.Getenv("QUERY"))),
		"prepared": read(prepared.Query(7, "A' \\", 12.5)),
	})
}
