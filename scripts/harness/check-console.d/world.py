"""receiptd with a year of business, its people, and one case for each of the five tasks."""

import json
import os
import subprocess
import uuid
from datetime import datetime, timedelta, timezone

import web
from database import Database
from server import Server
from store import Store
from tokens import access_token
from year import CLIMB, SCREEN, Year

SECRET = "a-secret-that-only-this-check-uses-0123456789"


class World:
    def __init__(self, binaries, folder):
        self.database = self.store = self.server = None
        try:
            self._start(binaries, folder)
            Year(self.store.control, self.validate).play()
            self._make_cases()
            self._count()
        except BaseException:
            self.stop()
            raise

    def _start(self, binaries, folder):
        config = f"{folder}/apps.json"
        with open("config/apps.json") as file:
            apps = [app for app in json.load(file)["apps"] if app["bundleID"] in (CLIMB, SCREEN)]
        for app in apps:
            # No calls to the network.
            app.get("auth", {}).pop("jwks", None)
        with open(config, "w") as file:
            json.dump({"apps": apps}, file)
        self.database = Database(f"{folder}/postgres", "-c fsync=off").create()
        start = datetime.now(timezone.utc) - timedelta(days=373)
        self.store = Store(binaries, folder, config, "--now", start.strftime("%Y-%m-%dT%H:%M:%SZ"))
        self.binary = f"{binaries}/receiptd"
        self.settings = {
            **self.store.environment, "DATABASE_URL": self.database.url, "RECEIPTD_CONFIG": config,
            "APP_STORE_URL": self.store.url, "APP_STORE_SANDBOX_URL": f"{self.store.url}/sandbox",
            "SWIFTCLIMB_JWT_SECRET": SECRET, "LOG_LEVEL": "error"}
        self.server = Server(binaries, f"{folder}/receiptd.log", self.settings)
        self.console = f"http://127.0.0.1:{self.server.admin_port}/console"
        self.store.control("POST", "webhook", {"url": f"{self.server.url}/api/v1/subscriptions/webhook"})
        self.tokens = {
            role: self._command("people", "add", name, "--role", role, "--by", "root-of-the-server").split()[-1]
            for role, name in [("lead", "Ada"), ("agent", "Ben"), ("numbers", "Nora")]}

    def _make_cases(self):
        """A customer with all that a page can show, a refused request, and a delivery that was given up."""
        self.user = str(uuid.uuid4())
        bought = self.control(
            "purchases",
            {"bundleID": CLIMB, "productID": "com.swiftclimb.premium.annual", "appAccountToken": self.user})
        self.order, self.purchase = bought["orderID"], bought["originalTransactionID"]
        self._command(
            "grant", self.user, "--bundle", CLIMB, "--tier", "premium", "--days", "14", "--by", "ada", "--reason",
            "waited three days for an answer")
        self.control(f"subscriptions/{self.purchase}/request-consumption", {"reason": "UNINTENDED_PURCHASE"})

        self.stranger = str(uuid.uuid4())
        body = {"signedTransactions": [bought["signedTransaction"]]}
        self.proof = body
        self.refuse(self.stranger)

        self.parent = "parents-phone"
        trial = self.control("app-transactions", {"bundleID": SCREEN})
        self._post("trials", {"deviceID": self.parent, "bundleID": SCREEN, **trial})
        family = self.control(
            "purchases", {"bundleID": SCREEN, "productID": "com.screentimerewards.family.monthly"})
        self.validate(family, self.parent)
        for name in ["Emma", "Noah", "Mia"]:
            self._post(
                f"devices/{self.parent}/children?bundleID={SCREEN}",
                {"childDeviceID": f"tablet-of-{name.lower()}", "name": name})
        self.control(
            f"subscriptions/{family['originalTransactionID']}/change-product",
            {"productID": "com.screentimerewards.individual.monthly"})
        self.failing = self.database.query(
            "SELECT original_transaction_id FROM subscriptions WHERE store_status = 'billingGrace' LIMIT 1")
        self.delivery = self.database.query(
            f"""UPDATE outbox SET dead_at = now(), done_at = NULL, last_error = 'BAD_REQUEST: unknown field "tier"'
            WHERE key = '{self.parent}' RETURNING id""")

    def refuse(self, user):
        """A user who does not own the purchase shows it."""
        refused = web.call(
            "PUT", f"{self.server.url}/api/v1/profiles/{user}/premium", self.proof,
            headers={"Authorization": f"Bearer {access_token(user, SECRET)}"})
        assert refused.status == 409, refused.body

    def _count(self):
        """Counts the days of the year, of which receiptd knows only the last as due."""
        today = datetime.now(timezone.utc).date()
        self._command("kpi", "--from", str(today - timedelta(days=372)), "--to", str(today))

    def validate(self, bought, device):
        self._post("subscriptions/validate", {"signedTransaction": bought["signedTransaction"], "deviceID": device})

    def control(self, path, body):
        return self.store.control("POST", path, body)

    def truth(self, purchase):
        return self.store.truth(purchase)

    def _post(self, path, body):
        answer = web.post(f"{self.server.url}/api/v1/{path}", body)
        if answer.status >= 300:
            raise RuntimeError(f"POST {path}: {answer.status} {answer.body[:500]}")

    def _command(self, *arguments):
        done = subprocess.run(
            [self.binary, *arguments], env={**os.environ, **self.settings}, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"receiptd {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def stop(self):
        for part in (self.server, self.store):
            if part:
                part.stop()
        if self.database:
            self.database.remove()
