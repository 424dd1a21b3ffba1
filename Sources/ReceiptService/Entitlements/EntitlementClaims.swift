import Foundation
import JSON
import Subscriptions

/// The claims of an entitlement token (RFC 7519). Times are whole seconds since 1970.
struct EntitlementClaims: Sendable {
  static let issuer = "receiptd"
  /// The app's bundle id; other apps must reject the token.
  var aud: String
  /// The user's UUID in lower case, or the device id.
  var sub: String
  var tier: String?
  var status: String
  var isAccessGranted: Bool
  var features: Features
  var iat: Int64
  /// The end of the offline grace, counted from now. Denied access is cached as long as granted access.
  var exp: Int64
  /// When the entitlements change without another event: a hint to fetch again, not an end of access. Absent if never.
  var validUntil: Int64?

  /// Lets a client verify a response on arrival, even if the app allows no offline time.
  private static let minimumLifetime: TimeInterval = 300

  /// The lifetime of a token of this app, in seconds.
  static func lifetime(in app: App) -> TimeInterval {
    max(TimeInterval(app.offlineGraceDays) * 86_400, minimumLifetime)
  }

  init(_ entitlements: Entitlements, of app: App, for customer: Customer, at instant: Date) {
    aud = app.bundleID
    sub = customer.id
    tier = entitlements.tier
    status = entitlements.status.rawValue
    isAccessGranted = entitlements.isAccessGranted
    features = entitlements.features
    iat = instant.wholeSeconds
    exp = (instant + Self.lifetime(in: app)).wholeSeconds
    validUntil = entitlements.validUntil?.wholeSeconds
  }
}

extension Date {
  /// Cannot overflow: dates come from 64-bit milliseconds, or from the present and a number of days.
  fileprivate var wholeSeconds: Int64 { Int64(timeIntervalSince1970.rounded(.down)) }
}

extension EntitlementClaims: JSONWritable {
  func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("aud", aud)
      json.member("exp", exp)
      json.member("features", features)
      json.member("iat", iat)
      json.member("isAccessGranted", isAccessGranted)
      json.member("iss", Self.issuer)
      json.member("status", status)
      json.member("sub", sub)
      json.member("tier", tier)
      json.member("validUntil", ifPresent: validUntil)
    }
  }
}
