"""Adopts 10,000 legacy customers and is killed twice: see scripts/harness/adopt-live.

main.py PROGRAMS FOLDER CUSTOMERS
"""
import collections
import datetime
import json
import os
import signal
import subprocess
import sys
import time

from customers import CLIMB, SCREEN, TAFSIR, Customers
from database import Database
from processes import wait_until
from recorder import Recorder
from store import Store

PROGRAMS, FOLDER, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])
FIXTURES = "Tests/ReceiptServiceTests/Fixtures/Live"
# Kills after these shares of all claims are decided.
KILLS = [0.2, 0.5]
# The lookups that a killed run has under way.
WIDTH = 32
LISTED = {"not_counted", "another_customer", "claimed_twice", "unknown"}
ROWS = """SELECT md5(string_agg(t, ' ' ORDER BY t)) FROM (
  SELECT profiles::text AS t FROM profiles UNION ALL SELECT subscriptions::text FROM subscriptions
  UNION ALL SELECT user_preferences::text FROM user_preferences) AS every"""

failures = []


def check(is_true, failure):
    if not is_true:
        failures.append(failure)
        print(f"FAILED: {failure}", file=sys.stderr, flush=True)


def say(line):
    print(f"{datetime.datetime.now():%H:%M:%S} {line}", flush=True)


class Run:
    """A `receiptd adopt`."""

    def __init__(self, environment, name, *arguments):
        self.report_file, self.start = f"{FOLDER}/{name}.json", time.monotonic()
        with open(self.report_file, "w") as report, open(f"{FOLDER}/{name}.log", "w") as log:
            self.process = subprocess.Popen(
                [f"{PROGRAMS}/receiptd", "adopt", "--json", *arguments], env={**os.environ, **environment}, stdout=report,
                stderr=log)

    def end(self):
        status = self.process.wait()
        self.seconds = time.monotonic() - self.start
        check(status == 0, f"receiptd adopt ended with {status}")
        with open(self.report_file) as file:
            return {report["bundleID"]: report for report in json.load(file)}

    def is_over(self):
        return self.process.poll() is not None

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def compare_report(name, reports, customers):
    """Compares the report with the truth: the outcomes of each app, and the claims that it lists."""
    for bundle in [CLIMB, SCREEN, TAFSIR]:
        truth = {key: verdict for key, verdict in customers.verdicts.items() if key[0] == bundle}
        outcomes = dict(collections.Counter(truth.values()))
        check(reports[bundle]["outcomes"] == outcomes, f"{name}, {bundle}: {reports[bundle]['outcomes']}; the truth is {outcomes}")
        listed = {(claim["customer"], claim.get("originalTransactionID", ""), claim["outcome"]) for claim in reports[bundle]["listed"]}
        expected = {(customer, id, verdict) for (_, customer, id), verdict in truth.items() if verdict in LISTED}
        check(listed == expected, f"{name}, {bundle}: {len(listed ^ expected)} listed claims differ")


def moment(value):
    """A time of PostgreSQL in microseconds."""
    return None if value == "" else round(float(value) * 1e6)


def same(time, expected):
    """Whether a time is the expected one; the App Store's have milliseconds."""
    if time is None or expected is None:
        return time is None and expected is None
    return abs(time - expected.timestamp() * 1e6) < 1000


def compare_rows(database, customers):
    """Compares every decision and row with the truth; returns how many."""
    found = {(bundle, customer, id): outcome for bundle, customer, id, outcome in database.rows(
        "SELECT bundle_id, customer, original_transaction_id, outcome FROM adoptions")}
    check(found == customers.verdicts, f"{len(set(found.items()) ^ set(customers.verdicts.items()))} decisions differ")
    wrong = collections.Counter()
    profiles = {user: rest for user, *rest in database.rows(
        """SELECT id, extract(epoch FROM premium_expires_at), premium_product_id, premium_original_transaction_id FROM profiles""")}
    for user, (expires, product, purchase) in customers.profiles.items():
        time, *names = profiles[user]
        if not same(moment(time), expires) or names != [product or "", purchase or ""]:
            wrong["profiles"] += 1
            if wrong["profiles"] <= 3:
                print(f"{user}: {profiles[user]}; the truth is {expires} {product} {purchase}", file=sys.stderr)
    subscriptions = {id: rest for id, *rest in database.rows(
        """SELECT original_transaction_id, extract(epoch FROM expiry_date), device_id, product_id, status FROM subscriptions""")}
    for purchase, (device, product, status, expires) in customers.subscriptions.items():
        time, *rest = subscriptions[purchase]
        if not same(moment(time), expires) or rest != [device, product, status]:
            wrong["subscriptions"] += 1
            if wrong["subscriptions"] <= 3:
                print(f"{purchase}: {subscriptions[purchase]}; the truth is {device} {product} {status} {expires}", file=sys.stderr)
    preferences = {user: rest for user, *rest in database.rows("SELECT user_id, is_premium, bookmark_limit FROM user_preferences")}
    for user, premium in customers.preferences.items():
        wrong["user_preferences"] += preferences[user] != (["t", "999"] if premium else ["f", "2"])
    awards = collections.Counter(user for user, in database.rows("SELECT user_id FROM grants"))
    paid = {user for (_, user, _), verdict in customers.verdicts.items() if verdict == "awarded"}
    wrong["grants"] += len(set(awards) ^ paid) + sum(count > 1 for count in awards.values())
    for table, count in wrong.items():
        check(count == 0, f"{count} rows of {table} differ from the truth")
    return len(customers.profiles) + len(customers.subscriptions) + len(customers.preferences)


