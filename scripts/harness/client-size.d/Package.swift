// swift-tools-version: 6.1
import PackageDescription

// The same program without and with the client, for scripts/harness/client-size.
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")

let package = Package(
  name: "client-size",
  dependencies: [
    .package(name: "ReceiptdClient", path: "../../../Client"),
    .package(url: "https://github.com/apple/swift-crypto.git", exact: "4.5.2"),
  ],
  targets: [
    .executableTarget(name: "without", dependencies: [crypto]),
    .executableTarget(
      name: "with", dependencies: [crypto, .product(name: "ReceiptdClient", package: "ReceiptdClient")]),
  ])
