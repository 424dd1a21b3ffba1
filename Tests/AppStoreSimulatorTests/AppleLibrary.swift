import Foundation
import TestProcess

@testable import AppStoreSimulator

/// Runs Apple's App Store Server Library for Python on a store. It shares no code with receiptd.
struct AppleLibrary: Sendable {
  /// An operation of the library, named as in `Python/apple_client.py`.
  struct Operation: Encodable, Sendable {
    let `do`: String
    var environment = "Production"
    var jws: String?
    var id: String?
    var path: String?
    var token: String?
    var bundleID: String?
    var key: String?
    var keyID: String?
    var issuerID: String?
    var paginationToken: String?
    var revision: String?
    /// The body, or the query of the transaction history, by Apple's names.
    var request: JSON?
  }

  /// The outcome: the value that the library read, or its error.
  struct Outcome: Decodable, Sendable {
    struct Failure: Decodable, Hashable, Sendable {
      var status: Int?
      var code: Int64?
      /// The library's name of the code; nil for an unknown one.
      var name: String?
      var verification: String?
    }

    let value: JSON?
    let error: Failure?
  }

  /// The Python environment of `scripts/install` is missing.
  struct NotInstalled: Error, CustomStringConvertible {
    let path: String
    var description: String { "\(path) is missing: run scripts/install, which makes it" }
  }

  private struct Task: Encodable {
    struct Store: Encodable {
      let root: String
      let key: String
      let keyID: String
      let issuerID: String
      let bundleID: String
      let appAppleID: Int64
      let urls: [String: String]
    }

    let store: Store
    let operations: [Operation]
  }

  let identity: StoreIdentity
  let app: StoreApp
  /// The address of the simulator, such as `http://127.0.0.1:4000`.
  let base: String

  /// Runs all operations in one process.
  func run(_ operations: [Operation]) async throws -> [Outcome] {
    let task = Task(
      store: .init(
        root: Data(identity.authority.rootDER).base64EncodedString(), key: identity.connectKey.pem,
        keyID: identity.connectKey.keyID, issuerID: identity.connectKey.issuerID,
        bundleID: app.bundleID, appAppleID: app.appAppleID,
        urls: ["Production": base, "Sandbox": base + "/sandbox"]), operations: operations)
    let file = FileManager.default.temporaryDirectory
      .appendingPathComponent("receiptd-apple-\(UUID().uuidString).json")
    try JSONEncoder().encode(task).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    let output = try await Self.python(argument: file.path)
    return try JSONDecoder().decode([Outcome].self, from: output)
  }

  private static func python(argument: String) async throws -> Data {
    let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    let project = tests.deletingLastPathComponent().deletingLastPathComponent()
    let python = project.appendingPathComponent(".build-python/bin/python")
    guard FileManager.default.isExecutableFile(atPath: python.path) else {
      throw NotInstalled(path: python.path)
    }
    let script = tests.appendingPathComponent("Python/apple_client.py")
    return try await Command(python.path, [script.path, argument]).output()
  }
}

/// Any JSON value.
enum JSON: Codable, Hashable, Sendable {
  case null
  case bool(Bool)
  case number(Int64)
  case string(String)
  case array([JSON])
  case object([String: JSON])

  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let value = try? container.decode(Bool.self) {
      self = .bool(value)
    } else if let value = try? container.decode(Int64.self) {
      self = .number(value)
    } else if let value = try? container.decode(String.self) {
      self = .string(value)
    } else if let value = try? container.decode([JSON].self) {
      self = .array(value)
    } else {
      self = .object(try container.decode([String: JSON].self))
    }
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .null: try container.encodeNil()
    case .bool(let value): try container.encode(value)
    case .number(let value): try container.encode(value)
    case .string(let value): try container.encode(value)
    case .array(let value): try container.encode(value)
    case .object(let value): try container.encode(value)
    }
  }

  subscript(name: String) -> JSON? {
    if case .object(let members) = self { members[name] } else { nil }
  }

  subscript(index: Int) -> JSON? {
    if case .array(let elements) = self, elements.indices.contains(index) { elements[index] } else { nil }
  }

  var string: String? { if case .string(let value) = self { value } else { nil } }
  var number: Int64? { if case .number(let value) = self { value } else { nil } }
  var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
  var array: [JSON]? { if case .array(let value) = self { value } else { nil } }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
  ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  init(stringLiteral value: String) { self = .string(value) }
  init(integerLiteral value: Int64) { self = .number(value) }
  init(booleanLiteral value: Bool) { self = .bool(value) }
  init(arrayLiteral elements: JSON...) { self = .array(elements) }
  init(dictionaryLiteral elements: (String, JSON)...) {
    self = .object(Dictionary(elements) { _, last in last })
  }
}
