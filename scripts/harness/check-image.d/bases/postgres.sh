#!/bin/bash
# The part of the official image's entrypoint that docker-compose.yml uses. The first start makes the database with a server
# on a Unix socket alone, runs /docker-entrypoint-initdb.d/*.sh on it and stops it; then the server by TCP starts.
set -euo pipefail
if [ "$(id -u)" = 0 ]; then
  install -d -m 700 -o postgres -g postgres "$PGDATA"
  install -d -m 3777 -o postgres -g postgres /var/run/postgresql
  exec gosu postgres "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  # Words of their own: the variable holds arguments.
  # shellcheck disable=SC2086
  initdb --username="$POSTGRES_USER" --pwfile=<(echo "$POSTGRES_PASSWORD") ${POSTGRES_INITDB_ARGS:-}
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
  pg_ctl -w -o "-c listen_addresses=''" start
  createdb --username="$POSTGRES_USER" --maintenance-db=postgres "$POSTGRES_DB"
  for file in /docker-entrypoint-initdb.d/*.sh; do
    echo "$0: running $file"
    if [ -x "$file" ]; then "$file"; else . "$file"; fi
  done
  pg_ctl -w -m fast stop
fi
exec "$@"