def main():
    database = Database(f"{FOLDER}/postgres", "-c fsync=off").create()
    store = Store(PROGRAMS, FOLDER, "config/apps.json")
    recorder = Recorder(store.url)
    try:
        adopt(database, store, recorder)
    finally:
        store.stop()
        recorder.close()
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


def decided(database):
    return int(database.query("SELECT count(*) FROM adoptions WHERE outcome <> 'failed'"))


def adopt(database, store, recorder):
    for name in ["supabase", "swiftclimb", "thaqalayn", "screentime"]:
        subprocess.run(
            ["psql", database.url, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", os.path.join(FIXTURES, f"{name}.sql")], check=True)
    # The rows of this run replace those of the files.
    database.query("TRUNCATE auth.users, profiles, user_preferences, subscriptions")
    start = time.monotonic()
    customers = Customers(store, datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0), COUNT)
    with open(f"{FOLDER}/rows.sql", "w") as file:
        file.write(customers.script())
    subprocess.run(["psql", database.url, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", f"{FOLDER}/rows.sql"], check=True)
    say(f"{len(customers.users) + len(customers.subscriptions)} customers with {customers.claims} claims made in {time.monotonic() - start:.0f} s")

    environment = {
        **store.environment, "DATABASE_URL": database.url, "APP_STORE_URL": recorder.url,
        "APP_STORE_SANDBOX_URL": f"{recorder.url}/sandbox", "SWIFTCLIMB_JWT_SECRET": "s" * 48, "THAQALAYN_JWT_SECRET": "t" * 48,
        "LOG_FORMAT": "text"}
    subprocess.run(
        [f"{PROGRAMS}/receiptd", "migrate"], env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL)

    before = database.query(ROWS)
    dry = Run(environment, "dry", "--dry-run")
    compare_report("dry run", dry.end(), customers)
    check(database.query("SELECT count(*) FROM adoptions") == "0" and database.query(ROWS) == before, "the dry run wrote a row")
    say(f"dry run: {dry.seconds:.0f} s")
    dry_calls = sum(len(times) for times in recorder.calls.values())

    # The first run follows the dry run at once, and each further run the kill.
    start = time.monotonic()
    for number, share in enumerate(KILLS):
        run = Run(environment, f"killed-{number + 1}")
        wait_until(
            lambda run=run, share=share: run.is_over() or decided(database) >= share * customers.claims, 1800,
            f"{share:.0%} of the decisions")
        if run.is_over():
            raise SystemExit(f"receiptd adopt ended by itself; killed-{number + 1}.log says why")
        run.kill()
        say(f"killed when {decided(database)} claims were decided")
    last = Run(environment, "last")
    compare_report("adopt", last.end(), customers)
    seconds = time.monotonic() - start
    say(f"adopt with {len(KILLS)} kills: {seconds:.0f} s")
    calls = sum(len(times) for times in recorder.calls.values()) - dry_calls
    # A lookup costs at most four calls.
    check(calls <= dry_calls + len(KILLS) * WIDTH * 4, f"{calls} calls with kills, {dry_calls} without: decided claims were asked again")
    rows = compare_rows(database, customers)
    again = Run(environment, "again")
    compare_report("a further run", again.end(), customers)

    print(f"\n{os.environ['RECEIPTD_RUN']}: {customers.claims} claims, dry run {dry.seconds:.0f} s, adopt with {len(KILLS)} kills"
          f" {seconds:.0f} s, a further run {again.seconds:.0f} s; {rows} rows compared\n")
    print("| app | environment | endpoint | calls | most in a second | Apple's rate |\n|---|---|---|---:|---:|---:|")
    for app, environment, endpoint, count, most, allowed in recorder.rates():
        print(f"| {app} | {environment} | {endpoint} | {count} | {most} | {allowed} |")
        check(most <= allowed, f"{most} calls of {endpoint} for {app} in a second; {environment} allows {allowed}")
    print("\n| outcome | claims |\n|---|---:|")
    for outcome, count in sorted(collections.Counter(customers.verdicts.values()).items()):
        print(f"| {outcome} | {count} |")


sys.exit(main())
