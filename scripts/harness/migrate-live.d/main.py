"""Migrates the apps' live tables under load: see scripts/harness/migrate-live.

main.py PROGRAM DATABASE_URL ROWS
"""
import os
import subprocess
import sys
import threading
import time

PROGRAM, URL, ROWS = sys.argv[1], sys.argv[2], int(sys.argv[3])
FIXTURES = "Tests/ReceiptServiceTests/Fixtures/Live"
# The longest that a reader may wait, and the length and distance of the long transactions, in seconds.
LIMIT = 1.0
HOLD, GAP = 12.0, 8.0

MORE_ROWS = f"""
INSERT INTO auth.users (id, email) SELECT md5('user' || n)::uuid, n || '@example.com' FROM generate_series(1, {ROWS}) AS n;
INSERT INTO profiles (id, handle, premium_expires_at, premium_product_id, premium_original_transaction_id)
SELECT md5('user' || n)::uuid, 'user' || n, CASE WHEN n % 3 = 0 THEN now() + n % 300 * interval '1 day' END,
  CASE WHEN n % 3 = 0 THEN 'com.swiftclimb.premium.monthly' END, CASE WHEN n % 3 = 0 THEN (2100000000000000 + n)::text END
FROM generate_series(1, {ROWS}) AS n;
INSERT INTO user_preferences (user_id, is_premium) SELECT md5('user' || n)::uuid, n % 4 = 0 FROM generate_series(1, {ROWS}) AS n;
INSERT INTO subscriptions
  (device_id, original_transaction_id, transaction_id, product_id, tier, status, purchase_date, expiry_date)
SELECT upper(md5('device' || n)), (2200000000000000 + n)::text, (2200000000000000 + n)::text,
  'com.screentimerewards.family.monthly', 'family', CASE WHEN n % 2 = 0 THEN 'active' ELSE 'expired' END,
  now() - n % 700 * interval '1 day', now() - n % 700 * interval '1 day' + interval '30 days'
FROM generate_series(1, {ROWS}) AS n;
ANALYZE;
"""
STATE = """SELECT (SELECT count(*) FROM subscriptions), (SELECT count(*) FROM profiles), (SELECT count(*) FROM user_preferences),
  (SELECT count(DISTINCT device_id) FROM subscriptions)"""
FILES = """SELECT string_agg(pg_relation_filenode(oid)::text, ' ' ORDER BY relname) FROM pg_class
  WHERE relname IN ('subscriptions', 'profiles', 'user_preferences') AND relkind = 'r'"""
READS = {
    "subscriptions": "SELECT * FROM subscriptions WHERE device_id = 'ABC123-DEF456';",
    "profiles": "SELECT * FROM profiles WHERE id = '00000000-0000-4000-8000-000000000001';",
    "user_preferences": "SELECT * FROM user_preferences WHERE user_id = '00000000-0000-4000-8000-000000000005';",
}
WRITE = "UPDATE subscriptions SET updated_at = NOW() WHERE device_id = 'DEVICE-B';"


class Session:
    """A psql process that runs one statement after the other."""

    def __init__(self):
        self.process = subprocess.Popen(
            ["psql", URL, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, bufsize=1)

    def run(self, statement):
        self.process.stdin.write(f"{statement}\n\\echo END\n")
        self.process.stdin.flush()
        while True:
            line = self.process.stdout.readline()
            if line == "END\n":
                return
            if not line:
                raise RuntimeError(f"failed: {statement}")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Client(threading.Thread):
    """Repeats a statement and measures each run."""

    def __init__(self, name, statement, ending):
        super().__init__()
        self.name, self.statement, self.ending = name, statement, ending
        self.longest, self.count, self.failure = 0.0, 0, None

    def run(self):
        try:
            session = Session()
            session.run("SELECT 1;")
            while not self.ending.is_set():
                start = time.monotonic()
                session.run(self.statement)
                self.longest = max(self.longest, time.monotonic() - start)
                self.count += 1
                time.sleep(0.01)
            session.close()
        except RuntimeError as error:
            self.failure = str(error)


def hold(ending, held):
    """Holds transactions that have read every table."""
    session = Session()
    while not ending.is_set():
        session.run("BEGIN;")
        for statement in READS.values():
            session.run(statement)
        held.set()
        ending.wait(HOLD)
        session.run("COMMIT;")
        ending.wait(GAP)
    session.close()


def psql(statement):
    return subprocess.run(
        ["psql", URL, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement], check=True,
        capture_output=True, text=True).stdout.strip()


def main():
    for name in ["supabase", "swiftclimb", "thaqalayn", "screentime"]:
        subprocess.run(
            ["psql", URL, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", os.path.join(FIXTURES, f"{name}.sql")], check=True)
    psql(MORE_ROWS)
    before, files = psql(STATE), psql(FILES)
    print(f"{ROWS} rows in each table; migrating", flush=True)

    ending, held = threading.Event(), threading.Event()
    readers = [Client(table, statement, ending) for table, statement in READS.items() for _ in range(2)]
    writer = Client("writer", WRITE, ending)
    holder = threading.Thread(target=hold, args=(ending, held))
    for thread in [*readers, writer, holder]:
        thread.start()
    held.wait(60)
    start = time.monotonic()
    migration = subprocess.run([PROGRAM, "migrate"], env={**os.environ, "DATABASE_URL": URL, "LOG_FORMAT": "text"})
    duration = time.monotonic() - start
    ending.set()
    for thread in [*readers, writer, holder]:
        thread.join()

    failures = [f"{client.name}: {client.failure}" for client in [*readers, writer] if client.failure]
    if migration.returncode != 0:
        failures.append("receiptd migrate failed")
    if psql(STATE) != before:
        failures.append("the rows are not the same")
    if psql(FILES) != files:
        failures.append("a table was rewritten")
    print(f"{os.environ['RECEIPTD_RUN']}: migrate took {duration:.1f} s beside transactions of {HOLD:.0f} s\n")
    print("| client | statements | longest, ms |\n|---|---:|---:|")
    for table in READS:
        own = [client for client in readers if client.name == table]
        longest = max(client.longest for client in own)
        print(f"| readers of `{table}` | {sum(client.count for client in own)} | {longest * 1000:.0f} |")
        if longest > LIMIT:
            failures.append(f"a reader of {table} waited for {longest:.2f} s")
    print(f"| writer of `subscriptions` | {writer.count} | {writer.longest * 1000:.0f} |")
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


sys.exit(main())
