"""Callers as the App Store, devices, users and attackers: one process each, one request at a time."""
import collections
import json
import multiprocessing
import random
import signal

from client import Broken, Connection, address, request
from signed import Bodies, bearer, transaction_of
from strangers import Stranger
from world import DEVICE_APP

WEBHOOK = "/api/v1/subscriptions/webhook"
VALIDATE = "/api/v1/subscriptions/validate"
# Per cent of the requests.
MIX = {
    "notification, new": 20, "notification, repeated": 10, "transaction, new": 10, "transaction, repeated": 15,
    "profile, read": 12, "profile, written": 8, "entitlements": 10, "health": 5, "stranger": 10,
}
# Requests on one connection, at most.
LONGEST = 200
# The number of latest bodies that can be repeated.
MEMORY = 200


class Caller:
    def __init__(self, number, callers, ports, paths):
        self.port, self.admin_port = ports
        self.random = random.Random(number)
        self.fresh = {what: Bodies(path, number, callers) for what, path in paths.items()}
        self.known = {what: collections.deque(maxlen=MEMORY) for what in paths}
        self.stranger = Stranger(self.random)
        self.connection, self.left = None, 0
        self.counts, self.surprises = collections.Counter(), collections.Counter()

    # MARK: One request

    def step(self):
        kind = self.random.choices(list(MIX), MIX.values())[0]
        try:
            if kind == "stranger":
                kind, status, expected = self.stranger.call(self.port)
            elif kind == "health":
                status, expected = self._health(), 200
            else:
                kind, status, expected = self._customer(kind)
        except (Broken, OSError) as error:
            # Only attackers' connections may break.
            status, expected = f"no answer ({error})", 200
        self.counts[kind] += 1
        if status == expected:
            self.counts[f"{kind}: as expected"] += 1
        else:
            self.surprises[f"{kind}: {status}"] += 1

    def _customer(self, kind):
        """Sends a request on a kept connection."""
        what, _, which = kind.partition(", ")
        body = None
        if which == "new":
            body = self.fresh[what].next()
            kind = kind if body else f"{what}, repeated"
        known = self.known["transaction" if what in ("transaction", "entitlements") else "notification"]
        if not body and not known:
            # There is no body to repeat yet.
            return "health", self._health(), 200
        status = self._send(self._bytes(what, which, body or self.random.choice(known)))
        if body and status == 200:
            known.append(body)
        return kind, status, 200

    def _bytes(self, what, which, body):
        if what == "notification":
            return request("POST", WEBHOOK, body)
        if what == "transaction":
            return request("POST", VALIDATE, body)
        if what == "entitlements":
            device = json.loads(body)["deviceID"]
            return request("GET", f"/api/v1/devices/{device}/entitlements?bundleID={DEVICE_APP}")
        signed, user = transaction_of(body)
        path = f"/api/v1/profiles/{user}/premium"
        if which == "read":
            return request("GET", path, fields=[bearer(user)])
        return request("PUT", path, json.dumps({"signedTransactions": [signed]}).encode(), [bearer(user)])

    def _send(self, message):
        if self.connection is None or not self.connection.is_open:
            self.connection = Connection(self.port, address(self.random))
            self.left = self.random.randint(1, LONGEST)
        status, _ = self.connection.call(message)
        self.left -= 1
        if self.left == 0 and self.connection.is_open:
            self.connection.close(politely=self.random.random() < 0.7)
        return status

    def _health(self):
        connection = Connection(self.admin_port)
        status, _ = connection.call(request("GET", "/healthz"))
        connection.close()
        return status

    def end(self):
        if self.connection and self.connection.is_open:
            self.connection.close()


class Callers:
    """All callers; they stop after `total` requests, give or take one each."""

    def __init__(self, count, total, ports, paths):
        self._total = total
        self._done = multiprocessing.Array("Q", count, lock=False)
        self._reports = multiprocessing.SimpleQueue()
        self._processes = [
            multiprocessing.Process(target=self._run, args=(number, count, ports, paths), daemon=True)
            for number in range(count)]

    def start(self):
        for process in self._processes:
            process.start()
        return self

    @property
    def progress(self):
        """The number of requests so far."""
        return sum(self._done)

    @property
    def have_failed(self):
        return any(process.exitcode not in (None, 0) for process in self._processes)

    def results(self):
        """Waits for the end; returns counts of requests and of unexpected responses."""
        counts, surprises = collections.Counter(), collections.Counter()
        for _ in self._processes:
            found = self._reports.get()
            counts += found[0]
            surprises += found[1]
        for process in self._processes:
            process.join()
        return counts, surprises

    def stop(self):
        for process in self._processes:
            if process.is_alive():
                process.terminate()

    def _run(self, number, count, ports, paths):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        caller = Caller(number, count, ports, paths)
        while self.progress < self._total:
            caller.step()
            self._done[number] += 1
        caller.end()
        self._reports.put((caller.counts, caller.surprises))
