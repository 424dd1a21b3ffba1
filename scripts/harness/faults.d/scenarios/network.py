"""The network between receiptd and PostgreSQL is cut, refuses, hangs, and forgets its connections."""

import time

from proxy import Proxy

TITLE = "The network to PostgreSQL"


def run(world, repetitions):
    database = world.add_database()
    proxy = Proxy(database.port)
    world.on_exit.append(proxy.close)
    world.add_server(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres")
    load = world.start_load()
    troubles = [(proxy.cut, 4), (proxy.refuse, 4), (proxy.deafen, 8), (proxy.deafen, 1)]
    for _ in range(repetitions):
        for trouble, seconds in troubles:
            time.sleep(2)
            trouble()
            time.sleep(seconds)
            healed = time.monotonic()
            proxy.heal()
            world.probe.measure(trouble.__name__, healed)
        time.sleep(2)
        forgotten = time.monotonic()
        proxy.forget()
        world.probe.measure("forget", forgotten)
    return {"troubles": repetitions * (len(troubles) + 1), **world.judge(database)}
