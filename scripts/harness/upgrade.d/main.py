"""An upgrade under load: migrate beside old servers, restart one after the other, and go back with one binary."""
import os
import sys
import time

from processes import Child, wait_until
from receiver import Receiver
from world import World

NEW, OLD, OLD_SOURCE = (os.environ[name] for name in ("UPGRADE_BIN", "UPGRADE_FROM_BIN", "UPGRADE_FROM_SOURCE"))
WAITING = "SELECT count(*) FROM outbox WHERE done_at IS NULL"
COLUMNS = """
    SELECT table_schema || '.' || table_name, string_agg(quote_ident(column_name), ', ' ORDER BY column_name)
    FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
    WHERE table_type = 'BASE TABLE' AND table_schema IN ('public', 'receiptd')
    GROUP BY table_schema, table_name ORDER BY 1"""
# They say which migrations ran and which servers are there.
OF_THE_BUILD = {"receiptd.schema_migrations", "public.schema_migrations"}


class Upgrade:
    def __init__(self, world):
        self.world = world
        self.receiver = Receiver()
        world.on_exit.append(self.receiver.close)
        world.configure(webhooks=[
            {"url": self.receiver.url, "secretEnv": "FAULTS_WEBHOOK_SECRET", "allowPrivateAddresses": True,
             "events": ["customer.updated"]}])
        self.database = world.add_database()
        os.environ["RECEIPTD_MIGRATIONS"] = f"{OLD_SOURCE}/migrations"
        self.servers = [world.add_server(self.database.url, binaries=OLD) for _ in range(2)]

    def run(self):
        world = self.world
        world.start_load()
        self._pass(12, "the old build serves")
        # Work waits, and a killed server leaves its leases.
        self.receiver.is_away = True
        self._pass(4, "the receiver of webhooks is away")
        self.servers[0].kill()
        waiting = int(self.database.query(WAITING))
        world.claim("deliveries wait before the upgrade", waiting > 0, waiting)
        seconds = self._migrate(self.database)
        print(f"  migrate took {seconds:.1f} s beside a server of the old build", flush=True)
        self._start(self.servers[0], NEW, "the first server is new, the second old")
        self.receiver.is_away = False
        self.servers[1].stop()
        self._start(self.servers[1], NEW, "both servers are new")
        self.servers[0].stop()
        self._start(self.servers[0], OLD, "the first server went back to the old binary")
        self.servers[0].stop()
        self._start(self.servers[0], NEW, "both servers are new again")
        figures = world.judge(self.database)
        try:
            wait_until(lambda: self.database.query(WAITING) == "0", 120, "an empty outbox", pause=0.5)
        except TimeoutError:
            pass
        left = self.database.query(WAITING)
        world.claim("what waited before the upgrade is delivered", left == "0", f"{left} wait")
        wrong = self.receiver.wrong_states(world)
        world.claim("the last state delivered of every customer is true", not wrong, wrong[:5])
        return {"deliveries that waited": waiting, "migrate, s": round(seconds, 1), **figures, **self._compare()}

    # MARK: Steps

    def _pass(self, seconds, what):
        print(f"  {what}", flush=True)
        time.sleep(seconds)

    def _migrate(self, database):
        started = time.monotonic()
        settings = {**self.servers[0].settings, "DATABASE_URL": database.url, "RECEIPTD_MIGRATIONS": "migrations"}
        status = Child([f"{NEW}/receiptd", "migrate"], f"{self.world.folder}/migrate.log", settings).process.wait(120)
        self.world.claim("migrate ends with 0", status == 0, status)
        applied = {row[0] for row in database.rows("SELECT version FROM schema_migrations")}
        pending = {name.split("_")[0] for name in os.listdir("migrations") if name.endswith(".sql")} - applied
        self.world.claim("no migration is pending", not pending, sorted(pending)[:5])
        return time.monotonic() - started

    def _start(self, server, binaries, what):
        started = time.monotonic()
        server.binary = f"{binaries}/receiptd"
        server.settings["RECEIPTD_MIGRATIONS"] = "migrations" if binaries == NEW else f"{OLD_SOURCE}/migrations"
        server.start()
        self.world.probe.measure(what, started, server.url)
        self._pass(8, what)

    # MARK: Rows

    def _compare(self):
        """Migrates a copy of an old database without servers: no stored value of the old build may change."""
        world = self.world
        for server in self.servers:
            server.stop()
        old = world.add_database(name="old")
        server = world.add_server(old.url, binaries=OLD)
        with_answer = sum(world.load.notify(uuid, payload, server.url) for uuid, payload in world.load.payloads.items())
        for signed in world.load.transactions[:200]:
            world.load.validate(signed, server.url)
        server.stop()
        before = self._rows(old)
        self._migrate(old)
        after = self._rows(old, before)
        changed = [table for table in before if before[table][1] != after.get(table)]
        world.claim("no stored row of the old build changes", not changed, changed)
        rows = sum(len(lines) for _, lines in before.values())
        world.claim("the old database had rows", rows > with_answer > 0, f"{rows} rows, {with_answer} notifications")
        return {"rows before and after migrate": rows}

    @staticmethod
    def _rows(database, former=None):
        """The rows of each table as sorted text: of the columns of `former`, or of all, with the columns."""
        if former is not None:
            return {table: sorted(map(str, database.rows(f"SELECT ROW({columns})::text FROM {table}")))
                    for table, (columns, _) in former.items()}
        return {table: (columns, sorted(map(str, database.rows(f"SELECT ROW({columns})::text FROM {table}"))))
                for table, columns in database.rows(COLUMNS) if table not in OF_THE_BUILD}


def main():
    # The old build's simulator may lack what the new one has; the store is the same throughout.
    with World(OLD if os.path.exists(f"{OLD}/appstore-simulator") else NEW) as world:
        figures = Upgrade(world).run()
        print(f"\n{os.environ['RECEIPTD_RUN']}, from {os.path.basename(OLD_SOURCE)}\n\n| figure | count |\n|---|---:|")
        for name, value in figures.items():
            print(f"| {name} | {value} |")
        for claim in world.claims:
            if not claim["holds"]:
                print(f"FAILED: {claim['claim']}: {claim['detail']}")
        return 0 if world.held else 1


sys.exit(main())
