"""Samples of receiptd's resources, and their growth."""
import os
import statistics
import urllib.request

from processes import resident_megabytes

# Each figure's title, and the growth of its median that is allowed from an hour to the last one. Descriptors, threads and
# connections vary with the callers of the moment; a leak grows with every request. Memory is compared from the middle on:
# until then the rate limits' tables of 65,536 addresses and of as many users fill, and the allocator's arenas reach their
# size.
FIGURES = {
    "memory": ("resident MB", 12, 4),
    "descriptors": ("descriptors", 1, 16),
    "threads": ("threads", 1, 8),
    "connections": ("database connections", 1, 2),
    "series": ("series of metrics", 1, 10),
}
# In the last hour. The bound of the growth does not see a build that takes more memory from its start on.
MOST_RESIDENT_MB = 96


def take(world):
    """One sample."""
    process = f"/proc/{world.server.pid}"
    return {
        "memory": resident_megabytes(world.server.pid),
        "descriptors": len(os.listdir(f"{process}/fd")),
        "threads": len(os.listdir(f"{process}/task")),
        "connections": int(world.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid()")),
        "series": series(world.admin_port),
    }


def series(port):
    """The number of series in a scrape."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        return sum(1 for line in response if line[:1] not in (b"#", b"\n"))


def medians(samples):
    return {name: statistics.median(sample[name] for sample in samples) for name in FIGURES}


def faults(hours):
    """The figures that grew beyond their bounds, and memory beyond its own; `hours` has the medians of each hour."""
    found = [
        f"{what} went from {hours[since][name]:.1f} in hour {since} to {hours[-1][name]:.1f}, by more than {bound}"
        for name, (what, since, bound) in FIGURES.items() if hours[-1][name] > hours[since][name] + bound]
    if hours[-1]["memory"] > MOST_RESIDENT_MB:
        found.append(f"{hours[-1]['memory']:.1f} resident MB in the last hour, more than {MOST_RESIDENT_MB}")
    return found
