"""Measures the bounds of the machine, runs each load, and prints the table."""
import argparse
import json
import os
import subprocess

import health
import machine
import report
from load import Load
from processes import cpu_seconds, family_cpu_seconds, resident_megabytes
from report import FULL
from world import World


class Run:
    def __init__(self, options):
        self.options = options
        self.world = World("bench")
        self.results = {"run": os.environ.get("RECEIPTD_RUN", "")}

    def measure(self, name, load):
        """Runs a load and records its cost."""
        speed_before = machine.verifications_per_second(1)
        server_before, database_before = cpu_seconds(self.world.server.pid), family_cpu_seconds(self.world.postgres)
        result = load.run()
        requests = max(result["requests"], 1)
        result["rate"] = result["requests"] / result["seconds"]
        result["server_cpu_per_1000"] = (cpu_seconds(self.world.server.pid) - server_before) / requests * 1000
        result["postgres_cpu_per_1000"] = (family_cpu_seconds(self.world.postgres) - database_before) / requests * 1000
        result["resident_mb"] = resident_megabytes(self.world.server.pid)
        # The machine's speed changes from minute to minute: each load has the bound of its own minute.
        result["verifications_per_second"] = (speed_before + machine.verifications_per_second(1)) / 2
        self.results[name] = result
        print(f"  {name}: {result['rate']:.0f}/s  p50 {result['p50']:.2f} ms  p99 {result['p99']:.2f} ms  "
              f"receiptd {result['server_cpu_per_1000']:.3f} s  postgres {result['postgres_cpu_per_1000']:.3f} s a "
              f"thousand  {result['resident_mb']:.0f} MB  verifications "
              f"{result['verifications_per_second']:.0f}/s  not 2xx {result['refused']}  broken {result['broken']}",
              flush=True)
        return result

    def bounds(self):
        bounds = {"cores": os.cpu_count()}
        bounds["verifications_per_second"] = machine.verifications_per_second()
        bounds["upserts_per_second"] = machine.upserts_per_second(self.world, self.options.connections)
        bounds["fsync_ms"] = machine.fsync_milliseconds(self.world.work)
        self.results["bounds"] = bounds
        print("  " + "  ".join(f"{name} {value:.2f}" for name, value in bounds.items()), flush=True)
        return bounds

    def wants(self, name):
        return not self.options.only or name in self.options.only.split(",")

    def load(self, port, path, bodies, **kept):
        return Load(port, path, bodies, seconds=self.options.seconds,
                    connections=kept.pop("connections", self.options.connections), **kept)

    def webhook(self):
        self.measure_route("webhook", "duplicates", "notifications", self.options.corpus, 8000)

    def validate(self):
        self.measure_route("validate", "repeated", "transactions", self.options.corpus * 2, 12000)

    def measure_route(self, name, again, kind, count, single):
        """New requests at full load; then the loads of the options."""
        self.measure_new(name, kind, count, again)
        if self.wants("pauses"):
            # The rate of requests without latency: the measured one is lower.
            rate = self.results[f"{name}, new"]["rate"] / 2
            self.measure_extra(f"{name}, with pauses", name, kind,
                               int(rate * self.options.seconds * 1.3) + 2000, rate=rate)
        if self.wants("single"):
            self.measure_extra(f"{name}, one connection", name, kind, single, connections=1)

    def measure_new(self, name, kind, count, again=None, where=""):
        """New requests, each of which must be in the table afterwards, and the same ones again."""
        path = f"/api/v1/subscriptions/{name}"
        bodies = self.world.corpus(kind, count)
        before, size = self.rows(kind), int(self.world.sql("SELECT pg_database_size('bench')"))
        new = self.measure(f"{name}, new{where}", self.load(self.world.port, path, bodies))
        kept = self.rows(kind) - before
        self.world.sql("CHECKPOINT")
        new["kept"] = kept
        new["disk_each"] = (int(self.world.sql("SELECT pg_database_size('bench')")) - size) / max(kept, 1)
        # One response of each connection may have been under way when the clock stopped.
        good = new["requests"] - new["refused"]
        if not good <= kept <= good + self.options.connections:
            raise SystemExit(f"{good} answered 200, {kept} kept")
        if again and not self.options.once:
            self.measure(f"{name}, {again}", self.load(self.world.port, path, bodies))
        os.unlink(bodies)

    def measure_extra(self, title, name, kind, count, **kept):
        bodies = self.world.corpus(kind, count)
        self.measure(title, self.load(self.world.port, f"/api/v1/subscriptions/{name}", bodies, **kept))
        os.unlink(bodies)

    def rows(self, table):
        return int(self.world.sql(f"SELECT count(*) FROM {table}"))

    def full(self):
        """New requests with 1,000,000 subscriptions and 3,000,000 notifications in the tables."""
        print("  filling the tables", flush=True)
        subprocess.run(["scripts/harness/load-million"], env={**os.environ, "DATABASE_URL": self.world.url}, check=True,
                       stdout=subprocess.DEVNULL)
        # The running day has become due meanwhile, which costs PostgreSQL seconds.
        self.count_days()
        self.world.sql("CHECKPOINT")
        if self.wants("webhook"):
            self.measure_new("webhook", "notifications", self.options.corpus, where=FULL)
        if self.wants("validate"):
            self.measure_new("validate", "transactions", self.options.corpus * 2, where=FULL)

    def count_days(self):
        """Marks every day as counted: the backlog of a loaded database would keep a core busy for half a minute."""
        self.world.sql(
            "INSERT INTO kpi_days (day, as_of, computed_at) "
            "SELECT day, least(now(), (day + 1)::timestamp AT TIME ZONE 'UTC'), now() "
            "FROM (SELECT generate_series(date '2008-07-10', today, interval '1 day')::date AS day "
            "FROM (SELECT (now() AT TIME ZONE 'UTC')::date AS today) AS clock) AS days "
            "ON CONFLICT (day) DO UPDATE SET as_of = excluded.as_of, computed_at = excluded.computed_at")

    def run(self):
        self.world.start()
        print("bounds", flush=True)
        self.bounds()
        print("loads", flush=True)
        # The corpus has purchases of years, and a server counts each of those days once.
        self.count_days()
        if self.wants("healthz"):
            self.results.update(health.measure(self.world, self.options.seconds, self.options.connections))
        if self.wants("webhook"):
            self.webhook()
        if self.wants("validate"):
            self.validate()
        if self.wants("full"):
            self.full()
        self.results["peak_resident_mb"] = resident_megabytes(self.world.server.pid, peak=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/harness/bench")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--corpus", type=int, default=120_000, help="notifications to make; transactions twice as many")
    parser.add_argument("--json")
    parser.add_argument("--only", default="")
    parser.add_argument("--once", action="store_true", help="leave out what is posted again")
    parser.add_argument("--keep", action="store_true", help="leave the folder with its logs")
    run = Run(parser.parse_args())
    try:
        run.run()
    finally:
        run.world.stop(keep=run.options.keep)
    report.print_table(run.results)
    if run.options.json:
        with open(run.options.json, "w", encoding="utf-8") as file:
            json.dump(run.results, file, indent=1)
            file.write("\n")


main()
