import Foundation

/// The routes of `docs/openapi.yaml`, read by its layout: two spaces a level, no quoted paths, one member a line.
/// scripts/harness/check-api uses a YAML parser and fails if it reads another document.
struct DescribedAPI {
  struct Operation: Hashable, CustomStringConvertible {
    var method: String
    var pattern: String
    var maximumBodyLength: Int?
    var isOnAdminPort: Bool

    var description: String { "\(method) \(pattern)" }
  }

  private(set) var operations: [Operation] = []
  /// The list of `components.schemas.Code`.
  private(set) var codes: [String] = []

  static let file = URL(filePath: Harness.migrations).deletingLastPathComponent().appending(
    path: "docs/openapi.yaml")

  init() throws {
    var keys: [String] = []
    var adminPaths: Set<String> = []
    for line in try String(contentsOf: Self.file, encoding: .utf8).split(separator: "\n") {
      let text = line.drop { $0 == " " }
      let level = (line.count - text.count) / 2
      if text.hasPrefix("- ") {
        if keys == ["components", "schemas", "Code", "enum"] { codes.append(String(text.dropFirst(2))) }
        continue
      }
      guard let colon = text.firstIndex(of: ":"), level <= keys.count else { continue }
      keys = keys.prefix(level) + [String(text[..<colon])]
      guard keys.first == "paths", keys.count > 2 else { continue }
      if keys.count == 3, keys[2] == "servers" { adminPaths.insert(keys[1]) }
      if keys.count == 3, ["get", "put", "post", "delete", "patch", "head", "options"].contains(keys[2]) {
        operations.append(
          Operation(
            method: keys[2].uppercased(), pattern: keys[1], isOnAdminPort: adminPaths.contains(keys[1])))
      }
      if keys.last == "x-maximum-body-length" {
        let digits = text[text.index(after: colon)...].drop { $0 == " " }
        operations[operations.count - 1].maximumBodyLength = Int(digits)
      }
    }
  }
}
