public import Foundation

/// What a customer may do now.
public struct Entitlement<Features: Codable & Sendable>: Sendable {
  /// The highest open tier of the app's configuration; `nil` without one.
  public var tier: String?
  /// The state of the access.
  public var status: EntitlementStatus
  /// Whether the customer has more than the free features: by a purchase, a trial, a grant or a grace period.
  public var isAccessGranted: Bool
  /// The app's features, as its configuration has them for the tier or the state.
  public var features: Features
  /// When this changes without news, such as the end of a paid period. It does not end access: the subscription has
  /// probably renewed, and ``Receiptd/run()`` asks.
  public var validUntil: Date?
  /// Until when the access holds without a network; `nil` without access.
  public var offlineGraceUntil: Date?
  /// The pairing of a child's device with its parent's; `nil` for other devices.
  public var pairing: Pairing?
  /// Whether the customer has or had a purchase, a trial or a grant. For texts only: it is not signed.
  public var everHadAccess: Bool
  /// Where this comes from.
  public var source: EntitlementSource
  /// When the server signed it, by the server's clock; `nil` for ``EntitlementSource/none`` and ``EntitlementSource/device``.
  public var verifiedAt: Date?
  /// Set in the result of a submission that the server accepted with a remark, such as
  /// ``ReceiptdError/Code-swift.struct/deviceLimitReached``: the purchase is stored, and opens nothing on this device today.
  public var remark: ReceiptdError.Code?

  /// Creates an entitlement, for previews and tests.
  public init(
    features: Features, tier: String? = nil, status: EntitlementStatus = .expired,
    isAccessGranted: Bool = false,
    validUntil: Date? = nil, offlineGraceUntil: Date? = nil, pairing: Pairing? = nil,
    everHadAccess: Bool = false,
    source: EntitlementSource = .none, verifiedAt: Date? = nil
  ) {
    self.features = features
    self.tier = tier
    self.status = status
    self.isAccessGranted = isAccessGranted
    self.validUntil = validUntil
    self.offlineGraceUntil = offlineGraceUntil
    self.pairing = pairing
    self.everHadAccess = everHadAccess
    self.source = source
    self.verifiedAt = verifiedAt
  }
}

extension Entitlement {
  @inline(never) init(_ access: Access, free: Features) {
    self.init(
      features: access.features as? Features ?? free, tier: access.tier, status: access.status,
      isAccessGranted: access.isAccessGranted, validUntil: access.validUntil,
      offlineGraceUntil: access.offlineGraceUntil, pairing: access.pairing,
      everHadAccess: access.everHadAccess, source: access.source, verifiedAt: access.verifiedAt)
    remark = access.remark.map(ReceiptdError.Code.init(rawValue:))
  }
}

extension Entitlement: Equatable where Features: Equatable {}

/// The source of an ``Entitlement``.
public enum EntitlementSource: String, Sendable, Codable {
  /// The server answered since the launch, and its last answer arrived.
  case server
  /// A signed entitlement that was kept.
  case cache
  /// StoreKit's own verdict, while the server is away and no signed entitlement is valid.
  case device
  /// Nothing is known: the free features.
  case none
}

/// The state of a customer's access. A server may add states; compare with `==` and treat others by
/// ``Entitlement/isAccessGranted``.
public struct EntitlementStatus: RawRepresentable, Sendable, Hashable, Codable {
  /// The word of the contract.
  public let rawValue: String

  /// Creates a status from the server's word.
  public init(rawValue: String) { self.rawValue = rawValue }

  /// The app's own free time runs.
  public static var trial: Self { Self(rawValue: "trial") }
  /// Paid or granted time runs.
  public static var active: Self { Self(rawValue: "active") }
  /// Access after the end: Apple's billing grace, or the app's own.
  public static var grace: Self { Self(rawValue: "grace") }
  /// No access: it ended, or there was none.
  public static var expired: Self { Self(rawValue: "expired") }
  /// Refunded or revoked.
  public static var cancelled: Self { Self(rawValue: "cancelled") }
}

