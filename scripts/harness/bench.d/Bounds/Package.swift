// swift-tools-version: 6.2
import PackageDescription

// What the machine itself can do, to hold receiptd against, and a load at a fixed rate. A package of its own: nothing of it
// reaches the product.
let package = Package(
  name: "Bounds",
  targets: [.executableTarget(name: "DispatchResponder"), .executableTarget(name: "OpenLoop")])
