import Foundation
import TestProcess

/// Apple's App Store Server Library for Python, as the judge of request bodies.
enum AppleModels {
  /// The bodies as the library's client would send them, after it has read them into its own types: JSON with sorted
  /// keys.
  static func parse(_ bodies: [(model: String, body: [UInt8])]) async throws -> [String] {
    let operations = try bodies.map { model, body in
      ["do": "parse_request", "model": model, "request": try JSONSerialization.jsonObject(with: Data(body))]
    }
    let task = FileManager.default.temporaryDirectory.appending(path: "receiptd-models-\(UUID()).json")
    try JSONSerialization.data(withJSONObject: ["store": [:], "operations": operations]).write(to: task)
    defer { try? FileManager.default.removeItem(at: task) }
    let project = URL(filePath: Harness.migrations).deletingLastPathComponent()
    let output = try await Command(
      project.appending(path: ".build-python/bin/python").path,
      [project.appending(path: "Tests/AppStoreSimulatorTests/Python/apple_client.py").path, task.path]
    ).output()
    let outcomes = try JSONSerialization.jsonObject(with: output) as? [[String: Any]] ?? []
    return try outcomes.map { try sorted($0["value"] ?? $0) }
  }

  /// A body with sorted keys.
  static func sorted(_ body: [UInt8]) throws -> String {
    try sorted(JSONSerialization.jsonObject(with: Data(body)))
  }

  private static func sorted(_ value: Any) throws -> String {
    String(decoding: try JSONSerialization.data(withJSONObject: value, options: [.sortedKeys]), as: UTF8.self)
  }
}
