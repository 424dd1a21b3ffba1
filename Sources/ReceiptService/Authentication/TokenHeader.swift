import AppStore
import Foundation

/// The header of an access token that is not verified yet.
///
/// An attacker controls it, and lenient header parsers have caused forgeries and crashes. So only a flat object of
/// strings reaches the JWT library: no `crit`, no embedded keys, no numbers.
struct TokenHeader: Sendable, Equatable {
  var algorithm: String
  var keyID: String?

  /// Real tokens have one or two kilobytes.
  private static let maximumLength = 16_384

  /// - Returns: `nil` unless the token is three segments of strict base64url with such a header.
  init?(token: String) {
    let bytes = Array(token.utf8)
    guard bytes.count <= Self.maximumLength else { return nil }
    let segments = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard segments.count == 3, let header = Base64.decode(Array(segments[0]), .url),
      Base64.decode(Array(segments[1]), .url) != nil, Base64.decode(Array(segments[2]), .url) != nil,
      let members = try? JSONDecoder().decode([String: String].self, from: Data(header)),
      let algorithm = members["alg"], members["crit"] == nil
    else { return nil }
    self.algorithm = algorithm
    keyID = members["kid"]
  }
}
