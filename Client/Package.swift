// swift-tools-version: 6.1
import PackageDescription

// The scripts of receiptd build with warnings as errors; an app that adds the package does not.
let strict: [SwiftSetting] =
  Context.environment["RECEIPTD_STRICT"] == "1" ? [.unsafeFlags(["-warnings-as-errors"])] : []

let swiftSettings: [SwiftSetting] =
  [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
  ] + strict

let package = Package(
  name: "ReceiptdClient",
  platforms: [.iOS(.v16), .macOS(.v13), .watchOS(.v9), .tvOS(.v16), .visionOS(.v1)],
  products: [
    .library(name: "ReceiptdClient", targets: ["ReceiptdClient"])
  ],
  dependencies: [
    // Only for Linux: Apple platforms have CryptoKit.
    .package(url: "https://github.com/apple/swift-crypto.git", exact: "4.5.2")
  ],
  targets: [
    .target(
      name: "ReceiptdClient",
      dependencies: [
        .product(name: "Crypto", package: "swift-crypto", condition: .when(platforms: [.linux]))
      ],
      swiftSettings: swiftSettings),
    // A customer of two apps in a terminal, against scripts/demo --serve. No product: an app that adds the package does not build it.
    .executableTarget(
      name: "terminal",
      dependencies: [
        "ReceiptdClient",
        .product(name: "Crypto", package: "swift-crypto", condition: .when(platforms: [.linux])),
      ],
      path: "Examples/terminal", swiftSettings: swiftSettings),
    .testTarget(
      name: "ReceiptdClientTests", dependencies: ["ReceiptdClient"], swiftSettings: swiftSettings),
  ]
)
