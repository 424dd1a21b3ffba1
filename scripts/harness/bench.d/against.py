"""Measures this tree's build and that of another commit by turns, each with its own PostgreSQL, with the same new bodies.

Only one server is under load at any time. The order of the two changes from round to round, and the medians count.
"""
import os
import statistics
import time

from load import Load
from processes import resident_megabytes, wait_until
from world import World

THIS, AGAINST = "this", "against"
# The table that a load fills; healthz fills none.
LOADS = {"webhook": "notifications", "validate": "transactions", "healthz": None}
PAUSES = ", with pauses"
COSTS = {"rate": "rate", "server_cpu": "server_cpu_per_1000", "postgres_cpu": "postgres_cpu_per_1000"}
WARM_UP, WARM_UP_RATE = 2, 10_000
# Seconds of CPU time in a second.
IDLE = 0.05


class Turns:
    def __init__(self, options):
        self.options = options
        self.this = World("bench")
        source = os.environ["AGAINST_SOURCE"]
        self.worlds = {THIS: self.this, AGAINST: World(
            "bench", binaries=os.environ["AGAINST_BIN"], source=source, authority=self.this.authority)}
        self.results = {
            "run": os.environ.get("RECEIPTD_RUN", ""), "against": os.path.basename(source), "seconds": options.seconds,
            "connections": options.connections, "loads": {}}
        # The highest rate so far of each load, which decides how many bodies are made.
        self.rates = {}

    def run(self):
        for world in self.worlds.values():
            world.start()
        names = [name for name in LOADS if not self.options.only or name in self.options.only.split(",")]
        print("warm-up", flush=True)
        for name in names:
            self.turn(name, WARM_UP, WARM_UP * WARM_UP_RATE, list(self.worlds))
        for number in range(self.options.rounds):
            self.round(number, names, lambda name: (2 * self.rates[name], None))
        if self.options.half:
            halves = {name: self.median(name, AGAINST, "rate") / 2 for name in names if LOADS[name]}
            for number in range(self.options.rounds):
                self.round(number, halves, lambda name: (1.3 * halves[name], halves[name]), PAUSES)
        self.results["ratios"] = {name: self.ratios(name) for name in self.results["loads"]}
        self.results["peak_resident_mb"] = {
            side: resident_megabytes(world.server.pid, peak=True) for side, world in self.worlds.items()}

    def round(self, number, names, rates, title=""):
        """One turn of each load. `rates` gives a load's bodies a second, and the rate that its pauses are for."""
        print(f"round {number + 1}{title}", flush=True)
        order = list(self.worlds) if number % 2 == 0 else list(reversed(self.worlds))
        for name in names:
            bodies, rate = rates(name)
            found = self.turn(name, self.options.seconds, int(bodies * self.options.seconds) + 2000, order, rate)
            sides = self.results["loads"].setdefault(name + title, {THIS: [], AGAINST: []})
            for side, result in found.items():
                sides[side].append(result)

    def turn(self, name, seconds, count, order, rate=None):
        """The result of a load on each side."""
        bodies = LOADS[name] and self.this.corpus(LOADS[name], count)
        found = {side: self.measure(name, side, bodies, seconds, rate) for side in order}
        if bodies:
            os.unlink(bodies)
        if not rate:
            self.rates[name] = max(result["rate"] for result in found.values())
        return found

    def measure(self, name, side, bodies, seconds, rate):
        world, table = self.worlds[side], LOADS[name]
        port, path = (world.port, f"/api/v1/subscriptions/{name}") if table else (world.admin_port, f"/{name}")
        before = world.rows(table) if table else 0
        self.settle()
        result = world.measure(Load(port, path, bodies, seconds, self.options.connections, rate))
        print(f"  {name}, {side}: {result['rate']:.0f}/s  p50 {result['p50']:.2f} ms  p99 {result['p99']:.2f} ms  receiptd "
              f"{result['server_cpu_per_1000'] * 1000:.0f} µs  PostgreSQL {result['postgres_cpu_per_1000'] * 1000:.0f} µs  "
              f"{result['resident_mb']:.0f} MB", flush=True)
        if result["refused"] or result["broken"]:
            raise SystemExit(f"{result['refused']} answers were not 2xx, {result['broken']} connections broke")
        if result["seconds"] < seconds * 0.95:
            raise SystemExit(f"the bodies were used up after {result['seconds']} of {seconds} s")
        if table:
            world.kept(table, before, result, self.options.connections)
        return result

    def settle(self):
        """Writes out both databases, and waits until what an earlier load left to do is done."""
        for world in self.worlds.values():
            # Each day that is due costs PostgreSQL time; the build of `d735fc2` counts all days of an empty database.
            world.count_days()
            world.sql("CHECKPOINT")

        def are_idle():
            before = self.cpu()
            time.sleep(1)
            return self.cpu() - before < IDLE
        wait_until(are_idle, 60, "a second in which both sides are idle")

    def cpu(self):
        return sum(sum(world.cpu()) for world in self.worlds.values())

    # MARK: The report

    def median(self, name, side, key):
        return statistics.median(one[key] for one in self.results["loads"][name][side])

    def ratios(self, name):
        """For each cost the median, lowest and highest ratio of a round."""
        sides, found = self.results["loads"][name], {}
        for cost, key in COSTS.items():
            pairs = [(this[key], against[key]) for this, against in zip(sides[THIS], sides[AGAINST])]
            if all(against for _, against in pairs):
                ratios = sorted(this / against for this, against in pairs)
                found[cost] = {"median": statistics.median(ratios), "lowest": ratios[0], "highest": ratios[-1]}
        return found

    def print_table(self):
        def cell(name, key, digits, factor=1):
            return " / ".join(f"{self.median(name, side, key) * factor:,.{digits}f}" for side in self.worlds)

        def ratio(name, cost):
            found = self.results["ratios"][name].get(cost)
            return f"{found['median']:.2f} ({found['lowest']:.2f} to {found['highest']:.2f})" if found else ""

        print(f"\n{self.results['run']}; against {self.results['against']}; {self.options.rounds} rounds of "
              f"{self.options.seconds} s, {self.options.connections} connections. Each pair is this build / the other; each "
              "ratio is the median of the rounds, with the lowest and the highest.\n")
        print("| load | a second | ratio | p50 ms | p99 ms | receiptd CPU µs each | ratio | PostgreSQL CPU µs each | ratio |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
        for name in self.results["loads"]:
            database = LOADS.get(name.removesuffix(PAUSES))
            print(f"| {name} | {cell(name, 'rate', 0)} | {ratio(name, 'rate')} | {cell(name, 'p50', 1)} | "
                  f"{cell(name, 'p99', 1)} | {cell(name, 'server_cpu_per_1000', 0, 1000)} | {ratio(name, 'server_cpu')} | "
                  f"{cell(name, 'postgres_cpu_per_1000', 0, 1000) if database else ''} | "
                  f"{ratio(name, 'postgres_cpu') if database else ''} |")
        peaks = self.results["peak_resident_mb"]
        print(f"\nPeak of resident memory: {peaks[THIS]:.0f} / {peaks[AGAINST]:.0f} MB.")

    def stop(self, keep):
        for world in self.worlds.values():
            world.stop(keep)
