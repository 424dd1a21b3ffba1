"""The environment of a scenario, and the claims of every scenario."""

import json
import os
import shutil
import tempfile

from database import Database
from load import Load
from probe import Probe
from processes import Child
from server import Server
from store import Store
from truth import wrong_rows

HERE = os.path.dirname(os.path.abspath(__file__))
# The secrets that apps.json and the scenarios name.
SECRETS = {
    "FAULTS_JWT_SECRET": "a-secret-that-only-the-fault-suite-uses-0123456789",
    "FAULTS_WEBHOOK_SECRET": "whsec_dGhlIGZhdWx0IHN1aXRlJ3Mgb3duIHNlY3JldCE=",
}


class World:
    """A store, a database and servers in a folder of their own; used with `with`."""

    def __init__(self, binaries):
        self.binaries = binaries
        self.folder = tempfile.mkdtemp(prefix="receiptd-faults.")
        # PostgreSQL runs as another user if this runs as root, and needs access.
        os.chmod(self.folder, 0o711)
        self.config = f"{HERE}/apps.json"
        self.databases, self.servers = [], []
        self.store = self.load = self.probe = None
        # Runs at the end: proxies, mounts.
        self.on_exit = []
        self.claims = []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for stop in [self._stop_load, *(server.stop for server in self.servers)]:
            self._quietly(stop)
        if self.store:
            self._quietly(self.store.stop)
        for database in self.databases:
            self._quietly(database.remove)
        for action in self.on_exit:
            self._quietly(action)
        if kind is None and self.held:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"  logs are kept in {self.folder}", flush=True)

    def _stop_load(self):
        if self.load:
            self.load.stop()

    @staticmethod
    def _quietly(action):
        try:
            action()
        except Exception as error:
            print(f"  at the end: {error}", flush=True)

    # MARK: Making it

    def add_database(self, options="", name="postgres"):
        database = Database(f"{self.folder}/{name}", options)
        self.databases.append(database)
        return database.create()

    def add_standby(self, primary, name, through, port=None):
        standby = primary.standby(f"{self.folder}/{name}", through, port)
        self.databases.append(standby)
        return standby

    def configure(self, **changes):
        """Changes members of the app's configuration."""
        with open(self.config) as file:
            apps = json.load(file)
        apps["apps"][0].update(changes)
        self.config = f"{self.folder}/apps.json"
        with open(self.config, "w") as file:
            json.dump(apps, file)

    def add_server(self, database_url, store_url=None, binaries=None):
        if self.store is None:
            self.store = Store(self.binaries, self.folder, self.config)
        address = store_url or self.store.url
        settings = {
            **self.store.environment, **SECRETS, "DATABASE_URL": database_url, "RECEIPTD_CONFIG": self.config,
            "APP_STORE_URL": address, "APP_STORE_SANDBOX_URL": f"{address}/sandbox"}
        log = f"{self.folder}/receiptd-{len(self.servers) + 1}.log"
        server = Server(binaries or self.binaries, log, settings)
        self.servers.append(server)
        return server

    def start_load(self, urls=None, **options):
        """Starts the load, and the probe for the return of service."""
        self.load = Load(self.store, urls or [server.url for server in self.servers], **options).start()
        self.probe = Probe(self.load)
        return self.load

    # MARK: Claims

    def claim(self, sentence, holds, detail=""):
        self.claims.append({"claim": sentence, "holds": bool(holds), "detail": str(detail)})

    @property
    def held(self):
        return all(claim["holds"] for claim in self.claims)

    def missing(self, database):
        """Notifications that were answered 200 and are not in the database."""
        answered = self.load.answered_now()
        kept = {row[0] for row in database.rows("SELECT notification_uuid FROM notifications")}
        return answered - kept

    def judge(self, database):
        """Ends the load, compares, and returns the figures of every scenario."""
        self.load.settle()
        unanswered = self.load.unanswered
        missing = self.missing(database)
        wrong = wrong_rows(database, self.store, self.load.purchases)
        surprises = self.load.surprises
        self.claim("every notification is answered 200 in the end", not unanswered, f"{len(unanswered)} are not")
        self.claim("no notification that was answered 200 is missing", not missing, sorted(missing)[:5])
        self.claim("no row is wrong against the store's truth", not wrong, "; ".join(wrong[:5]))
        self.claim("no answer surprises", not surprises, dict(surprises))
        self.claim(
            "service resumes by itself within 10 s of the cause's end", not self.probe.failures,
            "; ".join(self.probe.failures[:5]))
        failed = database.query("SELECT count(*) FROM notifications WHERE processed_at IS NULL AND type <> 'TEST'")
        self.claim("no notification is left unprocessed", failed == "0", f"{failed} are")
        return {
            **self.load.counts, "missing": len(missing), "rows compared": len(self.load.purchases),
            "rows wrong": len({line.split(":")[0] for line in wrong}),
            "longest time until service, s": round(self.probe.longest, 2)}

    def run(self, *arguments):
        """Runs a command of receiptd with the first server's settings; its exit status."""
        child = Child(
            [f"{self.binaries}/receiptd", *arguments], f"{self.folder}/command.log", self.servers[0].settings)
        return child.process.wait(120)
