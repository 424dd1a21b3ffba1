// swift-tools-version: 6.2
import PackageDescription

// Other servers in Swift, to hold receiptd against. A package of its own: nothing of theirs reaches the product.
let package = Package(
  name: "Peers",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(url: "https://github.com/hummingbird-project/hummingbird.git", exact: "2.28.1"),
    .package(url: "https://github.com/swhitty/FlyingFox.git", exact: "0.27.1"),
  ],
  targets: [
    .executableTarget(
      name: "HummingbirdPeer",
      dependencies: [.product(name: "Hummingbird", package: "hummingbird")]),
    .executableTarget(
      name: "FlyingFoxPeer",
      dependencies: [.product(name: "FlyingFox", package: "FlyingFox")]),
  ])