/// The pairing of a child's device.
public struct Pairing: Sendable, Hashable, Codable {
  /// `child`.
  public var role: String
  /// `active`: the device has its parent's features; `paused`: the free ones.
  public var state: String
  /// Why it is paused: `device_limit` or `parent_without_access`.
  public var reason: String?

  /// Whether the device has its parent's features.
  public var isActive: Bool { state == "active" }

  /// Creates a pairing, for previews and tests.
  public init(role: String = "child", state: String = "active", reason: String? = nil) {
    self.role = role
    self.state = state
    self.reason = reason
  }

  @inline(never) init?(_ json: JSON?) {
    guard let role = json?.text(of: "role"), let state = json?.text(of: "state") else { return nil }
    self.init(role: role, state: state, reason: json?.text(of: "reason"))
  }

  var json: JSON { .members(("role", .text(role)), ("state", .text(state)), ("reason", JSON(reason))) }

  /// Reads a JSON object.
  public init(from decoder: any Decoder) throws { self = try JSON.decoded(from: decoder, Self.init(_:)) }

  /// Writes a JSON object.
  public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}

/// The app's own free time of a device.
public struct Trial: Sendable, Hashable, Codable {
  /// When it began.
  public let startedAt: Date
  /// When it ends or ended; `nil` while free access is on for all.
  public let endsAt: Date?

  @inline(never) init?(_ json: JSON?) {
    guard let startedAt = json?.date(of: "startedAt") else { return nil }
    self.startedAt = startedAt
    endsAt = json?.date(of: "endsAt")
  }

  private var json: JSON { .members(("startedAt", JSON(startedAt)), ("endsAt", endsAt.map { JSON($0) })) }

  /// Reads a JSON object.
  public init(from decoder: any Decoder) throws { self = try JSON.decoded(from: decoder, Self.init(_:)) }

  /// Writes a JSON object.
  public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}

/// A code with which a child's device joins this one.
public struct PairingCode: Sendable, Hashable, Codable {
  /// The code to show, such as `7KQ4-M2XD`.
  public let code: String
  /// When it can no longer be used.
  public let expiresAt: Date

  @inline(never) init?(_ json: JSON?) {
    guard let code = json?.text(of: "code"), let expiresAt = json?.date(of: "expiresAt") else { return nil }
    self.code = code
    self.expiresAt = expiresAt
  }

  private var json: JSON { .members(("code", .text(code)), ("expiresAt", JSON(expiresAt))) }

  /// Reads a JSON object.
  public init(from decoder: any Decoder) throws { self = try JSON.decoded(from: decoder, Self.init(_:)) }

  /// Writes a JSON object.
  public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}

/// A device that is paired to this one.
public struct ChildDevice: Sendable, Hashable, Codable {
  /// Its device id.
  public let childDeviceID: String
  /// The name that was given with the pairing.
  public let name: String?
  /// When it was paired.
  public let pairedAt: Date
  /// `active`, or `paused` where the plan has no room for it.
  public let status: String

  @inline(never) init?(_ json: JSON?) {
    guard let id = json?.text(of: "childDeviceID"), let pairedAt = json?.date(of: "pairedAt"),
      let status = json?.text(of: "status")
    else { return nil }
    childDeviceID = id
    name = json?.text(of: "name")
    self.pairedAt = pairedAt
    self.status = status
  }

  private var json: JSON {
    .members(
      ("childDeviceID", .text(childDeviceID)), ("name", JSON(name)), ("pairedAt", JSON(pairedAt)),
      ("status", .text(status)))
  }

  /// Reads a JSON object.
  public init(from decoder: any Decoder) throws { self = try JSON.decoded(from: decoder, Self.init(_:)) }

  /// Writes a JSON object.
  public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}

/// StoreKit's own verdict on a purchase, which may stand in while the server is away.
public struct DeviceVerdict<Features: Codable & Sendable>: Sendable {
  /// What the purchase opens.
  public var features: Features
  /// The tier that the purchase opens.
  public var tier: String?
  /// The end of the purchase; `nil` if it never ends.
  public var validUntil: Date?

  /// Creates a verdict.
  public init(features: Features, tier: String? = nil, validUntil: Date? = nil) {
    self.features = features
    self.tier = tier
    self.validUntil = validUntil
  }
}
