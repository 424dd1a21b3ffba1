"""One run: bounds of the machine, then load by load, then the table."""
import argparse
import glob
import json
import os
import shutil
import subprocess
import tempfile

import machine
import report
from load import Load
from processes import Child, await_port, await_url, cpu_seconds, family_cpu_seconds, free_port, resident_megabytes

APP, PRODUCT = "com.swiftclimb.app", "com.swiftclimb.premium.monthly"
DEVICE_APP, DEVICE_PRODUCT = "com.screentimerewards", "com.screentimerewards.family.monthly"


class Run:
    def __init__(self, options):
        self.options = options
        self.work = tempfile.mkdtemp(prefix="receiptd-bench.", dir=os.environ.get("BENCH_DIR", "/tmp"))
        os.chmod(self.work, 0o711)
        self.children = []
        self.results = {}
        self.bin = os.environ["RECEIPTD_BIN"]

    # MARK: Start and stop

    def start(self):
        url = subprocess.run(
            ["scripts/private-postgres", "start", f"{self.work}/postgres"], capture_output=True, text=True,
            check=True).stdout.strip()
        self.postgres = int(open(f"{self.work}/postgres/data/postmaster.pid").readline())
        machine.run_sql(url, "CREATE DATABASE bench")
        self.url = url.rsplit("/", 1)[0] + "/bench"
        lines = subprocess.run(
            [f"{self.bin}/appstore-simulator", "authority", "--folder", f"{self.work}/authority"],
            capture_output=True, text=True, check=True).stdout.splitlines()
        self.trust = dict(line.split("=", 1) for line in lines if "=" in line)
        self.trust = {name: value.strip("'\"") for name, value in self.trust.items()}
        self.start_server()

    def start_server(self):
        self.port, self.admin_port = free_port(), free_port()
        self.server = Child([f"{self.bin}/receiptd", "serve"], f"{self.work}/receiptd.log", {
            **self.trust, "DATABASE_URL": self.url, "PORT": str(self.port), "ADMIN_PORT": str(self.admin_port),
            "RATE_LIMIT": "off", "LOG_FORMAT": "json", "SWIFTCLIMB_JWT_SECRET": "s" * 48,
            "THAQALAYN_JWT_SECRET": "t" * 48, "RECEIPTD_CONFIG": self.catalog()})
        self.children.append(self.server)
        await_url(f"http://127.0.0.1:{self.admin_port}/readyz")

    def catalog(self):
        """The shipped apps without what they would reach on the network."""
        apps = json.load(open("config/apps.json"))
        for app in apps["apps"]:
            if "auth" in app:
                app["auth"].pop("jwks", None)
            app["writeTo"] = [place for place in app.get("writeTo", []) if place in ("profiles", "user_preferences")]
            app.pop("cloudkit", None)
            app.pop("webhooks", None)
        path = f"{self.work}/apps.json"
        json.dump(apps, open(path, "w"))
        return path

    def stop(self):
        for child in self.children:
            child.stop()
        subprocess.run(["scripts/private-postgres", "remove", f"{self.work}/postgres"], check=False)
        if self.options.keep:
            print(f"kept: {self.work}")
        else:
            shutil.rmtree(self.work, ignore_errors=True)

    # MARK: Steps

    def corpus(self, kind, count):
        """Request bodies, made by a process for each core."""
        paths, makers = [], []
        bundle, product, extra = (
            (APP, PRODUCT, ["--account-tokens"]) if kind == "notifications"
            else (DEVICE_APP, DEVICE_PRODUCT, ["--device-ids"]))
        for half in range(2):
            path = f"{self.work}/{kind}-{half}"
            paths.append(path)
            makers.append(subprocess.Popen(
                [f"{self.bin}/appstore-simulator", "corpus", kind, "--folder", f"{self.work}/authority",
                 "--config", "config/apps.json", "--bundle", bundle, "--product", product,
                 "--count", str(count // 2), *extra], stdout=open(path, "wb")))
        for maker in makers:
            if maker.wait() != 0:
                raise SystemExit("the corpus could not be made")
        whole = f"{self.work}/{kind}"
        with open(whole, "wb") as out:
            for path in paths:
                with open(path, "rb") as part:
                    shutil.copyfileobj(part, out)
                os.unlink(path)
        return whole

    def measure(self, name, load):
        """Runs a load and notes what it cost."""
        server_before, database_before = cpu_seconds(self.server.pid), family_cpu_seconds(self.postgres)
        result = load.run()
        requests = max(result["requests"], 1)
        result["rate"] = result["requests"] / result["seconds"]
        result["receiptd_cpu_per_1000"] = (cpu_seconds(self.server.pid) - server_before) / requests * 1000
        result["postgres_cpu_per_1000"] = (family_cpu_seconds(self.postgres) - database_before) / requests * 1000
        result["resident_mb"] = resident_megabytes(self.server.pid)
        self.results[name] = result
        print(f"  {name}: {result['rate']:.0f}/s  p50 {result['p50']:.2f} ms  p99 {result['p99']:.2f} ms  "
              f"receiptd {result['receiptd_cpu_per_1000']:.3f} s  postgres {result['postgres_cpu_per_1000']:.3f} s a "
              f"thousand  {result['resident_mb']:.0f} MB  not 2xx {result['refused']}  broken {result['broken']}",
              flush=True)
        return result

    def bounds(self):
        bounds = {"cores": os.cpu_count()}
        bounds["verifications_per_second"] = machine.verifications_per_second()
        bounds["upserts_per_second"] = machine.upserts_per_second(self.url, self.options.connections)
        bounds["fsync_ms"] = machine.fsync_milliseconds(self.work)
        if self.wants("healthz"):
            port = free_port()
            responder = Child([f"{os.environ['BOUNDS_BIN']}/DispatchResponder", str(port)], f"{self.work}/responder.log")
            self.children.append(responder)
            await_port(port)
            bounds["dispatch_per_second"] = self.load(port, "/", None).run()["requests_per_second"]
            responder.stop()
        self.results["bounds"] = bounds
        print("  " + "  ".join(f"{name} {value:.2f}" for name, value in bounds.items()), flush=True)
        return bounds

    def wants(self, name):
        return not self.options.only or name in self.options.only.split(",")

    def load(self, port, path, bodies, **kept):
        return Load(port, path, bodies, seconds=self.options.seconds,
                    connections=kept.pop("connections", self.options.connections), **kept)

    def webhook(self):
        path = "/api/v1/subscriptions/webhook"
        bodies = self.corpus("notifications", self.options.corpus)
        size = int(machine.run_sql(self.url, "SELECT pg_database_size('bench')"))
        new = self.measure("webhook, new", self.load(self.port, path, bodies))
        kept = int(machine.run_sql(self.url, "SELECT count(*) FROM notifications"))
        machine.run_sql(self.url, "CHECKPOINT")
        new["kept"] = kept
        new["disk_per_notification"] = (int(machine.run_sql(self.url, "SELECT pg_database_size('bench')")) - size) / max(kept, 1)
        # Each connection may have had one answer more on its way when the clock stopped.
        good = new["requests"] - new["refused"]
        if not good <= kept <= good + self.options.connections:
            raise SystemExit(f"{good} answered 200, {kept} kept")
        self.measure("webhook, duplicates", self.load(self.port, path, bodies))
        os.unlink(bodies)
        if self.wants("half"):
            bodies = self.corpus("notifications", int(new["rate"] / 2 * self.options.seconds * 1.3) + 2000)
            self.measure("webhook at half the rate",
                         self.load(self.port, path, bodies, rate=new["rate"] / 2))
            os.unlink(bodies)
        if self.wants("single"):
            bodies = self.corpus("notifications", 8000)
            self.measure("webhook, one connection", self.load(self.port, path, bodies, connections=1))
            os.unlink(bodies)

    def validate(self):
        path = "/api/v1/subscriptions/validate"
        bodies = self.corpus("transactions", self.options.corpus * 2)
        before = int(machine.run_sql(self.url, "SELECT count(*) FROM transactions"))
        new = self.measure("validate, new", self.load(self.port, path, bodies))
        kept = int(machine.run_sql(self.url, "SELECT count(*) FROM transactions")) - before
        good = new["requests"] - new["refused"]
        if not good <= kept <= good + self.options.connections:
            raise SystemExit(f"{good} answered 200, {kept} kept")
        self.measure("validate, repeated", self.load(self.port, path, bodies))
        os.unlink(bodies)
        if self.wants("half"):
            bodies = self.corpus("transactions", int(new["rate"] / 2 * self.options.seconds * 1.3) + 2000)
            self.measure("validate at half the rate", self.load(self.port, path, bodies, rate=new["rate"] / 2))
            os.unlink(bodies)
        if self.wants("single"):
            bodies = self.corpus("transactions", 12000)
            self.measure("validate, one connection", self.load(self.port, path, bodies, connections=1))
            os.unlink(bodies)

    def run(self):
        self.start()
        print("bounds", flush=True)
        self.bounds()
        print("loads", flush=True)
        if self.wants("healthz"):
            self.measure("healthz", self.load(self.admin_port, "/healthz", None))
        if self.wants("webhook"):
            self.webhook()
        if self.wants("validate"):
            self.validate()
        self.results["peak_resident_mb"] = resident_megabytes(self.server.pid, peak=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--corpus", type=int, default=120_000, help="notifications to make; transactions twice as many")
    parser.add_argument("--json")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", action="store_true", help="leave the folder with its logs")
    run = Run(parser.parse_args())
    try:
        run.run()
    finally:
        run.stop()
    report.print_table(run.results)
    if run.options.json:
        json.dump(run.results, open(run.options.json, "w"), indent=1)


main()
