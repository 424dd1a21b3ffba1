"""receiptd, PostgreSQL, the simulated App Store, and tokens."""

import json
import os
import subprocess

from database import Database
from server import Server
from store import Store
from tokens import access_token

SECRET = "a-secret-that-only-this-check-uses-0123456789"
SUPPORT_TOKEN = "the-support-token-that-only-this-check-uses"
# The apps of the examples: one with users, one with devices.
APPS = ["com.swiftclimb.app", "com.screentimerewards"]


class World:
    def __init__(self, binaries, folder):
        self.database = self.store = self.server = None
        try:
            config = f"{folder}/apps.json"
            with open(config, "w") as file:
                json.dump(self._apps(), file)
            self.database = Database(f"{folder}/postgres", "-c fsync=off").create()
            self.store = Store(binaries, folder, config)
            self.log = f"{folder}/receiptd.log"
            settings = {
                **self.store.environment, "DATABASE_URL": self.database.url, "RECEIPTD_CONFIG": config,
                "APP_STORE_URL": self.store.url, "APP_STORE_SANDBOX_URL": f"{self.store.url}/sandbox",
                "SWIFTCLIMB_JWT_SECRET": SECRET, "SUPPORT_TOKEN": SUPPORT_TOKEN, "LOG_LEVEL": "error"}
            self.server = Server(binaries, self.log, settings)
            self.lead = self._add_lead(binaries, settings)
            self.client_url = self.server.url
            self.admin_url = f"http://127.0.0.1:{self.server.admin_port}"
        except BaseException:
            self.stop()
            raise

    @staticmethod
    def _apps():
        with open("config/apps.json") as file:
            apps = [app for app in json.load(file)["apps"] if app["bundleID"] in APPS]
        for app in apps:
            # No calls to the network.
            app.get("auth", {}).pop("jwks", None)
        return {"apps": apps}

    @staticmethod
    def _add_lead(binaries, settings):
        """The token of the person whose name the examples have."""
        added = subprocess.run(
            [f"{binaries}/receiptd", "people", "add", "ada", "--role", "lead", "--by", "root-of-the-server"],
            env={**os.environ, **settings}, check=True, capture_output=True, text=True)
        return added.stdout.split()[-1]

    def control(self, path, body):
        return self.store.control("POST", path, body)

    def stop(self):
        for part in (self.server, self.store):
            if part:
                part.stop()
        if self.database:
            self.database.remove()


def user_token(user):
    return access_token(user, SECRET)
