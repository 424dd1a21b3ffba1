"""Measures the bounds of the machine, runs each load, and prints the table. With --against compares two builds; with --open
sends at fixed rates."""
import argparse
import json
import os
import subprocess

import health
import machine
import report
from against import Turns
from load import Load
from open_loop import OpenLoop
from processes import resident_megabytes
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
        result = self.world.measure(load)
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
        before, size = self.world.rows(kind), int(self.world.sql("SELECT pg_database_size('bench')"))
        new = self.measure(f"{name}, new{where}", self.load(self.world.port, path, bodies))
        kept = self.world.kept(kind, before, new, self.options.connections)
        self.world.sql("CHECKPOINT")
        new["kept"] = kept
        new["disk_each"] = (int(self.world.sql("SELECT pg_database_size('bench')")) - size) / max(kept, 1)
        if again and not self.options.once:
            self.measure(f"{name}, {again}", self.load(self.world.port, path, bodies))
        os.unlink(bodies)

    def measure_extra(self, title, name, kind, count, **kept):
        bodies = self.world.corpus(kind, count)
        self.measure(title, self.load(self.world.port, f"/api/v1/subscriptions/{name}", bodies, **kept))
        os.unlink(bodies)

    def full(self):
        """New requests with 1,000,000 subscriptions and 3,000,000 notifications in the tables."""
        print("  filling the tables", flush=True)
        subprocess.run(["scripts/harness/load-million"], env={**os.environ, "DATABASE_URL": self.world.url}, check=True,
                       stdout=subprocess.DEVNULL)
        # The running day has become due meanwhile, which costs PostgreSQL seconds.
        self.world.count_days()
        self.world.sql("CHECKPOINT")
        if self.wants("webhook"):
            self.measure_new("webhook", "notifications", self.options.corpus, where=FULL)
        if self.wants("validate"):
            self.measure_new("validate", "transactions", self.options.corpus * 2, where=FULL)

    def run(self):
        self.world.start()
        print("bounds", flush=True)
        self.bounds()
        print("loads", flush=True)
        # The corpus has purchases of years, and a server counts each of those days once.
        self.world.count_days()
        if self.wants("healthz"):
            self.results.update(health.measure(self.world, self.options.seconds, self.options.connections))
        if self.wants("webhook"):
            self.webhook()
        if self.wants("validate"):
            self.validate()
        if self.wants("full"):
            self.full()
        self.results["peak_resident_mb"] = resident_megabytes(self.world.server.pid, peak=True)

    def stop(self, keep):
        self.world.stop(keep)

    def print_table(self):
        report.print_table(self.results)


def main():
    parser = argparse.ArgumentParser(prog="scripts/harness/bench")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--corpus", type=int, default=120_000, help="notifications to make; transactions twice as many")
    parser.add_argument("--json")
    parser.add_argument("--only", default="")
    parser.add_argument("--once", action="store_true", help="leave out what is posted again")
    parser.add_argument("--keep", action="store_true", help="leave the folder with its logs")
    parser.add_argument("--against", metavar="COMMIT", help="compare with the build of this commit, by turns")
    parser.add_argument("--open", action="store_true", help="send at fixed rates, whatever the responses take")
    parser.add_argument("--rounds", type=int, default=5, help="of --against")
    parser.add_argument("--half", action="store_true", help="with --against: also at half the rate of COMMIT's build")
    options = parser.parse_args()
    run = Turns(options) if options.against else OpenLoop(options) if options.open else Run(options)
    try:
        run.run()
    finally:
        run.stop(options.keep)
    run.print_table()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(run.results, file, indent=1)
            file.write("\n")


main()
