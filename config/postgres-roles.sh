#!/bin/sh
# PostgreSQL's image runs this once, when it makes the database: it makes the role of the servers.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$RECEIPTD_APP_PASSWORD" --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
CREATE ROLE receiptd_app LOGIN PASSWORD :'password';
SQL
