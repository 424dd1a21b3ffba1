import FoundationEssentials
import JSON
import Subscriptions

/// What an entitlement token says (RFC 7519). Times are whole seconds since 1970.
struct EntitlementClaims: Sendable {
  static let issuer = "receiptd"
  /// The app's bundle id: another app has no use for it.
  var aud: String
  /// The user, as a UUID in lower case, or the device: nobody else has a use for it.
  var sub: String
  var tier: String?
  var status: String
  var isAccessGranted: Bool
  var features: Features
  var iat: Int64
  /// The end of the offline grace, counted from now. A no is held for as long as a yes.
  var exp: Int64
  /// When it stops being true by itself: to ask again then, not to stop. Absent where that is never.
  var validUntil: Int64?

  /// An answer can be checked when it arrives, also where the app allows no time offline.
  private static let minimumLifetime: TimeInterval = 300

  /// How long a token of this app lives, in seconds.
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
  /// Dates come from milliseconds that fit 64 bits, or from now and a number of days: their seconds fit too.
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
