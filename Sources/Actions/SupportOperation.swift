/// The operations of the support API and of the command line, with the least role that each one needs.
///
/// The raw value is the first part of the route's path and the command's name, so neither exists without a role.
package enum SupportOperation: String, CaseIterable, Sendable {
  case numbers

  case customer
  case find
  case refresh
  case grant
  case note
  case extendTrial = "extend-trial"

  case acquisitionCost = "acquisition-cost"
  case adopt
  case eraseCustomer = "erase-customer"
  case exportCustomer = "export-customer"
  case extendRenewal = "extend-renewal"
  case forgetXcode = "forget-xcode"
  case freeAccess = "free-access"
  case grandfather
  case kpi
  case people
  case reconcile
  case refundAnswer = "refund-answer"
  case replay
  case replayEvents = "replay-events"
  case requeue
  case resetDeviceSecret = "reset-device-secret"
  case revokeGrant = "revoke-grant"
  case rotateEntitlementKey = "rotate-entitlement-key"
  case transfer
  case whatIf = "what-if"

  /// The least role.
  package var leastRole: SupportRole {
    switch self {
    case .numbers: .numbers

    // An agent gives at most `agentGrantDays` days at once, and revokes own grants alone; see
    // `SupportDesk.checkDays(_:by:)` and `SupportDesk.checkGiver(of:by:)`.
    case .customer, .find, .refresh, .grant, .note, .extendTrial, .revokeGrant: .agent

    case .acquisitionCost, .adopt, .eraseCustomer, .exportCustomer, .extendRenewal, .forgetXcode, .freeAccess,
      .grandfather,
      .kpi, .people,
      .reconcile, .refundAnswer, .replay,
      .replayEvents, .requeue, .resetDeviceSecret, .rotateEntitlementKey, .transfer,
      .whatIf:
      .lead
    }
  }

  /// Whether `SUPPORT_TOKEN` is enough. It does not manage people: a stolen one must not create a person, who would
  /// stay after the token was changed.
  var isOpenToMachines: Bool { self != .people }
}

/// The rights of a person. Each role has the rights of those before it.
package enum SupportRole: String, CaseIterable, Codable, Comparable, Sendable {
  /// Reads the figures of the business, and no customer's data.
  case numbers
  /// Finds and explains customers, and helps for a short time.
  case agent
  /// Does everything, and manages people.
  case lead

  /// Orders the roles by their rights.
  package static func < (first: SupportRole, second: SupportRole) -> Bool {
    allCases.firstIndex(of: first) ?? 0 < allCases.firstIndex(of: second) ?? 0
  }
}
