import AppStore
import FoundationEssentials

/// The header of an access token, read before anything is believed of it.
///
/// A stranger writes it, and a library that reads headers generously has more than once been the way in (or
/// the way down: a number too large for an integer). So it is read here first, and nothing but a flat
/// object of strings is handed on: no `crit`, no embedded keys, no numbers.
struct TokenHeader: Sendable, Equatable {
  var algorithm: String
  var keyID: String?

  /// Tokens of real issuers have some hundred bytes of header and one or two kilobytes in all.
  private static let maximumLength = 16_384

  /// - Returns: `nil` for what is not three segments of strict base64url with such a header.
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
