"""One module for each scenario: `TITLE`, and `run(world, repetitions)`, which returns figures."""

from . import (
    failover, full_disk, kill_postgres, kill_receiptd, network, store_down, store_network, two_servers)

# Name, module, repetitions, repetitions with --quick.
ALL = [
    ("kill-receiptd", kill_receiptd, 50, 5),
    ("kill-postgres", kill_postgres, 10, 2),
    ("failover", failover, 4, 2),
    ("full-disk", full_disk, 3, 1),
    ("network", network, 3, 1),
    ("store-network", store_network, 3, 1),
    ("store-down", store_down, 3, 1),
    ("two-servers", two_servers, 10, 2),
]
