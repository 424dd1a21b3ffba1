"""The program of scripts/harness/console-speed."""

import hashlib
import http.client
import os
import re
import statistics
import subprocess
import sys
import time
from urllib.parse import urlencode, urlsplit
from uuid import UUID

import web
from processes import TICKS, wait_until
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
        settle(server.child.pid)
        return measure(f"http://127.0.0.1:{server.admin_port}", token)
    finally:
        server.stop()


def settle(pid):
    """Waits until the server's jobs have done what they find in the tables: it needs less than 5 % of a processor."""

    def seconds():
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return sum(int(field) for field in file.read().rsplit(")", 1)[1].split()[11:13]) / TICKS

    def is_quiet():
        before = seconds()
        time.sleep(5)
        return seconds() - before < 0.25

    wait_until(is_quiet, 900, "the end of the server's first jobs")


def measure(origin, token):
    cookie = sign_in(origin, token)
    paths = [path for path in pages(origin, cookie) if re.search(os.environ.get("PAGES", ""), path)]
    faults, slowest, largest = 0, (0.0, 0.0), 0
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
        holds = status in (200, 303) and median < MEDIAN and p99 < P99 and size < SIZE
        faults += not holds
        slowest = max(slowest[0], median * 1000), max(slowest[1], p99 * 1000)
        largest = max(largest, size / 1000)
        print(f"{'ok   ' if holds else 'FAULT'} {path:44} {status} median {median * 1000:6.1f} ms  p99 {p99 * 1000:6.1f} ms"
              f"  {size / 1000:6.1f} kB")
    print(f"{len(paths)} pages, {faults} faults; slowest median {slowest[0]:.1f} ms, slowest p99 {slowest[1]:.1f} ms, "
          f"largest {largest:.1f} kB")
    return 1 if faults else 0


def pages(origin, cookie):
    """The paths of all pages: each list with few days and many, each chart, and the customers whose history is the longest."""

    def links(path, pattern):
        found = web.get(f"{origin}/console/{path}", headers={"Cookie": cookie}, timeout=60)
        return sorted(set(re.findall(pattern, found.body.decode())))

    lists = links("lists", r"/console/lists\?list=([a-z-]+)")
    charts = links("numbers", r"/console/numbers/([a-z_-]+)\?")
    customer = links("lists?list=renewing&days=31", r'/console/customer/([^"?]+)')[0]
    apps = ("com.swiftclimb.app", "com.thaqalayn.app")
    user, device = UUID(hashlib.md5(b"user2").hexdigest()), str(UUID(hashlib.md5(b"device1").hexdigest())).upper()
    of_app = f"app={apps[0]}&by=app&period=24m"
    return [
        "search", "search?q=Emma", "search?q=nobody", f"search?q={10**15 + 10}", f"customer/{customer}", f"customer/{user}",
        f"customer/{user}?page=20", f"customer/{device}",
        "lists", *(f"lists?list={name}" for name in lists), *(f"lists?list={name}&days=366" for name in lists),
        *(f"lists?list={name}&days=366&app={app}" for name in lists for app in apps),
        "numbers", f"numbers?{of_app}", "numbers?by=tier&period=24m", *(f"numbers/{name}" for name in charts),
        *(f"numbers/{name}?{of_app}" for name in charts), "report", f"report?app={apps[0]}",
        "queues", "queues?state=dead", "queues?state=waiting&destination=cloudkit", "queues?destination=profiles",
        "queues?destination=consumption", "queues?destination=old_proof",
        "record", "record?rules=on", "record?by=nobody", "record?action=transfer&rules=on", f"record?app={apps[1]}&rules=on",
        f"record?customer={user}", "record?before=1000", "people", "configuration", "what-if", "health",
        f"act/grant?customer={user}&bundleID={apps[0]}",
    ]


def sign_in(origin, token):
    connection = http.client.HTTPConnection(urlsplit(origin).netloc, timeout=30)
    connection.request(
        "POST", "/console/sign-in", urlencode({"token": token}),
        {"Origin": origin, "Content-Type": "application/x-www-form-urlencoded"})
    answer = connection.getresponse()
    answer.read()
    return answer.getheader("Set-Cookie").split(";")[0]


sys.exit(main(sys.argv[1]))
