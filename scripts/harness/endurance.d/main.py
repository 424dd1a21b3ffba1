"""Runs hour by hour and compares the last with earlier ones."""
import argparse
import json
import os
import signal
import sys
import time

import samples
from callers import MIX, Callers
from processes import resident_megabytes
from world import World

HOURS = 24
SAMPLES = 10


class Life:
    def __init__(self, options):
        self.options = options
        self.hour = max(1, options.requests // HOURS)
        # A warm-up hour fills caches and pools.
        self.total = self.hour * (HOURS + 1)
        # Rate limits count all callers and refuse none.
        self.world = World("endurance", {"RATE_LIMIT": "100000"})
        self.callers = None
        self.hours = []
        self.faults = []

    def run(self):
        self.world.start()
        print(f"signing for {self.total:,} requests", flush=True)
        # The mix is random; a caller without new bodies repeats old ones.
        paths = {
            what: self.world.corpus(f"{what}s", self.total * MIX[f"{what}, new"] // 100)
            for what in ("notification", "transaction")}
        self.callers = Callers(
            self.options.callers, self.total, (self.world.port, self.world.admin_port), paths)
        self.began = time.monotonic()
        self.callers.start()
        print("| hour | requests | a second | " + " | ".join(what for what, *_ in samples.FIGURES.values()) + " |")
        print("|---:|" + "---:|" * (len(samples.FIGURES) + 2), flush=True)
        for number in range(HOURS + 1):
            self.live_an_hour(number)
        counts, surprises = self.callers.results()
        self.judge(counts, surprises)
        return {
            "run": os.environ.get("RECEIPTD_RUN", ""), "requests": self.callers.progress, "seconds": time.monotonic() - self.began, "hours": self.hours,
            "counts": counts, "surprises": surprises, "faults": self.faults,
            "peak_resident_mb": resident_megabytes(self.world.server.pid, peak=True)}

    def live_an_hour(self, number):
        began = time.monotonic()
        self.world.server.process.send_signal(signal.SIGHUP)
        taken = []
        for part in range(1, SAMPLES + 1):
            self.await_progress(number * self.hour + self.hour * part // SAMPLES)
            taken.append(samples.take(self.world))
        figures = samples.medians(taken)
        self.hours.append({"hour": number, "medians": figures, "samples": taken})
        print(f"| {number or 'warm-up'} | {self.hour * (number + 1):,} | "
              f"{self.hour / (time.monotonic() - began):.0f} | "
              + " | ".join(f"{figures[name]:.1f}".removesuffix(".0") for name in samples.FIGURES) + " |", flush=True)

    def await_progress(self, requests):
        while self.callers.progress < requests:
            if self.callers.have_failed or self.world.server.process.poll() is not None:
                raise SystemExit("a caller or receiptd ended")
            time.sleep(0.01)

    def judge(self, counts, surprises):
        self.faults += samples.faults([hour["medians"] for hour in self.hours])
        self.faults += [f"{count} times {what}" for what, count in surprises.items()]
        notifications = counts["notification, new: as expected"]
        transactions = counts["transaction, new: as expected"]
        # Each notification has a transaction of its own.
        self.compare("notifications", notifications)
        self.compare("transactions", notifications + transactions)
        unprocessed = int(self.world.sql("SELECT count(*) FROM notifications WHERE processed_at IS NULL"))
        if unprocessed:
            self.faults.append(f"{unprocessed} notifications are not processed")
        reloads = open(f"{self.world.work}/receiptd.log").read().count("reloaded the configuration")
        if reloads != HOURS + 1:
            self.faults.append(f"{reloads} reloads of {HOURS + 1}")

    def stop(self):
        if self.callers:
            self.callers.stop()
        self.world.stop(keep=self.options.keep)

    def compare(self, table, answered):
        kept = int(self.world.sql(f"SELECT count(*) FROM {table}"))
        print(f"{table}: {answered:,} answered 200, {kept:,} kept")
        if kept != answered:
            self.faults.append(f"{answered} {table} answered 200, {kept} kept")


def main():
    parser = argparse.ArgumentParser(prog="scripts/harness/endurance")
    parser.add_argument("requests", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--callers", type=int, default=16, help="connections at a time")
    parser.add_argument("--json", metavar="FILE", help="write every sample there as well")
    parser.add_argument("--keep", action="store_true", help="leave the folder with its logs")
    options = parser.parse_args()
    # Ends its child processes on SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    life = Life(options)
    try:
        result = life.run()
    finally:
        life.stop()
    for kind in sorted(kind for kind in result["counts"] if ": " not in kind):
        print(f"  {kind:<28}{result['counts'][kind]:>10,}")
    print(f"{result['requests']:,} requests in {result['seconds']:.0f} s, "
          f"peak of memory {result['peak_resident_mb']:.0f} MB")
    print(result["run"])
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    for fault in result["faults"]:
        print(f"FAILED: {fault}")
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
