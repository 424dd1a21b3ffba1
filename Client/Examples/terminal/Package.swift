// swift-tools-version: 6.1
import PackageDescription

let package = Package(
  name: "terminal",
  platforms: [.macOS(.v13)],
  dependencies: [
    .package(name: "ReceiptdClient", path: "../.."),
    .package(url: "https://github.com/apple/swift-crypto.git", exact: "4.5.2"),
  ],
  targets: [
    .executableTarget(
      name: "terminal",
      dependencies: [
        .product(name: "ReceiptdClient", package: "ReceiptdClient"),
        .product(name: "Crypto", package: "swift-crypto", condition: .when(platforms: [.linux])),
      ])
  ]
)
