// swift-tools-version: 6.2
import PackageDescription

// The scripts build with warnings as errors. Somebody who builds with a newer compiler must not
// be stopped by a warning that did not exist when this was written, so it is not the default.
let strict: [SwiftSetting] =
  Context.environment["RECEIPTD_STRICT"] == "1" ? [.treatAllWarnings(as: .error)] : []

let swiftSettings: [SwiftSetting] =
  [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
  ] + strict

let package = Package(
  name: "receiptd",
  products: [
    .executable(name: "receiptd", targets: ["receiptd"]),
    .executable(name: "appstore-simulator", targets: ["appstore-simulator"]),
  ],
  dependencies: [
    // Pinned exactly: no lock file is committed, and a service that is trusted with money
    // should be built from what it was tested with. None of these pulls in SwiftNIO.
    .package(url: "https://github.com/apple/swift-crypto.git", exact: "4.5.2"),
    .package(url: "https://github.com/apple/swift-certificates.git", exact: "1.21.1"),
    .package(url: "https://github.com/apple/swift-asn1.git", exact: "1.7.4"),
    .package(url: "https://github.com/vapor/jwt-kit.git", exact: "5.7.1"),
    .package(url: "https://github.com/apple/swift-http-types.git", exact: "1.8.0"),
    .package(url: "https://github.com/apple/swift-log.git", exact: "1.16.2"),
    .package(url: "https://github.com/apple/swift-argument-parser.git", exact: "1.8.2"),
    .package(url: "https://github.com/apple/swift-collections.git", exact: "1.6.0"),
    .package(url: "https://github.com/apple/swift-metrics.git", exact: "2.13.0"),
  ],
  targets: [
    // System libraries. Of the C library, Swift's own module leaves out epoll.
    .systemLibrary(name: "CEpoll"),
    .systemLibrary(
      name: "CLibpq", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
    .systemLibrary(
      name: "CCurl", path: "Sources/CLibcurl/CCurl", pkgConfig: "libcurl",
      providers: [.apt(["libcurl4-openssl-dev"])]),
    // libcurl's setters are variadic, which Swift cannot call; the shim gives each a fixed shape.
    .target(name: "CLibcurl", dependencies: ["CCurl"], path: "Sources/CLibcurl/Shim"),

    // What could be lifted out: none of these knows what a receipt is.
    .target(name: "Threads", swiftSettings: swiftSettings),
    .target(name: "Identifiers", swiftSettings: swiftSettings),
    .target(name: "Sockets", dependencies: ["CEpoll", "Threads"], swiftSettings: swiftSettings),
    .target(name: "JSON", swiftSettings: swiftSettings),
    .target(
      name: "HTTP",
      dependencies: [
        "Identifiers", "JSON", "Sockets",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Postgres",
      dependencies: [
        "CEpoll", "CLibpq", "Threads",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "DequeModule", package: "swift-collections"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .target(
      name: "Curl",
      dependencies: [
        "CLibcurl", "Threads",
        .product(name: "DequeModule", package: "swift-collections"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
      ],
      swiftSettings: swiftSettings),

    .target(
      name: "PrometheusText",
      dependencies: [.product(name: "CoreMetrics", package: "swift-metrics")],
      swiftSettings: swiftSettings),

    // What the App Store says, and what it means.
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

    // The product.
    .target(
      name: "ReceiptService",
      dependencies: [
        "APIDescription", "Identifiers", "Sockets", "JSON", "HTTP", "Postgres", "Curl", "AppStore",
        "Subscriptions", "PrometheusText",
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
        "ReceiptService", "HTTP", "Identifiers", "JSON", "Postgres", "Sockets",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),

    // The stand-in for the App Store; never linked into receiptd.
    .target(
      name: "AppStoreSimulator",
      dependencies: [
        "AppStore", "HTTP", "Curl", "Identifiers",
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
        "AppStoreSimulator", "AppStore", "Identifiers",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ],
      swiftSettings: swiftSettings),

    // Tests. TestProcess runs programs without keeping the threads of Swift's tasks.
    .target(name: "CSpawn", path: "Tests/CSpawn"),
    .target(
      name: "TestProcess", dependencies: ["CSpawn"], path: "Tests/TestProcess",
      swiftSettings: swiftSettings),
    // TestDatabase gives each test an empty database of its own.
    .target(
      name: "TestDatabase", dependencies: ["Postgres", "TestProcess"], path: "Tests/TestDatabase",
      swiftSettings: swiftSettings),
    // TestSocket is the other end of a connection, which does what no client should.
    .target(
      name: "TestSocket", dependencies: ["Sockets"], path: "Tests/TestSocket",
      swiftSettings: swiftSettings),
    .testTarget(
      name: "SocketsTests", dependencies: ["Sockets", "TestSocket"], swiftSettings: swiftSettings),
    .testTarget(name: "IdentifiersTests", dependencies: ["Identifiers"], swiftSettings: swiftSettings),
    .testTarget(name: "JSONTests", dependencies: ["JSON"], swiftSettings: swiftSettings),
    .testTarget(
      name: "HTTPTests",
      dependencies: [
        "HTTP", "Sockets", "TestSocket",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "PostgresTests", dependencies: ["Postgres", "TestDatabase"],
      swiftSettings: swiftSettings),
    .testTarget(
      name: "CurlTests",
      dependencies: [
        "Curl", "HTTP", "Sockets", "TestDatabase",
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
      name: "SubscriptionsTests", dependencies: ["Subscriptions"], swiftSettings: swiftSettings),
    .testTarget(
      name: "AppStoreSimulatorTests",
      dependencies: [
        "AppStoreSimulator", "AppStore", "Curl", "HTTP", "TestProcess", "TestSocket",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      exclude: ["Python"], swiftSettings: swiftSettings),
    .testTarget(
      name: "ReceiptServiceTests",
      dependencies: [
        "APIDescription", "ReceiptService", "AppStore", "AppStoreSimulator", "Curl", "HTTP", "JSON",
        "Postgres", "PrometheusText", "Sockets", "Subscriptions", "TestDatabase", "TestProcess",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "JWTKit", package: "jwt-kit"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: swiftSettings),
    // The programs themselves, as processes, fed by implementations that are not ours.
    .testTarget(
      name: "AcceptanceTests",
      dependencies: [
        "receiptd", "AppStore", "AppStoreSimulator", "Curl", "HTTP", "Postgres", "TestDatabase",
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

// The fuzz targets exist for `scripts/fuzz` alone: it compiles everything for libFuzzer, with which nothing else
// should be built, and an ordinary build should not see them.
if Context.environment["RECEIPTD_FUZZ"] == "1" {
  package.targets += [
    .target(name: "FuzzSupport", path: "Fuzz/Support", swiftSettings: swiftSettings),
    .executableTarget(
      name: "FuzzHTTP",
      dependencies: [
        "FuzzSupport", "HTTP", "Sockets", .product(name: "HTTPTypes", package: "swift-http-types"),
      ],
      path: "Fuzz/HTTP", swiftSettings: swiftSettings),
    .executableTarget(
      name: "FuzzAppStore",
      dependencies: [
        "FuzzSupport", "AppStore", "Identifiers", "JSON", .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "X509", package: "swift-certificates"),
      ],
      path: "Fuzz/AppStore", swiftSettings: swiftSettings),
    .executableTarget(
      name: "FuzzService", dependencies: ["FuzzSupport", "HTTP", "JSON", "Postgres", "ReceiptService"],
      path: "Fuzz/Service", swiftSettings: swiftSettings),
  ]
}

// What JSON costs, measured by hand (docs/performance.md).
if Context.environment["RECEIPTD_BENCHMARKS"] == "1" {
  package.targets.append(
    .executableTarget(
      name: "JSONBenchmark",
      dependencies: [
        "AppStore", "HTTP", "JSON", .product(name: "HTTPTypes", package: "swift-http-types"),
      ],
      path: "Benchmarks/JSON", swiftSettings: swiftSettings))
}
