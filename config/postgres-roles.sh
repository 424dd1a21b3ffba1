#!/bin/sh
# The image of PostgreSQL runs this once, when it makes its database: the role that receiptd serves as.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$RECEIPTD_APP_PASSWORD" --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
CREATE ROLE receiptd_app LOGIN PASSWORD :'password';
SQL
