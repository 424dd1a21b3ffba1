"""The latency at fixed rates of arrivals, and how rate and latency depend on connections and on the size of the tables.

Rate limits are on, with a limit that one address of a test does not reach.
"""
import json
import os
import statistics
import subprocess

import machine
from load import Load, OpenLoad
from processes import await_port, family_cpu_seconds, free_port
from world import APP, DEVICE_APP, World

LOADS = {"webhook": "notifications", "validate": "transactions"}
SHARES = [25, 50, 75]
RUNS = 5
CONNECTIONS = [1, 4, 16, 32, 64, 128, 256]
SIZES = [100_000, 1_000_000]
# Of the open loop: enough that a connection is free, as long as the server keeps up.
OPEN_CONNECTIONS = 128
SETTINGS = {"RATE_LIMIT": "1000000"}


class OpenLoop:
    def __init__(self, options):
        self.options, self.seconds = options, options.seconds
        self.names = [name for name in LOADS if not options.only or name in options.only.split(",")]
        self.world = World("bench", SETTINGS)
        self.worlds = [self.world]
        self.results = {"run": os.environ.get("RECEIPTD_RUN", ""), "seconds": self.seconds, "loads": {}}

    def run(self):
        self.world.start()
        self.results["bounds"] = {
            "verifications": machine.verifications_per_second() * os.cpu_count(),
            "upserts": machine.upserts_per_second(self.world, self.options.connections)}
        print(f"bounds: {self.results['bounds']}", flush=True)
        self.world.count_days()
        for name in self.names:
            self.results["loads"][name] = found = {}
            found["closed"] = self.closed(self.world, name, 8_000, RUNS)
            rate = found["rate"] = statistics.median(one["rate"] for one in found["closed"])
            found["open"] = {share: [self.open(self.world, name, rate * share / 100) for _ in range(RUNS)] for share in SHARES}
            found["connections"] = {count: self.closed(self.world, name, 2 * rate, 1, count)[0] for count in CONNECTIONS}
        self.peer()
        for size in SIZES:
            self.filled(size)

    def body_count(self, rate):
        return int(rate * self.seconds) + 2000

    def measured(self, world, name, load, bodies):
        """A load whose answers must all be 2xx, and each of which must have left its row."""
        table = LOADS[name]
        before = world.rows(table)
        world.sql("CHECKPOINT")
        result = world.measure(load)
        os.unlink(bodies)
        if result["refused"] or result["broken"]:
            raise SystemExit(f"{result['refused']} answers were not 2xx, {result['broken']} connections broke")
        if result["seconds"] < self.seconds * 0.95:
            raise SystemExit(f"the bodies were used up after {result['seconds']} of {self.seconds} s")
        world.kept(table, before, result, max(OPEN_CONNECTIONS, self.options.connections, *CONNECTIONS))
        return result

    def closed(self, world, name, rate, runs, connections=None):
        found = []
        for _ in range(runs):
            bodies = world.corpus(LOADS[name], self.body_count(rate))
            load = Load(world.port, f"/api/v1/subscriptions/{name}", bodies, self.seconds,
                        connections or self.options.connections)
            found.append(self.measured(world, name, load, bodies))
            rate = min(rate, 2 * found[-1]["rate"])
            self.tell(f"{name}, closed, {connections or self.options.connections} connections", found[-1])
        return found

    def open(self, world, name, rate):
        world.count_days()
        bodies = world.corpus(LOADS[name], self.body_count(rate))
        load = OpenLoad(world.port, f"/api/v1/subscriptions/{name}", bodies, self.seconds, OPEN_CONNECTIONS, rate)
        result = self.measured(world, name, load, bodies)
        self.tell(f"{name}, open, {rate:.0f} a second", result)
        return result

    def tell(self, title, result):
        print(f"  {title}: {result['rate']:.0f}/s  p50 {result['p50']:.2f} ms  p99 {result['p99']:.2f} ms  "
              f"max {result['max']:.0f} ms", flush=True)

    # MARK: FastAPI

    def peer(self):
        """The same bodies to two workers of FastAPI over Apple's Python library, with a database of their own."""
        self.world.sql("CREATE DATABASE peer")
        url, port = self.world.url.removesuffix("/bench") + "/peer", free_port()
        with open(self.world.catalog(), encoding="utf-8") as file:
            ids = {app["bundleID"]: app["appAppleID"] for app in json.load(file)["apps"] if "appAppleID" in app}
        python = os.path.abspath(".build-python/bin/python")
        folder = os.path.dirname(__file__)
        environment = {"DATABASE_URL": url, "PEER_ROOT": f"{self.world.authority}/root.der",
                       "PEER_APPS": ",".join(f"{app}={ids[app]}" for app in (APP, DEVICE_APP)),
                       "PEER_WEBHOOK_APP": APP, "PEER_VALIDATE_APP": DEVICE_APP}
        subprocess.run([python, "-c", "import fastapi_peer as p; p.POOL.open(); "
                        "c = p.POOL.getconn(); c.execute(p.TABLES); c.commit(); p.POOL.putconn(c); p.POOL.close()"],
                       cwd=folder, env={**os.environ, **environment}, check=True)
        child = self.world.start_child(
            [python, "-m", "uvicorn", "--app-dir", folder, "fastapi_peer:app", "--workers", "2", "--port", str(port),
             "--log-level", "warning"], "fastapi", environment)
        await_port(port, 30)
        self.results["peer"] = {name: self.peer_load(name, port, child.pid) for name in self.names}
        child.stop()

    def peer_load(self, name, port, pid):
        path = f"/api/v1/subscriptions/{name}"

        def cost(load):
            """Also of the workers, which are the process's children."""
            before = family_cpu_seconds(pid)
            result = load.run()
            if result["refused"] or result["broken"]:
                raise SystemExit(f"FastAPI: {result['refused']} answers were not 2xx, {result['broken']} connections broke")
            result["rate"] = result["requests_per_second"]
            result["server_cpu_per_1000"] = (family_cpu_seconds(pid) - before) / result["requests"] * 1000
            return result
        bodies = self.world.corpus(LOADS[name], self.body_count(3_000))
        closed = cost(Load(port, path, bodies, self.seconds, self.options.connections))
        self.tell(f"FastAPI, {name}, closed", closed)
        half = cost(OpenLoad(port, path, self.fresh(name, bodies), self.seconds, OPEN_CONNECTIONS, closed["rate"] / 2))
        self.tell(f"FastAPI, {name}, open", half)
        return {"closed": closed, "half": half}

    def fresh(self, name, bodies):
        os.unlink(bodies)
        return self.world.corpus(LOADS[name], self.body_count(3_000))

    # MARK: Full tables

    def filled(self, size):
        """The closed loop, and the open one at half of the empty database's rate, with so many subscriptions in the tables."""
        world = World("bench", SETTINGS, authority=self.world.authority)
        self.worlds.append(world)
        world.start()
        print(f"filling the tables with {size:,} subscriptions", flush=True)
        subprocess.run(["scripts/harness/load-million", str(size)], env={**os.environ, "DATABASE_URL": world.url},
                       check=True, stdout=subprocess.DEVNULL)
        world.count_days()
        found = self.results.setdefault("sizes", {})[size] = {}
        for name in self.names:
            rate = self.results["loads"][name]["rate"]
            found[name] = {"closed": self.closed(world, name, 2 * rate, 1)[0], "open": self.open(world, name, rate / 2)}
        world.stop()

    def stop(self, keep):
        for world in self.worlds:
            world.stop(keep)

    # MARK: The report

    def print_table(self):
        bounds, loads = self.results["bounds"], self.results["loads"]
        print(f"\n{self.results['run']}; {self.seconds} s a run, {RUNS} runs.\n")
        print("| closed loop | a second | of verifications | of durable upserts | p99 ms | peak MB |")
        print("|---|---:|---:|---:|---:|---:|")
        for name, found in loads.items():
            print(f"| {name} | {spread([one['rate'] for one in found['closed']], 0)} | "
                  f"{found['rate'] / bounds['verifications']:.2f} | {found['rate'] / bounds['upserts']:.2f} | "
                  f"{spread([one['p99'] for one in found['closed']])} | {found['closed'][-1]['resident_mb']:.0f} |")
        print("\n| open loop | a second | p50 ms | p90 ms | p99 ms | p99.9 ms | sent late |\n|---|---:|---:|---:|---:|---:|---:|")
        for name, found in loads.items():
            for share, runs in found["open"].items():
                late = sum(one["late"] for one in runs) / sum(one["requests"] for one in runs)
                cells = [spread([one[key] for one in runs]) for key in ("p50", "p90", "p99", "p999")]
                print(f"| {name}, {share} % | {found['rate'] * share / 100:,.0f} | {' | '.join(cells)} | {late:.1%} |")
        print("\n| connections | " + " | ".join(f"{name} a second | {name} p99 ms" for name in loads) + " |")
        print("|---|" + "---:|---:|" * len(loads))
        for count in CONNECTIONS:
            cells = [found["connections"][count] for found in loads.values()]
            print(f"| {count} | " + " | ".join(f"{one['rate']:,.0f} | {one['p99']:.1f}" for one in cells) + " |")
        print("\n| subscriptions in the tables | "
              + " | ".join(f"{name} a second | {name} p99 ms at half" for name in loads) + " |")
        print("|---|" + "---:|---:|" * len(loads))
        none = [(found["rate"], statistics.median(one["p99"] for one in found["open"][50])) for found in loads.values()]
        print("| 0 | " + " | ".join(f"{rate:,.0f} | {p99:.1f}" for rate, p99 in none) + " |")
        for size, found in self.results["sizes"].items():
            print(f"| {size:,} | " + " | ".join(
                f"{found[name]['closed']['rate']:,.0f} | {found[name]['open']['p99']:.1f}" for name in loads) + " |")
        print("\n| beside FastAPI, two workers | a second | of receiptd's | CPU ms each | p99 ms at half of its rate |")
        print("|---|---:|---:|---:|---:|")
        for name, found in self.results["peer"].items():
            print(f"| {name} | {found['closed']['rate']:,.0f} | {found['closed']['rate'] / loads[name]['rate']:.2f} | "
                  f"{found['closed']['server_cpu_per_1000']:.1f} | {found['half']['p99']:.1f} |")
        print(f"\nBounds: {bounds['verifications']:,.0f} P-256 verifications and {bounds['upserts']:,.0f} durable upserts a second.")


def spread(values, digits=1):
    """The median, with the lowest and the highest."""
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"
