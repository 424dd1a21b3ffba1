"""The environment of a measurement: PostgreSQL, the release build, and signed request bodies."""
import json
import os
import shutil
import subprocess
import tempfile

import machine
from processes import Child, await_url, free_port

# The secrets that config/apps.json names for users' tokens.
SECRETS = {"SWIFTCLIMB_JWT_SECRET": "s" * 48, "THAQALAYN_JWT_SECRET": "t" * 48}
APP, PRODUCT = "com.swiftclimb.app", "com.swiftclimb.premium.monthly"
DEVICE_APP, DEVICE_PRODUCT = "com.screentimerewards", "com.screentimerewards.family.monthly"


class World:
    """All processes and files of a run; `stop` removes them."""

    def __init__(self, name, settings=None):
        self.bin = os.environ["RECEIPTD_BIN"]
        self.work = tempfile.mkdtemp(prefix=f"receiptd-{name}.", dir=os.environ.get("BENCH_DIR", "/tmp"))
        # PostgreSQL runs as another user if this runs as root, and needs access.
        os.chmod(self.work, 0o711)
        self.name, self.settings = name, settings or {}
        self.children = []

    def start(self):
        url = subprocess.run(
            ["scripts/private-postgres", "start", f"{self.work}/postgres"], capture_output=True, text=True,
            check=True).stdout.strip()
        self.postgres = int(open(f"{self.work}/postgres/data/postmaster.pid").readline())
        # The collation of docs/operations.md.
        machine.run_sql(url, f"CREATE DATABASE {self.name} TEMPLATE template0 LC_COLLATE 'C'")
        self.url = url.rsplit("/", 1)[0] + f"/{self.name}"
        lines = subprocess.run(
            [f"{self.bin}/appstore-simulator", "authority", "--folder", f"{self.work}/authority"],
            capture_output=True, text=True, check=True).stdout.splitlines()
        self.trust = dict(line.split("=", 1) for line in lines if "=" in line)
        self.trust = {name: value.strip("'\"") for name, value in self.trust.items()}
        self.start_server()

    def start_server(self):
        self.port, self.admin_port = free_port(), free_port()
        self.server = self.start_child([f"{self.bin}/receiptd", "serve"], "receiptd", {
            **self.trust, "DATABASE_URL": self.url, "PORT": str(self.port), "ADMIN_PORT": str(self.admin_port),
            "RATE_LIMIT": "off", "LOG_FORMAT": "json", "RECEIPTD_CONFIG": self.catalog(), **SECRETS, **self.settings})
        await_url(f"http://127.0.0.1:{self.admin_port}/readyz")

    def start_child(self, command, name, environment=None):
        child = Child(command, f"{self.work}/{name}.log", environment)
        self.children.append(child)
        return child

    def catalog(self):
        """The shipped apps without addresses on the network."""
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

    def stop(self, keep=False):
        for child in self.children:
            child.stop()
        subprocess.run(["scripts/private-postgres", "remove", f"{self.work}/postgres"], check=False)
        if keep:
            print(f"kept: {self.work}")
        else:
            shutil.rmtree(self.work, ignore_errors=True)

    def sql(self, statement):
        return machine.run_sql(self.url, statement)

    def corpus(self, kind, count):
        """A file with a request body a line, made by two processes."""
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
