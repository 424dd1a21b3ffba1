"""receiptd, PostgreSQL and the simulated App Store, and who may ask them what."""

import base64
import hashlib
import hmac
import json
import time
import uuid

import web
from database import Database
from processes import Child, free_port, wait_until
from server import Server

SECRET = "a-secret-that-only-this-check-uses-0123456789"
SUPPORT_TOKEN = "the-support-token-that-only-this-check-uses"
# The apps of the shipped configuration that the examples speak of: one with users, one with devices.
APPS = ["com.swiftclimb.app", "com.screentimerewards"]


class World:
    def __init__(self, binaries, folder):
        self.database = self.store = self.server = None
        try:
            config = f"{folder}/apps.json"
            with open(config, "w") as file:
                json.dump(self._apps(), file)
            self.database = Database(f"{folder}/postgres", "-c fsync=off").create()
            port = free_port()
            self.store_url = f"http://127.0.0.1:{port}"
            self.store = Child(
                [f"{binaries}/appstore-simulator", "serve", "--port", str(port), "--folder",
                 f"{folder}/authority", "--config", config, "--no-retries"], f"{folder}/store.log")
            wait_until(self._store_answers, 30, "the simulated App Store")
            with open(f"{folder}/authority/receiptd.env") as file:
                settings = dict(line.strip().split("=", 1) for line in file if "=" in line)
            self.log = f"{folder}/receiptd.log"
            self.server = Server(binaries, self.log, {
                **{name: value.strip("'") for name, value in settings.items()},
                "DATABASE_URL": self.database.url, "RECEIPTD_CONFIG": config,
                "APP_STORE_URL": self.store_url, "APP_STORE_SANDBOX_URL": f"{self.store_url}/sandbox",
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
            # Nothing is asked of the outside world.
            app.get("auth", {}).pop("jwks", None)
        return {"apps": apps}

    def _store_answers(self):
        try:
            return web.get(f"{self.store_url}/control/clock").status == 200
        except web.NoAnswer:
            return False

    def control(self, path, body):
        answer = web.post(f"{self.store_url}/control/{path}", body, timeout=30)
        if answer.status >= 300:
            raise RuntimeError(f"/control/{path}: {answer.status} {answer.body[:500]}")
        return answer.json()

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
