"""The environment of a measurement: PostgreSQL, the release build, and signed request bodies."""
import json
import os
import shutil
import subprocess
import tempfile

from database import Database
from processes import Child
from server import Server
from store import trust

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
        self.children, self.database = [], None

    def start(self):
        self.database = Database(f"{self.work}/postgres", os.environ.get("PG_OPTIONS", "")).create()
        self.postgres = self.database.postmaster
        # The collation of docs/operations.md.
        self.sql(f"CREATE DATABASE {self.name} TEMPLATE template0 LC_COLLATE 'C'")
        self.database.name = self.name
        self.url = self.database.url
        subprocess.run([f"{self.bin}/appstore-simulator", "authority", "--folder", f"{self.work}/authority"],
                       stdout=subprocess.DEVNULL, check=True)
        server = Server(self.bin, f"{self.work}/receiptd.log", {
            **trust(f"{self.work}/authority"), "DATABASE_URL": self.url, "LOG_LEVEL": os.environ.get("LOG_LEVEL", "info"),
            "LOG_FORMAT": "json", "RECEIPTD_CONFIG": self.catalog(), **SECRETS, **self.settings})
        self.server, self.port, self.admin_port = server.child, server.port, server.admin_port
        self.children.append(self.server)

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
        if self.database:
            self.database.remove()
        if keep:
            print(f"kept: {self.work}")
        else:
            shutil.rmtree(self.work, ignore_errors=True)

    def sql(self, statement):
        return self.database.query(statement)

    def corpus(self, kind, count):
        """A file with a request body a line, made by two processes."""
        paths, makers = [f"{self.work}/{kind}-{half}" for half in range(2)], []
        bundle, product, extra = (
            (APP, PRODUCT, ["--account-tokens"]) if kind == "notifications"
            else (DEVICE_APP, DEVICE_PRODUCT, ["--device-ids"]))
        for path in paths:
            makers.append(subprocess.Popen(
                [f"{self.bin}/appstore-simulator", "corpus", kind, "--folder", f"{self.work}/authority",
                 "--config", "config/apps.json", "--bundle", bundle, "--product", product,
                 "--count", str(count // 2), *extra], stdout=open(path, "wb")))
        if any([maker.wait() for maker in makers]):
            raise SystemExit("the corpus could not be made")
        whole = f"{self.work}/{kind}"
        with open(whole, "wb") as out:
            for path in paths:
                with open(path, "rb") as part:
                    shutil.copyfileobj(part, out)
                os.unlink(path)
        return whole
