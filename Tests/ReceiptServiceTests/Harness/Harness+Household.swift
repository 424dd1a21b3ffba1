import Foundation
import HTTPTypes

@testable import ReceiptService

// A child that joins its parent with a code, and what it reads.
extension Harness {
  private func path(_ device: String) -> String {
    device.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? device
  }

  /// A secret of its own for each child's device.
  static func secret(of child: String) -> String {
    ScreenTime.secret(UInt8(truncatingIfNeeded: 100 + child.utf8.reduce(0) { $0 + Int($1) }))
  }

  func code(of parent: String, secret: String? = nil) async throws -> Answer {
    try await send(
      .post, "/api/v1/devices/\(path(parent))/pairing-codes?bundleID=\(ScreenTime.bundleID)", json: "{}",
      secret: secret)
  }

  func enter(_ code: String, on child: String, app: String = ScreenTime.bundleID, secret: String?)
    async throws -> Answer
  {
    try await send(
      .put, "/api/v1/devices/\(path(child))/parent?bundleID=\(app)", json: #"{"pairingCode": "\#(code)"}"#,
      secret: secret)
  }

  /// With the child's own secret.
  func enter(_ code: String, on child: String, app: String = ScreenTime.bundleID) async throws -> Answer {
    try await enter(code, on: child, app: app, secret: Self.secret(of: child))
  }

  func parent(of child: String, secret: String) async throws -> Answer {
    try await send(
      .get, "/api/v1/devices/\(path(child))/parent?bundleID=\(ScreenTime.bundleID)", secret: secret)
  }

  /// A child joins with a new code of the parent.
  func join(_ child: String, to parent: String, by secret: String? = nil) async throws -> Answer {
    let hasSecret = try await count("device_secrets WHERE device_id = '\(parent)'") > 0
    let code = try await code(of: parent, secret: secret ?? (hasSecret ? ScreenTime.secret(1) : nil))
    return try await enter(code.string("code") ?? "", on: child)
  }

  func child(_ name: String) async throws -> Answer {
    let hasSecret =
      try await count("device_secrets WHERE device_id = '\(name.replacing("'", with: "''"))'") > 0
    return try await send(
      .get, "/api/v1/devices/\(path(name))/entitlements?bundleID=\(ScreenTime.bundleID)",
      secret: hasSecret ? Self.secret(of: name) : nil)
  }

  /// The status, and the state with its reason.
  func childState(_ name: String) async throws -> String {
    let answer = try await child(name)
    return [
      answer.string("entitlements.status"), answer.string("pairing.state"), answer.string("pairing.reason"),
    ].compactMap(\.self).joined(separator: " ")
  }
}
