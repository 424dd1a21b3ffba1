import Foundation
import JSON
import Postgres
import Subscriptions

/// A parent's devices and their children's.
///
/// A parent may have several devices: those that proved the same purchase or trial, such as an old phone and the new one. All of
/// them are parents of the same children, and the best access of any of them is the household's.
package struct Household: Sendable {
  /// The parent's devices.
  package let parents: [String]
  /// The children's devices, the first one paired first; each once.
  package let children: [PairedDevice]
  /// What the parents have.
  package let entitlements: Entitlements
  /// Apple's environment of the parents' purchases and trials.
  package let environment: StoreEnvironment

  /// The feature that holds the number of children's devices that are active at a time. `null` in the configuration means no limit;
  /// without the feature it is 0.
  package static let limitFeature = "childDevices"

  /// How many children's devices are active; `nil` for no limit.
  package var limit: Int? { entitlements.features.limit(for: Self.limitFeature) }

  /// The state of one of the children; `nil` for another device.
  package func state(of child: String) -> ChildState? {
    guard let index = children.firstIndex(where: { $0.childDeviceID == child }) else { return nil }
    if limit.map({ index < $0 }) ?? true {
      return entitlements.isAccessGranted ? .active : .parentWithoutAccess
    }
    return entitlements.isAccessGranted ? .beyondLimit : .parentWithoutAccess
  }
}

extension App {
  /// Whether the number of a customer's paired devices depends on the tier.
  package var limitsDevices: Bool {
    customer == .device && tiers.values.contains { $0.features[Household.limitFeature] != nil }
  }
}

/// The state of a child's device in a household.
package enum ChildState: Sendable, Hashable {
  /// It has what its parent has.
  case active
  /// More devices were paired before it than the parent's tier allows.
  case beyondLimit
  /// The parent has no access.
  case parentWithoutAccess
}

/// The member `pairing` of responses to a child's device.
package struct PairingResponse: JSONWritable, Sendable {
  package let state: ChildState

  package func write(to json: inout JSONWriter) {
    json.object { json in
      switch state {
      case .active: json.member("reason", nil as String?)
      case .beyondLimit: json.member("reason", "device_limit")
      case .parentWithoutAccess: json.member("reason", "parent_without_access")
      }
      json.member("role", "child")
      json.member("state", state == .active ? "active" : "paused")
    }
  }
}

/// What a device has, by its own records and by its parents'.
package struct DeviceAccess: Sendable {
  package var entitlements: Entitlements
  /// The device's state as a child; `nil` for a device without a parent.
  package var childState: ChildState?
  /// Its own records, and the times of free access.
  package var records: CustomerRecords
}

extension PostgresConnection {
  /// What these devices of an app have.
  package nonisolated(nonsending) func access(
    of devices: [String], in app: App, at instant: Date
  ) async throws -> [String: DeviceAccess] {
    var reads = Statements()
    let recordReads = AllCustomerRecordReads(devices: devices, in: &reads)
    let parentReads = reads.add(HouseholdRows.parents(of: devices, in: app), reading: ParentPairing.init)
    let answers = try await answers(to: reads)
    let records = try recordReads.records(in: answers)
    let pairings = Dictionary(grouping: try answers[parentReads], by: \.child)
    let households = try await households(
      of: Set(pairings.values.flatMap { $0.map(\.parent) }).sorted(), in: app, at: instant)
    var access: [String: DeviceAccess] = [:]
    for device in devices {
      let own = records.customerRecords(of: .device(device), in: app, at: instant)
      access[device] = DeviceAccess(
        device, own, pairings[device] ?? [], households, in: app, at: instant)
    }
    return access
  }

  /// The households of these parents' devices, each by the device.
  package nonisolated(nonsending) func households(
    of devices: [String], in app: App, at instant: Date
  ) async throws -> [String: Household] {
    guard !devices.isEmpty else { return [:] }
    var members: [String: Set<String>] = [:]
    for row in try await query(HouseholdRows.members(of: devices, in: app)) {
      members[try row.decode("parent"), default: []].insert(try row.decode("member"))
    }
    let all = Set(members.values.joined()).union(devices).sorted()
    var reads = Statements()
    let recordReads = AllCustomerRecordReads(devices: all, in: &reads)
    let childReads = reads.add(HouseholdRows.children(of: all, in: app)) {
      (parent: try $0.decode("device_id", as: String.self), child: try PairedDevice($0))
    }
    let answers = try await answers(to: reads)
    let records = try recordReads.records(in: answers)
    let children = try answers[childReads]
    return Dictionary(
      uniqueKeysWithValues: devices.map { device in
        let parents = (members[device] ?? []).union([device])
        let together = parents.sorted().reduce(
          into: CustomerRecords(freeAccess: records.freeAccessByApp[app])
        ) {
          $0.add(records.customerRecords(of: .device($1), in: app, at: instant))
        }
        var seen: Set<String> = []
        return (
          device,
          Household(
            parents: parents.sorted(),
            children: children.filter {
              parents.contains($0.parent) && !parents.contains($0.child.childDeviceID)
                && seen.insert($0.child.childDeviceID).inserted
            }.map(\.child),
            entitlements: app.entitlements(of: together, for: .device(device), at: instant),
            environment: together.environment)
        )
      })
  }
}

