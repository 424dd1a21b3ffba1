"""What a release needs: each check with its command, what it covers, and what its record keeps."""
from dataclasses import dataclass, field

# What decides how the server behaves in a check. The other files of config are of the package, the proxies and Prometheus.
PRODUCT = ("Sources", "migrations", "Package.swift", "config/apps.json", "config/AppleRootCA-G3.cer")
SHIPPED = PRODUCT + ("config",)
# Without what only the package has, which check-deb alone runs.
SHARED = SHIPPED + tuple(f":(exclude)config/receiptd{end}" for end in ("-backup*", "-setup", ".service"))


@dataclass(frozen=True)
class Check:
    name: str
    command: str
    # On two cores, with the build.
    minutes: int
    # A later change of these paths makes the record old.
    sources: tuple
    # Figures of the output: the name, and a pattern with one group. Counts of several matches are added.
    figures: dict = field(default_factory=dict)
    # The rows of the tables that are kept, by their first cell; all of them without this.
    rows: tuple = ()


TESTS = {"tests": r"Test run with (\d+) tests? in \d+ suites? passed"}

ALL = [
    Check("tests", "scripts/test", 35, SHARED + ("Tests", "Client", "scripts", "docs/openapi.yaml"), TESTS),
    Check("tests-16", "scripts/test --postgres 16", 30, SHARED + ("Tests",), TESTS),
    Check("tests-18", "scripts/test --postgres 18", 30, SHARED + ("Tests",), TESTS),
    Check("check-api", "scripts/harness/check-api", 5, PRODUCT + ("docs/openapi.yaml", "scripts/harness/check-api.d"),
          {"examples": r"^(\d+) examples sent"}),
    Check("faults", "scripts/harness/faults", 20, PRODUCT + ("scripts/harness/faults.d",)),
    Check("lives", "LIVES=100000 scripts/test --filter ReceiptServiceTests.LivesTests", 60,
          ("Sources/Subscriptions", "Sources/AppStoreSimulator", "Tests/ReceiptServiceTests/Scenarios"), TESTS),
    Check("what-if-lives", "WHATIF_LIVES=20000 scripts/test --filter ReceiptServiceTests.WhatIfManyLivesTests", 60,
          ("Sources/Subscriptions", "Sources/Ledger", "Sources/Numbers/WhatIf", "Sources/AppStoreSimulator",
           "Tests/ReceiptServiceTests/Numbers/WhatIf"),
          {"thousand lives under ten configurations each": r"with (\d+) test cases passed"}),
    Check("what-if", "scripts/harness/what-if", 20, PRODUCT + ("scripts/harness/what-if", "scripts/harness/load-million")),
    Check("fuzz", "scripts/harness/fuzz --seconds 120", 50, ("Sources", "Tests/Fuzz", "Package.swift")),
    Check("threads", "scripts/harness/test-threads", 60, ("Sources", "Tests", "Package.swift"),
          TESTS | {"reports": r"^(\d+) reports$"}),
    Check("slow", "scripts/harness/slow", 8, PRODUCT + ("scripts/harness/slow",),
          {"milliseconds to ready": r"From the start to ready, on a migrated database: (\d+) ms"}),
    Check("endurance", "scripts/harness/endurance", 30, PRODUCT + ("scripts/harness/endurance.d",),
          {"requests": r"^([\d,]+) requests in"}, ("1", "12", "24")),
    Check("migrate-live", "scripts/harness/migrate-live", 5, ("migrations", "scripts/harness/migrate-live.d"),
          {"seconds of migrate": r"migrate took ([\d.]+) s"}),
    Check("adopt-live", "scripts/harness/adopt-live", 20, PRODUCT + ("scripts/harness/adopt-live.d",),
          {"seconds of the dry run": r"dry run (\d+) s"}),
    Check("rolling-restart", "scripts/harness/rolling-restart", 5,
          PRODUCT + ("config/proxies", "config/prometheus.yml", "config/alerts.yml", "scripts/harness/rolling-restart"),
          {"requests": r"(\d+) requests during 4 restarts, none failed"}),
    Check("restore-drill", "scripts/harness/restore-drill", 3, PRODUCT + ("scripts/harness/restore-drill",),
          {"rows": r"after reconcile: all (\d+) rows as they were"}),
    # Until there is a tag: the build before the migrations froze.
    Check("upgrade", "scripts/harness/upgrade --from 01513fa", 10, PRODUCT + ("scripts/harness/upgrade.d",)),
    Check("check-deb", "scripts/harness/check-deb", 10,
          SHIPPED + ("scripts/package", "scripts/package.d", "scripts/harness/check-deb.d")),
    Check("check-image", "scripts/harness/check-image", 20,
          SHARED + ("Dockerfile", ".dockerignore", "docker-compose.yml", "scripts/harness/try-compose",
                     "scripts/harness/check-image.d"),
          {"MB of the image": r"^the image of receiptd: (\d+) MB"}),
    Check("client-size", "scripts/harness/client-size", 3, ("Client/Sources", "scripts/harness/client-size.d")),
    Check("client-lives", "scripts/harness/client-lives", 15,
          PRODUCT + ("Client/Sources", "Client/Tests"),
          {"random lives": r"^(\d+) random lives",
           "requests a second of 1,000 clients before the outage": r"usually ([\d.]+) requests a second",
           "at most after it": r"after the return at most ([\d.]+)"}),
    Check("check-console", "scripts/harness/check-console", 10, PRODUCT + ("scripts/harness/check-console.d",),
          {"checks": r"(\d+) checks"}),
    Check("console-speed", "scripts/harness/console-speed", 25,
          PRODUCT + ("scripts/harness/console-speed", "scripts/harness/console-speed.d", "scripts/harness/load-million"),
          {"pages": r"^(\d+) pages, 0 faults", "ms: the slowest median": r"slowest median ([\d.]+) ms",
           "ms: the slowest p99": r"slowest p99 ([\d.]+) ms", "kB: the largest page": r"largest ([\d.]+) kB"}),
    Check("bench", "scripts/harness/bench --seconds 12", 20, PRODUCT),
    Check("bench-open", "scripts/harness/bench --open --seconds 8", 30, PRODUCT + ("scripts/harness/bench.d",)),
    Check("bench-against", "scripts/harness/bench --against d735fc2 --seconds 6 --half", 20, PRODUCT),
]
