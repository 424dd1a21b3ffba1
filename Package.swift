// swift-tools-version: 6.2
import PackageDescription

// The scripts build with warnings as errors. That is not the default, so that a newer compiler's new warnings do
// not break other builds.
let strict: [SwiftSetting] =
  Context.environment["RECEIPTD_STRICT"] == "1" ? [.treatAllWarnings(as: .error)] : []

// The commit, as `receiptd --version` shows it. scripts/package and Dockerfile set it; other builds are development
// builds. Only digits of a commit become a part of the program.
let commit = (Context.environment["RECEIPTD_COMMIT"] ?? "").filter { $0.isHexDigit || $0 == "+" }

let swiftSettings: [SwiftSetting] =
  [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
  ] + strict

let package = Package(
  name: "receiptd",
  platforms: [.macOS(.v15)],
  products: [
    .executable(name: "receiptd", targets: ["receiptd"]),
    .executable(name: "appstore-simulator", targets: ["appstore-simulator"]),
  ],
  dependencies: [
    // Exact versions, because no lock file is committed: a build uses the versions that were tested, as long as no
    // repository moves a tag. None depends on SwiftNIO.
    .package(url: "https://github.com/apple/swift-crypto.git", exact: "4.5.2"),
    .package(url: "https://github.com/apple/swift-certificates.git", exact: "1.21.1"),
    .package(url: "https://github.com/apple/swift-asn1.git", exact: "1.7.4"),
    .package(url: "https://github.com/vapor/jwt-kit.git", exact: "5.7.1"),
    .package(url: "https://github.com/apple/swift-http-types.git", exact: "1.8.0"),
    .package(url: "https://github.com/apple/swift-log.git", exact: "1.16.2"),
    .package(url: "https://github.com/apple/swift-argument-parser.git", exact: "1.8.2"),
    .package(url: "https://github.com/apple/swift-collections.git", exact: "1.6.0"),
    .package(url: "https://github.com/apple/swift-metrics.git", exact: "2.13.0"),
    .package(url: "https://github.com/hummingbird-project/swift-mustache.git", exact: "2.1.1"),
  ],
  targets: [
    // System libraries. Swift's module of the C library leaves out epoll and eventfd.
    .systemLibrary(name: "CEpoll"),
    .systemLibrary(
      name: "CLibpq", pkgConfig: "libpq", providers: [.apt(["libpq-dev"]), .brew(["libpq"])]),
    .systemLibrary(
      name: "CCurl", path: "Sources/CLibcurl/CCurl", pkgConfig: "libcurl",
      providers: [.apt(["libcurl4-openssl-dev"]), .brew(["curl"])]),
    // libcurl's setters are variadic, which Swift cannot call; the shim gives each a fixed shape.
    .target(name: "CLibcurl", dependencies: ["CCurl"], path: "Sources/CLibcurl/Shim"),
    // Swift cannot define a value for the compiler, C can.
    .target(name: "CBuildInfo", cSettings: [.define("RECEIPTD_COMMIT", to: "\"\(commit)\"")]),

    // General modules: none of them knows what a receipt is. Platform has what the machine provides: the differences
    // between Linux and macOS, the monotonic clock, IP addresses.
    .target(
      name: "Platform", dependencies: [.target(name: "CEpoll", condition: .when(platforms: [.linux]))],
      swiftSettings: swiftSettings),
    .target(name: "Identifiers", swiftSettings: swiftSettings),
    .target(name: "Sockets", dependencies: ["Platform"], swiftSettings: swiftSettings),
    .target(name: "JSON", swiftSettings: swiftSettings),
    .target(
      name: "HTTP",
      dependencies: [
        "Identifiers", "JSON", "Platform", "Sockets",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Postgres",
      dependencies: [
        "CLibpq", "Platform",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "DequeModule", package: "swift-collections"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Curl",
      dependencies: [
        "CLibcurl", "Platform",
        .product(name: "DequeModule", package: "swift-collections"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
      ],
      swiftSettings: swiftSettings),

    .target(
      name: "PrometheusText",
      dependencies: ["Platform", .product(name: "CoreMetrics", package: "swift-metrics")],
      swiftSettings: swiftSettings),

    // The App Store's data, and the rules of subscriptions.
    .target(
      name: "AppStore",
      dependencies: [
        "Identifiers", "JSON",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "X509", package: "swift-certificates"),
        .product(name: "SwiftASN1", package: "swift-asn1"),
        .product(name: "JWTKit", package: "jwt-kit"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
      ],
      swiftSettings: swiftSettings),
    .target(name: "Subscriptions", swiftSettings: swiftSettings),

    // docs/openapi.yaml, compiled in.
    .target(
      name: "APIDescription", resources: [.embedInCode("openapi.yaml")], swiftSettings: swiftSettings),

    .target(
      name: "Runbooks", resources: [.embedInCode("runbooks.md")], swiftSettings: swiftSettings),

    // Charts as inline SVG.
    .target(name: "Charts", dependencies: ["Text"], swiftSettings: swiftSettings),

    // Text for people: lines of a terminal, characters that a terminal does not show, times.
    .target(name: "Text", dependencies: ["HTTP"], swiftSettings: swiftSettings),

    // The product, from the bottom up: each module uses those above it. Work has clocks, jobs, queues and locks, and knows nothing
    // of receipts.
    .target(
      name: "Work",
      dependencies: [
        "Platform", "Postgres", "PrometheusText",
        .product(name: "CoreMetrics", package: "swift-metrics"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Configuration",
      dependencies: [
        "AppStore", "HTTP", "JSON", "Postgres", "Subscriptions",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "JWTKit", package: "jwt-kit"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    // What all routes share: the app of a request, the public errors, rate limits.
    .target(
      name: "Requests",
      dependencies: [
        "AppStore", "Configuration", "HTTP", "Platform", "Postgres", "Subscriptions", "Work",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Actions",
      dependencies: [
        "AppStore", "Configuration", "JSON", "Postgres", "Subscriptions", "Text", "Work",
        .product(name: "Crypto", package: "swift-crypto"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Customers",
      dependencies: [
        "Actions", "AppStore", "Configuration", "HTTP", "Identifiers", "JSON", "Platform", "Postgres",
        "Requests",
        "Subscriptions", "Text", "Work",
        .product(name: "CoreMetrics", package: "swift-metrics"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "DequeModule", package: "swift-collections"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Ledger",
      dependencies: [
        "Actions", "AppStore", "Configuration", "Customers", "HTTP", "Identifiers", "JSON", "Platform",
        "Postgres",
        "PrometheusText", "Requests", "Subscriptions", "Text", "Work",
        .product(name: "CoreMetrics", package: "swift-metrics"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "DequeModule", package: "swift-collections"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Authentication",
      dependencies: [
        "AppStore", "Configuration", "Curl", "HTTP", "Identifiers", "JSON", "Platform", "Postgres",
        "PrometheusText",
        "Requests", "Subscriptions", "Text", "Work",
        .product(name: "CoreMetrics", package: "swift-metrics"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "JWTKit", package: "jwt-kit"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Deliveries",
      dependencies: [
        "Actions", "AppStore", "Authentication", "Configuration", "Curl", "Customers", "HTTP", "Identifiers",
        "JSON",
        "Ledger", "Platform", "Postgres", "PrometheusText", "Requests", "Subscriptions", "Text", "Work",
        .product(name: "CoreMetrics", package: "swift-metrics"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Proofs",
      dependencies: [
        "AppStore", "Authentication", "Configuration", "Customers", "Deliveries", "HTTP", "JSON", "Ledger",
        "Postgres", "PrometheusText", "Requests", "Subscriptions", "Text", "Work",
        .product(name: "CoreMetrics", package: "swift-metrics"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Adoption",
      dependencies: [
        "Actions", "AppStore", "Configuration", "Customers", "HTTP", "JSON", "Ledger", "Platform", "Postgres",
        "Proofs", "Requests", "Subscriptions", "Text", "Work",
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Numbers",
      dependencies: [
        "Actions", "Authentication", "Configuration", "Customers", "HTTP", "Identifiers", "Ledger",
        "Postgres",
        "PrometheusText", "Requests", "Subscriptions", "Text", "Work",
        .product(name: "CoreMetrics", package: "swift-metrics"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Support",
      dependencies: [
        "Actions", "AppStore", "Authentication", "Configuration", "Customers", "Deliveries", "HTTP",
        "Identifiers", "JSON", "Ledger", "Platform", "Postgres", "PrometheusText", "Requests",
        "Subscriptions", "Text", "Work",
        .product(name: "CoreMetrics", package: "swift-metrics"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    // The pages for people. Templates, style and script are files, compiled in.
    .target(
      name: "Console",
      dependencies: [
        "Actions", "AppStore", "Authentication", "Charts", "Configuration", "Customers", "Deliveries",
        "HTTP",
        "Identifiers", "JSON", "Ledger", "Numbers", "Platform", "Postgres", "Requests", "Runbooks",
        "Subscriptions",
        "Support",
        "Text", "Work",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "Mustache", package: "swift-mustache"),
      ],
      resources: [.embedInCode("Templates"), .embedInCode("Static")], swiftSettings: swiftSettings),
    .target(
      name: "ReceiptService",
      dependencies: [
        "APIDescription", "CBuildInfo", "Console", "Identifiers", "Platform", "Sockets", "JSON", "HTTP",
        "Postgres", "Curl",
        "Actions", "Adoption", "AppStore", "Authentication", "Configuration", "Customers", "Deliveries",
        "Ledger",
        "Numbers", "Proofs", "Requests", "Subscriptions", "Support",
        "PrometheusText", "Text", "Work",
        .product(name: "CoreMetrics", package: "swift-metrics"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "JWTKit", package: "jwt-kit"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .executableTarget(
      name: "receiptd",
      dependencies: [
        "Actions", "Adoption", "Configuration", "ReceiptService", "HTTP", "Identifiers", "JSON", "Platform",
        "Postgres",
        "Sockets", "Support", "Text",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),

    // The simulated App Store; never linked into receiptd.
    .target(
      name: "AppStoreSimulator",
      dependencies: [
        "AppStore", "HTTP", "Curl", "Identifiers", "Platform",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "X509", package: "swift-certificates"),
        .product(name: "SwiftASN1", package: "swift-asn1"),
        .product(name: "JWTKit", package: "jwt-kit"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .executableTarget(
      name: "appstore-simulator",
      dependencies: [
        "AppStoreSimulator", "AppStore", .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ],
      swiftSettings: swiftSettings),

    // Tests. TestProcess runs programs without blocking the threads of Swift's tasks.
    .target(name: "CSpawn", path: "Tests/CSpawn"),
    .target(
      name: "TestProcess", dependencies: ["CSpawn"], path: "Tests/TestProcess",
      swiftSettings: swiftSettings),
    // TestDatabase gives each test an empty database of its own.
    .target(
      name: "TestDatabase", dependencies: ["Postgres", "TestProcess"], path: "Tests/TestDatabase",
      swiftSettings: swiftSettings),
    // TestSocket is a client that misbehaves.
    .target(
      name: "TestSocket", dependencies: ["Sockets"], path: "Tests/TestSocket",
      swiftSettings: swiftSettings),
    .testTarget(
      name: "SocketsTests", dependencies: ["Platform", "Sockets", "TestSocket"], swiftSettings: swiftSettings),
    .testTarget(name: "IdentifiersTests", dependencies: ["Identifiers"], swiftSettings: swiftSettings),
    .testTarget(name: "JSONTests", dependencies: ["JSON", "Platform"], swiftSettings: swiftSettings),
    .testTarget(
      name: "HTTPTests",
      dependencies: [
        "HTTP", "Platform", "Sockets", "TestSocket",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "PostgresTests", dependencies: ["Platform", "Postgres", "TestDatabase"],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "CurlTests",
      dependencies: [
        "Curl", "HTTP", "Platform", "Sockets", "TestDatabase",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "PrometheusTextTests",
      dependencies: ["PrometheusText", .product(name: "CoreMetrics", package: "swift-metrics")],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "AppStoreTests",
      dependencies: [
        "AppStore", "Identifiers", "JSON", "TestProcess",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "X509", package: "swift-certificates"),
        .product(name: "SwiftASN1", package: "swift-asn1"),
        .product(name: "JWTKit", package: "jwt-kit"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
      ],
      resources: [.copy("Fixtures")], swiftSettings: swiftSettings),
    .testTarget(
      name: "SubscriptionsTests", dependencies: ["Platform", "Subscriptions"], swiftSettings: swiftSettings),
    .testTarget(
      name: "AppStoreSimulatorTests",
      dependencies: [
        "AppStoreSimulator", "AppStore", "Curl", "HTTP", "TestProcess",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      exclude: ["Python"], swiftSettings: swiftSettings),
    .testTarget(
      name: "ChartsTests", dependencies: ["Charts", "Platform", "Text"], swiftSettings: swiftSettings),
    .testTarget(name: "TextTests", dependencies: ["Text"], swiftSettings: swiftSettings),
    .testTarget(
      name: "WorkTests",
      dependencies: [
        "Platform", "Postgres", "PrometheusText", "TestDatabase", "Work",
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "CustomersTests",
      dependencies: ["AppStore", "Customers", .product(name: "Crypto", package: "swift-crypto")],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "LedgerTests", dependencies: ["JSON", "Ledger", "Platform", "Postgres"],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "RequestsTests", dependencies: ["Platform", "Requests"], swiftSettings: swiftSettings),
    .testTarget(
      name: "ReceiptServiceTests",
      dependencies: [
        "APIDescription", "Actions", "Adoption", "AppStore", "AppStoreSimulator", "Authentication",
        "Configuration",
        "Curl", "Customers", "Deliveries", "HTTP", "JSON", "Ledger", "Numbers", "Platform", "Postgres",
        "PrometheusText", "Proofs", "ReceiptService", "Requests", "Sockets", "Subscriptions", "Support",
        "TestDatabase",
        "TestProcess", "Text", "Work",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "JWTKit", package: "jwt-kit"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      exclude: ["Fixtures"], swiftSettings: swiftSettings),
    // The programs as processes, with input from other implementations.
    .testTarget(
      name: "AcceptanceTests",
      dependencies: [
        "receiptd", "AppStore", "AppStoreSimulator", "Curl", "HTTP", "Platform", "Postgres", "TestDatabase",
        "TestProcess",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "JWTKit", package: "jwt-kit"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      exclude: ["Python"],
      swiftSettings: swiftSettings),
  ]
)

// Only `scripts/harness/fuzz` builds these targets: it compiles everything for libFuzzer.
if Context.environment["RECEIPTD_FUZZ"] == "1" {
  package.targets += [
    .target(
      name: "FuzzSupport", dependencies: ["Platform"], path: "Tests/Fuzz/Support",
      swiftSettings: swiftSettings),
    .executableTarget(
      name: "FuzzHTTP",
      dependencies: [
        "FuzzSupport", "HTTP", "Platform", "Sockets",
        .product(name: "HTTPTypes", package: "swift-http-types"),
      ],
      path: "Tests/Fuzz/HTTP", swiftSettings: swiftSettings),
    .executableTarget(
      name: "FuzzAppStore",
      dependencies: [
        "FuzzSupport", "AppStore", "Identifiers", "JSON", .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "X509", package: "swift-certificates"),
      ],
      path: "Tests/Fuzz/AppStore", swiftSettings: swiftSettings),
    .executableTarget(
      name: "FuzzService",
      dependencies: [
        "Configuration", "Customers", "FuzzSupport", "HTTP", "JSON", "Ledger", "Numbers", "Postgres",
        "Proofs", "ReceiptService", "Subscriptions",
      ],
      path: "Tests/Fuzz/Service", swiftSettings: swiftSettings),
  ]
}
