"""A private PostgreSQL that can be killed, frozen, copied and promoted. It syncs its disk."""

import os
import signal
import subprocess
import time

from processes import free_port, wait_until

SCRIPT = "scripts/private-postgres"


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def _is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Database:
    def __init__(self, folder, options="", port=None):
        self.folder, self.options, self.name = folder, options, "postgres"
        self.port = port or free_port()

    # MARK: Life

    def create(self):
        self._script("start", str(self.port))
        return self

    def up(self):
        """Starts it again. Shared memory of a killed server may need a moment to vanish."""
        end = time.monotonic() + 20
        while True:
            try:
                return self._script("up")
            except RuntimeError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def remove(self):
        subprocess.run([SCRIPT, "remove", self.folder], capture_output=True)

    def kill(self):
        """Sends SIGKILL to the postmaster and to all its processes."""
        postmaster = self.postmaster
        children = _children(postmaster)
        _signal(postmaster, signal.SIGKILL)
        for child in children:
            _signal(child, signal.SIGKILL)
        for pid in [postmaster, *children]:
            wait_until(lambda pid=pid: not _is_alive(pid), 30, f"the end of process {pid}")

    @property
    def postmaster(self):
        with open(f"{self.folder}/data/postmaster.pid") as file:
            return int(file.readline())

    @property
    def is_running(self):
        try:
            return _is_alive(self.postmaster)
        except (FileNotFoundError, ValueError):
            return False

    def _script(self, action, *arguments):
        environment = {**os.environ, "PG_OPTIONS": self.options}
        found = subprocess.run(
            [SCRIPT, action, self.folder, *arguments], env=environment, capture_output=True, text=True)
        if found.returncode:
            raise RuntimeError(f"{SCRIPT} {action}: {found.stderr}")

    # MARK: Copies

    def standby(self, folder, through, port=None):
        """Starts a streaming standby that follows through the port `through`."""
        copy = Database(folder, self.options, port)
        os.makedirs(folder)
        self._give(folder)
        self._program(
            "pg_basebackup", "-D", f"{folder}/data", "-R", "-X", "stream", "-c", "fast", "-h", "127.0.0.1",
            "-p", str(through), "-U", "postgres")
        with open(f"{folder}/port", "w") as file:
            file.write(str(copy.port))
        copy.up()
        wait_until(
            lambda: self.query("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") != "0",
            30, "a streaming standby")
        return copy

    def wait_for_synchronous_standby(self):
        wait_until(
            lambda: self.query("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") != "0",
            30, "a synchronous standby")

    def set(self, name, value):
        self.query(f"ALTER SYSTEM SET {name} = '{value}'")
        self.query("SELECT pg_reload_conf()")

    def promote(self):
        self._program("pg_ctl", "-D", f"{self.folder}/data", "promote", "-w", "-t", "60")

    def _program(self, name, *arguments):
        folder = os.environ.get("PG_BIN") or sorted(
            (f"/usr/lib/postgresql/{version}/bin" for version in os.listdir("/usr/lib/postgresql")),
            key=lambda path: int(path.split("/")[4]))[-1]
        command = [f"{folder}/{name}", *arguments]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        found = subprocess.run(command, capture_output=True, text=True, cwd="/")
        if found.returncode:
            raise RuntimeError(f"{name}: {found.stderr}")

    @staticmethod
    def _give(folder):
        if os.getuid() == 0:
            subprocess.run(["chown", "postgres", folder], check=True)

    # MARK: Asking

    @property
    def url(self):
        return f"postgresql://postgres@127.0.0.1:{self.port}/{self.name}"

    def rows(self, sql):
        """The rows as lists of strings; NULL is the empty string."""
        found = subprocess.run(
            ["psql", self.url, "-X", "-q", "-A", "-t", "-F", "\t", "-c", sql], capture_output=True, text=True,
            env={**os.environ, "PGCONNECT_TIMEOUT": "5", "PGOPTIONS": "-c search_path=receiptd,public"})
        if found.returncode:
            raise RuntimeError(f"psql: {found.stderr}")
        return [line.split("\t") for line in found.stdout.splitlines()]

    def query(self, sql):
        rows = self.rows(sql)
        return rows[0][0] if rows else ""

    def is_answering(self):
        try:
            return self.query("SELECT 1") == "1"
        except RuntimeError:
            return False

    def wait_until_answering(self, seconds=60):
        wait_until(self.is_answering, seconds, "PostgreSQL", pause=0.1)
        return time.monotonic()
