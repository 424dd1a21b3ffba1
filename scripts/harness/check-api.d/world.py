"""receiptd, PostgreSQL, the simulated App Store, and tokens."""

import base64
import hashlib
import hmac
import json
import time
import uuid

from database import Database
from server import Server
from store import Store

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
            self.server = Server(binaries, self.log, {
                **self.store.environment, "DATABASE_URL": self.database.url, "RECEIPTD_CONFIG": config,
                "APP_STORE_URL": self.store.url, "APP_STORE_SANDBOX_URL": f"{self.store.url}/sandbox",
                "SWIFTCLIMB_JWT_SECRET": SECRET, "SUPPORT_TOKEN": SUPPORT_TOKEN, "LOG_LEVEL": "error"})
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

    def control(self, path, body):
        return self.store.control("POST", path, body)

    def stop(self):
        for part in (self.server, self.store):
            if part:
                part.stop()
        if self.database:
            self.database.remove()


def user_token(user):
    """An access token as Supabase would issue it."""
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    claims = {"sub": user, "iss": "https://swiftclimb.supabase.co/auth/v1", "aud": "authenticated",
              "role": "authenticated", "exp": int(time.time()) + 86400, "jti": str(uuid.uuid4())}
    text = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(json.dumps(claims).encode())
    return (text + b"." + part(hmac.new(SECRET.encode(), text, hashlib.sha256).digest())).decode()
