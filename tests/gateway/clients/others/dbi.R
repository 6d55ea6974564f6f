# What R asks: `Rscript dbi.R`, with libpq's environment and Debian's r-cran-rpostgresql.
library(DBI)
library(RPostgreSQL)
env <- Sys.getenv
connection <- dbConnect(PostgreSQL(), host = env("PGHOST"), port = as.integer(env("PGPORT")), user = env("PGUSER"),
                        password = env("PGPASSWORD"), dbname = env("PGDATABASE"))
print(dbListTables(connection))
print(dbExistsTable(connection, "stays"))
print(dbListFields(connection, "stays"))
str(dbGetQuery(connection, "SELECT id, name, bill, level, day, seen, zoned, insured FROM stays ORDER BY id"))
print(dbReadTable(connection, "wards"))
print(dbGetQuery(connection, "SELECT ward, sum(bill) AS total FROM stays WHERE id > $1 GROUP BY ward ORDER BY ward", c(1)))
part <- dbSendQuery(connection, "SELECT id FROM stays ORDER BY id")
print(fetch(part, 5))
dbClearResult(part)
try(dbGetQuery(connection, "SELECT nothing FROM stays"))
dbDisconnect(connection)
