// Prints what pgx answers as JSON: rows of every way in which it asks, cells as texts.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const query = "SELECT * FROM stays ORDER BY id"
const prepared = "SELECT id, name, bill::text, day FROM stays WHERE id > $1 AND ward <> $2 AND bill > $3 ORDER BY id"

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func read(rows pgx.Rows, err error) [][]any {
	if err != nil {
		panic(err)
	}
	return must(pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() }))
}

func main() {
	all := context.Background()
	config := must(pgx.ParseConfig(""))
	db := must(pgx.ConnectConfig(all, config))
	defer db.Close(all)
	found := map[string]any{}
	bound := []any{1, "A' \\", "12.5"}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		found["query "+mode.String()] = read(db.Query(all, query, mode))
		found["prepared "+mode.String()] = read(db.Query(all, prepared, append([]any{mode}, bound...)...))
	}
	each := [][][]any{}
	for _, pair := range [][]any{
		{"id = $1", 4},
		{"ward = $1 AND id < 5", "A"},
		{"insured = $1 AND id < 5", true},
		{"level < $1", -0.005},
		{"day = $1", time.Date(2001, 1, 16, 0, 0, 0, 0, time.UTC)},
		{"seen = $1", time.Date(1970, 1, 1, 0, 4, 5, 1000, time.UTC)},
		{"zoned = $1", time.Date(2024, 6, 19, 0, 59, 59, 500_000_000, time.UTC)},
		{"id = ANY($1)", []int64{3, 5, 99}},
	} {
		each = append(each, read(db.Query(all, "SELECT id FROM stays WHERE "+pair[0].(string)+" ORDER BY id", pair[1])))
	}
	found["each"] = each
	batch := &pgx.Batch{}
	batch.Queue("SELECT count(*) FROM wards")
	batch.Queue("SELECT id FROM stays WHERE id < $1 ORDER BY id", 3)
	sent := db.SendBatch(all, batch)
	found["batch"] = [][][]any{read(sent.Query()), read(sent.Query())}
	sent.Close()
	codes := []string{}
	for _, sql := range []string{"SELECT nothing FROM stays", "SELECT 1 FROM nosuch", "SELEC 1"} {
		var failed *pgconn.PgError
		if _, err := db.Exec(all, sql); errors.As(err, &failed) {
			codes = append(codes, failed.Code)
		}
	}
	found["errors"] = codes
	tx := must(db.BeginTx(all, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}))
	found["transaction"] = read(tx.Query(all, "SELECT max(bill)::text FROM stays"))
	tx.Rollback(all)
	json.NewEncoder(os.Stdout).Encode(found)
}
