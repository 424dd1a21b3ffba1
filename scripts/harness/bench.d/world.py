"""The environment of a measurement: PostgreSQL, the release build, and signed request bodies."""
import json
import os
import shutil
import subprocess
import tempfile

from database import Database
from processes import Child, cpu_seconds, family_cpu_seconds, resident_megabytes
from server import Server
from store import trust

# The secrets that config/apps.json names for users' tokens.
SECRETS = {"SWIFTCLIMB_JWT_SECRET": "s" * 48, "THAQALAYN_JWT_SECRET": "t" * 48}
APP, PRODUCT = "com.swiftclimb.app", "com.swiftclimb.premium.monthly"
DEVICE_APP, DEVICE_PRODUCT = "com.screentimerewards", "com.screentimerewards.family.monthly"


class World:
    """All processes and files of a run; `stop` removes them."""

    def __init__(self, name, settings=None, binaries=None, source=".", authority=None):
        """`source` is the tree of `binaries`. Worlds with the same `authority` take the same bodies."""
        self.bin, self.source = binaries or os.environ["RECEIPTD_BIN"], source
        self.work = tempfile.mkdtemp(prefix=f"receiptd-{name}.", dir=os.environ.get("BENCH_DIR", "/tmp"))
        # PostgreSQL runs as another user if this runs as root, and needs access.
        os.chmod(self.work, 0o711)
        self.authority = authority or f"{self.work}/authority"
        self.name, self.settings = name, settings or {}
        self.children, self.database = [], None

    def start(self):
        self.database = Database(f"{self.work}/postgres", os.environ.get("PG_OPTIONS", "")).create()
        self.postgres = self.database.postmaster
        # The collation of docs/install.md.
        self.sql(f"CREATE DATABASE {self.name} TEMPLATE template0 LC_COLLATE 'C'")
        self.database.name = self.name
        self.url = self.database.url
        if not os.path.exists(self.authority):
            subprocess.run([f"{self.bin}/appstore-simulator", "authority", "--folder", self.authority],
                           stdout=subprocess.DEVNULL, check=True)
        settings = {
            **trust(self.authority), "DATABASE_URL": self.url, "LOG_LEVEL": os.environ.get("LOG_LEVEL", "info"),
            "LOG_FORMAT": "json", "RECEIPTD_CONFIG": self.catalog(), "RECEIPTD_MIGRATIONS": f"{self.source}/migrations",
            **SECRETS, **self.settings}
        # As docs/install.md says: the owner migrates, and receiptd_app serves.
        self.sql("CREATE ROLE receiptd_app LOGIN")
        subprocess.run([f"{self.bin}/receiptd", "migrate"], env={**os.environ, **settings}, stdout=subprocess.DEVNULL,
                       check=True)
        settings["DATABASE_URL"] = self.url.replace("//postgres@", "//receiptd_app@")
        server = Server(self.bin, f"{self.work}/receiptd.log", settings, "--no-migrate")
        self.server, self.port, self.admin_port = server.child, server.port, server.admin_port
        self.children.append(self.server)

    def start_child(self, command, name, environment=None):
        child = Child(command, f"{self.work}/{name}.log", environment)
        self.children.append(child)
        return child

    def catalog(self):
        """The shipped apps without addresses on the network."""
        apps = json.load(open(f"{self.source}/config/apps.json"))
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

    def rows(self, table):
        return int(self.sql(f"SELECT count(*) FROM {table}"))

    def count_days(self):
        """Marks every day as counted: the backlog of a loaded database would keep a core busy for half a minute."""
        self.sql(
            "INSERT INTO kpi_days (day, as_of, computed_at) "
            "SELECT day, least(now(), (day + 1)::timestamp AT TIME ZONE 'UTC'), now() "
            "FROM (SELECT generate_series(date '2008-07-10', today, interval '1 day')::date AS day "
            "FROM (SELECT (now() AT TIME ZONE 'UTC')::date AS today) AS clock) AS days "
            "ON CONFLICT (day) DO UPDATE SET as_of = excluded.as_of, computed_at = excluded.computed_at")

    def cpu(self):
        """The seconds of CPU time that the server and PostgreSQL have used."""
        return cpu_seconds(self.server.pid), family_cpu_seconds(self.postgres)

    def measure(self, load):
        """Runs a load; the result has its rate and its cost."""
        server, database = self.cpu()
        result = load.run()
        server_after, database_after = self.cpu()
        requests = max(result["requests"], 1)
        result["rate"] = result["requests"] / result["seconds"]
        result["server_cpu_per_1000"] = (server_after - server) / requests * 1000
        result["postgres_cpu_per_1000"] = (database_after - database) / requests * 1000
        result["resident_mb"] = resident_megabytes(self.server.pid)
        return result

    def kept(self, table, before, result, connections):
        """The rows that a load added to `before`: one for each request that was answered 200."""
        kept = self.rows(table) - before
        # One response of each connection may have been under way when the clock stopped.
        good = result["requests"] - result["refused"]
        if not good <= kept <= good + connections:
            raise SystemExit(f"{good} answered 200, {kept} kept")
        return kept

    def corpus(self, kind, count):
        """A file with a request body a line, made by two processes."""
        paths, makers = [f"{self.work}/{kind}-{half}" for half in range(2)], []
        bundle, product, extra = (
            (APP, PRODUCT, ["--account-tokens"]) if kind == "notifications"
            else (DEVICE_APP, DEVICE_PRODUCT, ["--device-ids"]))
        for path in paths:
            makers.append(subprocess.Popen(
                [f"{self.bin}/appstore-simulator", "corpus", kind, "--folder", self.authority,
                 "--config", f"{self.source}/config/apps.json", "--bundle", bundle, "--product", product,
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
