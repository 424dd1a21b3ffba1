import Foundation
import TestProcess

/// The `openssl` command, an independent implementation.
enum OpenSSL {
  /// - Returns: whether the exit status was 0, and the output.
  static func run(_ arguments: [String], in folder: URL) async throws -> (isSuccess: Bool, output: Data) {
    let result = try await Command("openssl", arguments, folder: folder).run()
    return (result.status == 0, result.output)
  }

  /// The SHA-256 of some bytes, in base64.
  static func sha256(_ bytes: [UInt8], in folder: URL) async throws -> String {
    try Data(bytes).write(to: folder.appending(path: "digested"))
    return try await run(["dgst", "-sha256", "-binary", "digested"], in: folder).output.base64EncodedString()
  }

  /// The HMAC-SHA256 of some bytes, in base64.
  static func hmac(_ bytes: [UInt8], key: Data, in folder: URL) async throws -> String {
    try Data(bytes).write(to: folder.appending(path: "signed"))
    let hex = key.map { String(format: "%02x", $0) }.joined()
    return try await run(
      ["dgst", "-sha256", "-mac", "HMAC", "-macopt", "hexkey:\(hex)", "-binary", "signed"], in: folder
    ).output.base64EncodedString()
  }
}
