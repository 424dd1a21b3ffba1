"""The program of scripts/harness/console-speed."""

import http.client
import os
import re
import statistics
import subprocess
import sys
import time
from urllib.parse import urlencode, urlsplit

import web
from server import Server

MEDIAN, P99, SIZE, ROUNDS = 0.100, 0.300, 150_000, int(os.environ.get("ROUNDS", "40"))


def main(folder):
    binaries = os.environ["CONSOLE_SPEED_BIN"]
    settings = {"DATABASE_URL": os.environ["DATABASE_URL"], "LOG_LEVEL": "error", "RECEIPTD_CONFIG": "config/apps.json"}
    settings |= {name: "a-secret-that-only-this-check-uses-0123456789" for name in (
        "SWIFTCLIMB_JWT_SECRET", "THAQALAYN_JWT_SECRET")}
    name = f"person-{os.getpid()}"
    token = subprocess.run(
        [f"{binaries}/receiptd", "people", "add", name, "--role", "lead", "--by", "root-of-the-server"],
        env={**os.environ, **settings}, check=True, capture_output=True, text=True).stdout.split()[-1]
    server = Server(binaries, f"{folder}/receiptd.log", settings)
    try:
        return measure(f"http://127.0.0.1:{server.admin_port}", token)
    finally:
        server.stop()


def measure(origin, token):
    cookie = sign_in(origin, token)
    user, device = "8a6e0804-2bd0-4672-b79d-d97027f9071a", None
    found = web.get(f"{origin}/console/lists?list=renewing&days=31", headers={"Cookie": cookie}, timeout=60)
    customer = re.search(r'/console/customer/([^"?]+)', found.body.decode())
    paths = [
        "search", f"customer/{customer.group(1)}" if customer else f"customer/{user}", "lists", "lists?list=renewing&days=31",
        "numbers", "numbers/mrr", "numbers/mrr?by=tier", "numbers/revenue", "numbers/subscribers", "numbers/churn",
        "numbers/retention", "report", "queues", "queues?state=dead", "queues?state=waiting&destination=cloudkit",
        "queues?destination=profiles", "record", "people", "configuration", "what-if", "health",
    ]
    faults = 0
    for path in paths:
        times, size, status = [], 0, 0
        for _ in range(ROUNDS + 2):
            start = time.perf_counter()
            answer = web.get(f"{origin}/console/{path}", headers={"Cookie": cookie}, timeout=60)
            times.append(time.perf_counter() - start)
            status, size = answer.status, len(answer.body)
        # The first two read the database's pages from the disk.
        times = sorted(times[2:])
        median, p99 = statistics.median(times), times[min(len(times) - 1, int(len(times) * 0.99))]
        holds = status == 200 and median < MEDIAN and p99 < P99 and size < SIZE
        faults += not holds
        print(f"{'ok   ' if holds else 'FAULT'} {path:44} {status} median {median * 1000:6.1f} ms  p99 {p99 * 1000:6.1f} ms"
              f"  {size / 1000:6.1f} kB")
    print(f"{len(paths)} pages, {faults} faults")
    return 1 if faults else 0


def sign_in(origin, token):
    connection = http.client.HTTPConnection(urlsplit(origin).netloc, timeout=30)
    connection.request(
        "POST", "/console/sign-in", urlencode({"token": token}),
        {"Origin": origin, "Content-Type": "application/x-www-form-urlencoded"})
    answer = connection.getresponse()
    answer.read()
    return answer.getheader("Set-Cookie").split(";")[0]


sys.exit(main(sys.argv[1]))
