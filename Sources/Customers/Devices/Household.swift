import Foundation
import JSON
import Postgres
import Subscriptions

/// A parent's devices and their children's.
///
/// A parent may have several devices: those that proved the purchase or trial that gives this one its access, such as
/// an old phone and the new one. All of them are parents of the same children, and the plan opens its places once for
/// all of them.
package struct Household: Sendable {
  /// The parent's devices: the one that was asked for, and those that proved the same plan.
  package let parents: [String]
  /// The children's devices, the first one paired first; each once.
  package let children: [PairedDevice]
  /// How many children's devices count toward the limit.
  let count: Int
  /// The purchase or trial whose devices are the parents; `nil` where the device has none that gives access.
  let plan: String?
  /// The devices that proved the plan: they have it by themselves.
  let proven: Set<String>
  /// The devices that have the plan, also those that only named its transaction, and the device itself.
  let sharers: [String]
  /// The key of the daily limit of pairings: `plan/…` for all devices that proved the plan, `named/…` for all that only
  /// named its transaction, `device/…` without a plan.
  let budget: String
  /// What the device has by its own records.
  package let entitlements: Entitlements
  /// Apple's environment of the device's purchases and trials.
  package let environment: StoreEnvironment

  /// The feature that holds the number of children's devices that are active at a time. `null` in the configuration
  /// means no limit; without the feature it is 0.
  package static let limitFeature = "childDevices"

  /// How many children's devices are active; `nil` for no limit.
  package var limit: Int? { entitlements.features.limit(for: Self.limitFeature) }

  /// The state of one of the children; `nil` for another device, and for one that proved the plan itself.
  package func state(of child: String) -> ChildState? {
    guard !proven.contains(child), let paired = children.first(where: { $0.childDeviceID == child }) else {
      return nil
    }
    guard entitlements.isAccessGranted else { return .parentWithoutAccess }
    return limit.map { paired.place < $0 } ?? true ? .active : .beyondLimit
  }
}

extension Household {
  /// - Parameters:
  ///   - rows: those of ``HouseholdRows/plans(of:in:)`` for this device.
  fileprivate init(
    _ device: String, _ records: CustomerRecords, _ rows: [PlanRow], in app: App, at instant: Date
  ) {
    let source = app.openPlan(of: records, for: .device(device), at: instant)
    let members = rows.filter { $0.isOf(source) }
    let proven = Set(members.filter(\.isProven).map(\.device))
    let isProven = proven.contains(device)
    let parents = (isProven ? proven : []).union([device])
    var seen = proven.union(parents)
    var counted: [PairedDevice] = []
    // A child of several devices has the name and time that this parent gave it, and counts where it was paired first.
    var own: [String: PairedDevice] = [:]
    func count(_ rows: some Sequence<PlanRow>) {
      for row in rows {
        guard var child = row.child else { continue }
        if parents.contains(row.device), own[child.childDeviceID] == nil { own[child.childDeviceID] = child }
        guard seen.insert(child.childDeviceID).inserted else { continue }
        child.place = counted.count
        counted.append(child)
      }
    }
    count(rows.filter { proven.contains($0.device) })
    // A device that only named the transaction's id sees no children of others, and its own come after theirs: any
    // client can name one.
    if !isProven {
      // The device also lists, renames and unpairs a child that proved the plan after it was paired.
      seen.subtract(proven)
      let named = Set(members.map(\.device)).subtracting(proven).union([device])
      count(rows.filter { named.contains($0.device) })
    }
    self.init(
      parents: parents.sorted(),
      children: counted.compactMap { child in
        var paired = own[child.childDeviceID]
        paired?.place = child.place
        return paired
      },
      count: counted.count, plan: members.first?.plan, proven: proven,
      sharers: Set(members.map(\.device)).union([device]).sorted(),
      budget: members.first?.plan.map { "\(isProven ? "plan" : "named")/\($0)" } ?? "device/\(device)",
      entitlements: app.entitlements(of: records, for: .device(device), at: instant),
      environment: records.environment)
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
    let parentReads = reads.add(
      HouseholdRows.parents(of: devices, in: app, at: instant), reading: ParentPairing.init)
    let answers = try await answers(to: reads)
    let records = try recordReads.records(in: answers)
    let pairings = Dictionary(grouping: try answers[parentReads], by: \.child)
    let households = try await households(of: pairings.values.flatMap { $0 }, in: app, at: instant)
    var access: [String: DeviceAccess] = [:]
    for device in devices {
      let own = records.customerRecords(of: .device(device), in: app, at: instant)
      access[device] = DeviceAccess(
        device, own, pairings[device] ?? [], households, in: app, at: instant)
    }
    return access
  }

