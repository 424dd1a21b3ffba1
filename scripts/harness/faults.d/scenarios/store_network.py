"""The network between the App Store and receiptd is cut, refuses and hangs, in both directions.

Notifications pass through it, and so do receiptd's calls about bare transaction ids.
"""

import collections
import time
from urllib.parse import urlsplit

from proxy import Proxy
from store import Store

from .store_down import ALLOWED, ask_until, await_store

TITLE = "The network to the App Store"
TROUBLES = [("cut", 4), ("refuse", 4), ("deafen", 8)]


def run(world, repetitions):
    database = world.add_database()
    world.store = Store(world.binaries, world.folder, world.config)
    to_store = Proxy(urlsplit(world.store.url).port)
    server = world.add_server(database.url, f"http://127.0.0.1:{to_store.port}")
    to_receiptd = Proxy(server.port)
    world.on_exit += [to_store.close, to_receiptd.close]
    world.start_load([f"http://127.0.0.1:{to_receiptd.port}"])
    answers = collections.Counter()
    for _ in range(repetitions):
        for trouble, seconds in TROUBLES:
            time.sleep(2)
            for proxy in (to_store, to_receiptd):
                getattr(proxy, trouble)()
            # Directly to receiptd: only its connection to the store is broken.
            ask_until(world, server, time.monotonic() + seconds, answers)
            healed = time.monotonic()
            for proxy in (to_store, to_receiptd):
                proxy.heal()
            world.probe.measure(trouble, healed)
            await_store(world, server, trouble, healed)
    surprising = {word: count for word, count in answers.items() if word not in ALLOWED}
    world.claim("an id is answered 200 or 503 with Retry-After meanwhile", not surprising, surprising)
    return {
        "troubles": repetitions * len(TROUBLES), "ids asked about meanwhile": answers.total(),
        "of them answered 503": answers["503"], **world.judge(database)}