extension PostgresPool {
  /// What a device of an app has.
  package func access(of device: String, in app: App, at instant: Date) async throws -> DeviceAccess {
    try await withConnection { connection in
      guard let access = try await connection.access(of: [device], in: app, at: instant)[device] else {
        preconditionFailure("the answer has each device")
      }
      return access
    }
  }
}

extension DeviceAccess {
  /// - Parameters:
  ///   - own: the device's own records.
  ///   - pairings: its parents.
  ///   - households: those of the parents.
  fileprivate init(
    _ device: String, _ own: CustomerRecords, _ pairings: [ParentPairing],
    _ households: [String: Household], in app: App, at instant: Date
  ) {
    records = own
    var counted = own
    // A device that confirmed to be a child's has no trial of its own.
    if pairings.contains(where: \.isConfirmed) { counted.trial = nil }
    entitlements = app.entitlements(of: counted, for: .device(device), at: instant)
    var changes = [entitlements.validUntil]
    for pairing in pairings {
      guard let household = households[pairing.parent], let state = household.state(of: device) else {
        continue
      }
      changes.append(household.entitlements.validUntil)
      if childState != .active { childState = childState.map { min($0, state) } ?? state }
      if state == .active, entitlements.isWeaker(than: household.entitlements) {
        entitlements = household.entitlements
      }
    }
    // Any of them may change what the device has.
    entitlements.validUntil = changes.compactMap(\.self).filter { $0 > instant }.min()
    entitlements.everHadAccess = entitlements.everHadAccess || !pairings.isEmpty && childState == .active
  }
}

extension ChildState: Comparable {
  private var order: Int {
    switch self {
    case .active: 0
    case .beyondLimit: 1
    case .parentWithoutAccess: 2
    }
  }

  package static func < (a: ChildState, b: ChildState) -> Bool { a.order < b.order }
}

/// A pairing of a child's device; a row of ``HouseholdRows/parents(of:in:)``.
struct ParentPairing: Sendable {
  let child: String
  let parent: String
  let isConfirmed: Bool

  init(_ row: Row) throws {
    child = try row.decode("child_device_id")
    parent = try row.decode("device_id")
    isConfirmed = try row.decode("is_confirmed")
  }
}

/// Statements on the table `devices` that find households.
package enum HouseholdRows {
  /// The most parents of a child's device that are looked at: any client can name any device as its child's. Those that the child
  /// confirmed come first.
  private static let mostParents = 8

  /// The pairings of these children's devices, for ``ParentPairing``.
  static func parents(of children: [String], in app: App) -> Query {
    """
    SELECT child.id AS child_device_id, pairing.device_id, pairing.confirmed_at IS NOT NULL AS is_confirmed
    FROM unnest(\(children)::text[]) AS child (id) CROSS JOIN LATERAL (
      SELECT device_id, confirmed_at FROM devices
      WHERE bundle_id = \(app.bundleID) AND child_device_id = child.id
      ORDER BY confirmed_at IS NULL, paired_at, id LIMIT \(mostParents)) AS pairing
    """
  }

  /// Whether a device joined a parent with a code (`is_child`).
  package static func isChild(_ device: String, in app: App) -> Query {
    """
    SELECT EXISTS (
      SELECT FROM devices WHERE bundle_id = \(app.bundleID) AND child_device_id = \(device) AND confirmed_at IS NOT NULL
    ) AS is_child
    """
  }

  /// The pairings of these parents' devices, the first one first.
  static func children(of devices: [String], in app: App) -> Query {
    """
    SELECT device_id, child_device_id, name, paired_at FROM devices
    WHERE bundle_id = \(app.bundleID) AND device_id = ANY(\(devices)) ORDER BY paired_at, id
    """
  }

  /// The devices of the same parent (`member`) for each of these devices (`parent`), that proved a purchase or a trial of it. One that
  /// only named a transaction's id is none: any client can name one.
  static func members(of devices: [String], in app: App) -> Query {
    """
    WITH parent AS (SELECT unnest(\(devices)::text[]) AS id),
    bought AS (
      SELECT parent.id, s.original_transaction_id FROM parent JOIN subscriptions s ON s.device_id = parent.id
      WHERE s.user_id IS NULL AND s.bundle_id = \(app.bundleID) AND s.is_counted
        AND s.owned_because IS DISTINCT FROM 'unproven_claim'
      UNION
      SELECT parent.id, d.original_transaction_id FROM parent JOIN purchase_devices d ON d.device_id = parent.id
      WHERE d.bundle_id = \(app.bundleID) AND NOT d.is_barred AND d.is_proven),
    tried AS (
      SELECT parent.id, coalesce(t.continues, t.id) AS trial FROM parent JOIN trials t ON t.device_id = parent.id
      WHERE t.bundle_id = \(app.bundleID))
    SELECT bought.id AS parent, s.device_id AS member FROM bought JOIN subscriptions s USING (original_transaction_id)
    WHERE s.device_id IS NOT NULL AND s.user_id IS NULL AND s.owned_because IS DISTINCT FROM 'unproven_claim'
    UNION
    SELECT bought.id, d.device_id FROM bought JOIN purchase_devices d USING (original_transaction_id)
    WHERE NOT d.is_barred AND d.is_proven AND \(app.sharesPurchases)
    UNION
    SELECT tried.id, t.device_id FROM tried JOIN trials t ON t.id = tried.trial
    UNION
    SELECT tried.id, t.device_id FROM tried JOIN trials t ON t.continues = tried.trial
    """
  }
}