  /// The households of the parents. One that cannot be read, and that only named its child, is left out: it takes
  /// nothing from the child.
  private nonisolated(nonsending) func households(
    of pairings: [ParentPairing], in app: App, at instant: Date
  ) async throws -> [String: Household] {
    let confirmed = Set(pairings.filter(\.isConfirmed).map(\.parent))
    let parents = Set(pairings.map(\.parent)).sorted()
    return try await readableHouseholds(of: parents, needing: confirmed, in: app, at: instant)
  }

  /// The households of these parents' devices. One that cannot be read is left out.
  /// - Parameter needed: those that must be readable.
  nonisolated(nonsending) func readableHouseholds(
    of devices: [String], needing needed: Set<String> = [], in app: App, at instant: Date
  ) async throws -> [String: Household] {
    do {
      return try await households(of: devices, in: app, at: instant)
    } catch is UnreadableRow {
      var found: [String: Household] = [:]
      for device in devices {
        do {
          found[device] = try await households(of: [device], in: app, at: instant)[device]
        } catch let error as UnreadableRow {
          if needed.contains(device) { throw error }
        }
      }
      return found
    }
  }

  /// The households of these parents' devices, each by the device.
  package nonisolated(nonsending) func households(
    of devices: [String], in app: App, at instant: Date
  ) async throws -> [String: Household] {
    guard !devices.isEmpty else { return [:] }
    var reads = Statements()
    let recordReads = AllCustomerRecordReads(devices: devices, in: &reads)
    let planReads = reads.add(HouseholdRows.plans(of: devices, in: app), reading: PlanRow.init)
    let answers = try await answers(to: reads)
    let records = try recordReads.records(in: answers)
    let rows = Dictionary(grouping: try answers[planReads], by: \.parent)
    return Dictionary(
      uniqueKeysWithValues: Set(devices).map { device in
        let own = records.customerRecords(of: .device(device), in: app, at: instant)
        return (device, Household(device, own, rows[device] ?? [], in: app, at: instant))
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
  /// What a device without a parent has.
  /// - Parameter own: the device's own records.
  package init(withoutParents device: String, _ own: CustomerRecords, in app: App, at instant: Date) {
    self.init(device, own, [], [:], in: app, at: instant)
  }

  /// - Parameters:
  ///   - own: the device's own records.
  ///   - pairings: its parents.
  ///   - households: those of the parents.
  fileprivate init(
    _ device: String, _ own: CustomerRecords, _ pairings: [ParentPairing],
    _ households: [String: Household], in app: App, at instant: Date
  ) {
    records = own
    var relevant = own
    // A device that confirmed to be a child's has no trial of its own, unless it shares that of its parent.
    if pairings.contains(where: { $0.isConfirmed && households[$0.parent]?.state(of: device) != nil }) {
      relevant.trial = nil
    }
    entitlements = app.entitlements(of: relevant, for: .device(device), at: instant)
    var changes = [entitlements.validUntil]
    let isPaid = entitlements.isPaidOrGranted
    let hasOwnAccess = entitlements.isAccessGranted
    for pairing in pairings {
      guard let household = households[pairing.parent], let state = household.state(of: device) else {
        continue
      }
      // Any client can name any device as its child's: a trial takes nothing from a device that has full access by a
      // purchase or a grant.
      guard pairing.isConfirmed || !isPaid || household.entitlements.isPaidOrGranted else { continue }
      changes.append(household.entitlements.validUntil)
      // Nor does a parent pause what a device has without it, such as its own trial.
      guard pairing.isConfirmed || state == .active || !hasOwnAccess else { continue }
      if childState != .active { childState = childState.map { min($0, state) } ?? state }
      if state == .active, entitlements.isWeaker(than: household.entitlements) {
        entitlements = household.entitlements
      }
    }
    // Any of them may change what the device has.
    entitlements.validUntil = changes.compactMap(\.self).filter { $0 > instant }.min()
    entitlements.everHadAccess = entitlements.everHadAccess || childState == .active
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

/// A pairing of a child's device; a row of ``HouseholdRows/parents(of:in:at:)``.
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

/// A device that shares a plan with a parent's, with one of its children; a row of ``HouseholdRows/plans(of:in:)``.
private struct PlanRow: Sendable {
  let parent: String
  /// The `originalTransactionId`, or the trial's id; `nil` for the parent itself.
  let plan: String?
  /// Apple's environment of a trial; `nil` for a purchase.
  let trialEnvironment: String?
  let device: String
  /// Whether the device proved the plan.
  let isProven: Bool
  /// `nil` for a device without children.
  let child: PairedDevice?

  init(_ row: Row) throws {
    parent = try row.decode("parent")
    plan = try row.decode("plan")
    trialEnvironment = try row.decode("trial_environment")
    device = try row.decode("member")
    isProven = try row.decode("is_proven")
    child = try row.decode("child_device_id", as: String?.self) == nil ? nil : PairedDevice(row)
  }

  /// Whether its plan is this purchase or trial.
  func isOf(_ source: Entitlements.Source?) -> Bool {
    switch source {
    case .subscription(let subscription):
      trialEnvironment == nil && plan == subscription.current.originalTransactionID
    case .trial(let trial): trialEnvironment == trial.environment.rawValue
    case .grant, .freeAccess, nil: false
    }
  }
}

/// Statements on the table `devices` that find households.
package enum HouseholdRows {
  /// The most parents of a child's device that are looked at: any client can name any device as its child's. Those that
  /// the child confirmed come first, then those with access by a record.
  private static let mostParents = 8
  /// The most pairings of a child's device among which these are found.
  private static let mostNamings = 200

  /// The pairings of these children's devices, for ``ParentPairing``.
  static func parents(of children: [String], in app: App, at instant: Date) -> Query {
    """
    SELECT child.id AS child_device_id, pairing.device_id, pairing.confirmed_at IS NOT NULL AS is_confirmed
    FROM unnest(\(children)::text[]) AS child (id) CROSS JOIN LATERAL (
      SELECT device_id, confirmed_at FROM (
        SELECT device_id, confirmed_at, paired_at, id FROM devices
        WHERE bundle_id = \(app.bundleID) AND child_device_id = child.id
        ORDER BY confirmed_at IS NULL, paired_at, id LIMIT \(mostNamings)) AS naming
      ORDER BY confirmed_at IS NULL, NOT \(DeviceRows.hasAccess("naming.device_id", in: app, at: instant)), paired_at, id
      LIMIT \(mostParents)) AS pairing
    """
  }

  /// The apps in which other devices named these as their children's (`child_device_id`, `bundle_id`).
  ///
  /// LATERAL looks up each pair by the index. With EXISTS PostgreSQL reads and sorts all pairings, because no
  /// condition joins the two lists.
  static func appsOfParents(of children: [String], among bundleIDs: [String]) -> Query {
    """
    SELECT child.id AS child_device_id, app.bundle_id
    FROM unnest(\(children)::text[]) AS child (id), unnest(\(bundleIDs)::text[]) AS app (bundle_id),
      LATERAL (
        SELECT FROM devices d WHERE d.bundle_id = app.bundle_id AND d.child_device_id = child.id LIMIT 1
      ) AS pairing
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

  /// The devices of each plan of these parents' devices, for ``PlanRow``: a row for each of their children, the first
  /// one paired first.
  ///
  /// A plan is a purchase that counts, or a trial. The result also has the rows of each parent's device itself, with a
  /// NULL plan.
  static func plans(of devices: [String], in app: App) -> Query {
    """
    WITH parent AS (SELECT unnest(\(devices)::text[]) AS id),
    bought AS (
      SELECT parent.id AS parent, s.original_transaction_id FROM parent JOIN subscriptions s ON s.device_id = parent.id
      WHERE s.user_id IS NULL AND s.bundle_id = \(app.bundleID) AND s.is_counted
      UNION
      SELECT parent.id, d.original_transaction_id FROM parent JOIN purchase_devices d ON d.device_id = parent.id
        JOIN subscriptions s USING (original_transaction_id)
      WHERE d.bundle_id = \(app.bundleID) AND NOT d.is_barred AND s.is_counted AND \(app.sharesPurchases)::boolean),
    tried AS (
      SELECT parent.id AS parent, t.environment, coalesce(t.continues, t.id) AS trial
      FROM parent JOIN trials t ON t.device_id = parent.id WHERE t.bundle_id = \(app.bundleID)),
    member AS (
      SELECT id AS parent, NULL::text AS plan, NULL::text AS trial_environment, id AS member, true AS is_proven FROM parent
      UNION ALL
      SELECT bought.parent, s.original_transaction_id, NULL, s.device_id, s.owned_because IS DISTINCT FROM 'unproven_claim'
      FROM bought JOIN subscriptions s USING (original_transaction_id)
      WHERE s.device_id IS NOT NULL AND s.user_id IS NULL
      UNION ALL
      SELECT bought.parent, d.original_transaction_id, NULL, d.device_id, d.is_proven
      FROM bought JOIN purchase_devices d USING (original_transaction_id)
      WHERE NOT d.is_barred AND \(app.sharesPurchases)::boolean
      UNION ALL
      SELECT tried.parent, t.id::text, tried.environment, t.device_id, true FROM tried JOIN trials t ON t.id = tried.trial
      UNION ALL
      SELECT tried.parent, t.continues::text, tried.environment, t.device_id, true
      FROM tried JOIN trials t ON t.continues = tried.trial)
    SELECT shared.*, d.child_device_id, d.name, d.paired_at
    FROM (
      SELECT parent, plan, trial_environment, member, bool_or(is_proven) AS is_proven FROM member
      GROUP BY parent, plan, trial_environment, member) AS shared
    LEFT JOIN devices d ON d.bundle_id = \(app.bundleID) AND d.device_id = shared.member
    ORDER BY d.paired_at, d.id
    """
  }
}
