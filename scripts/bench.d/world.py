"""What a measurement stands on: PostgreSQL, the release build, and request bodies that a simulated App Store signed."""
import json
import os
import shutil
import subprocess
import tempfile

import machine
from processes import Child, await_url, free_port

# Of each app of config/apps.json that verifies users' tokens by a secret, where the secret is.
SECRETS = {"SWIFTCLIMB_JWT_SECRET": "s" * 48, "THAQALAYN_JWT_SECRET": "t" * 48}
APP, PRODUCT = "com.swiftclimb.app", "com.swiftclimb.premium.monthly"
DEVICE_APP, DEVICE_PRODUCT = "com.screentimerewards", "com.screentimerewards.family.monthly"


class World:
    """A folder with everything in it; it goes with `stop`."""

    def __init__(self, name, settings=None):
        self.bin = os.environ["RECEIPTD_BIN"]
        self.work = tempfile.mkdtemp(prefix=f"receiptd-{name}.", dir=os.environ.get("BENCH_DIR", "/tmp"))
        # PostgreSQL runs as another user where this runs as root; it has to get through.
        os.chmod(self.work, 0o711)
        self.name, self.settings = name, settings or {}
        self.children = []

    def start(self):
        url = subprocess.run(
            ["scripts/private-postgres", "start", f"{self.work}/postgres"], capture_output=True, text=True,
            check=True).stdout.strip()
        self.postgres = int(open(f"{self.work}/postgres/data/postmaster.pid").readline())
        # As docs/operations.md has it.
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
