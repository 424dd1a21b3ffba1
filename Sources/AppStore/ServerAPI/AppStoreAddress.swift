import Foundation

/// The base address of an App Store Server API: scheme, authority and path prefix.
public struct AppStoreAddress: Hashable, Sendable {
  /// Apple's production server.
  public static let production = Self(scheme: "https", authority: "api.storekit.apple.com")
  /// Apple's sandbox server.
  public static let sandbox = Self(scheme: "https", authority: "api.storekit-sandbox.apple.com")

  let scheme: String
  let authority: String
  let path: String

  private init(scheme: String, authority: String, path: String = "") {
    self.scheme = scheme
    self.authority = authority
    self.path = path
  }

  /// Parses an address such as `https://api.storekit.apple.com` or `http://127.0.0.1:4000/store`; nil if it is not an
  /// http or https address of a host, or has a user, query or fragment.
  public init?(_ text: String) {
    guard let url = URL(string: text), let scheme = url.scheme, ["http", "https"].contains(scheme),
      let host = url.host(percentEncoded: true), !host.isEmpty,
      url.user() == nil, url.query() == nil, url.fragment() == nil
    else { return nil }
    let literal = host.contains(":") && !host.hasPrefix("[") ? "[\(host)]" : host
    var path = url.path(percentEncoded: true)
    while path.hasSuffix("/") { path.removeLast() }
    self.init(scheme: scheme, authority: url.port.map { "\(literal):\($0)" } ?? literal, path: path)
  }
}
