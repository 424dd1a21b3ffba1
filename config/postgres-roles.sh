#!/bin/sh
# PostgreSQL's image runs this once, when it makes the database: it makes the role of the servers and the role of Grafana.
set -eu
psql -v ON_ERROR_STOP=1 -v app="$RECEIPTD_APP_PASSWORD" -v numbers="${RECEIPTD_NUMBERS_PASSWORD:-}" \
  --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
CREATE ROLE receiptd_app LOGIN PASSWORD :'app';
-- An empty password lets nothing log in.
CREATE ROLE receiptd_numbers LOGIN PASSWORD :'numbers';
ALTER ROLE receiptd_app SET search_path = receiptd, public;
ALTER ROLE receiptd_numbers SET search_path = receiptd, public;
ALTER ROLE receiptd_numbers SET statement_timeout = '30s';
ALTER ROLE receiptd_numbers SET default_transaction_read_only = on;
SQL
