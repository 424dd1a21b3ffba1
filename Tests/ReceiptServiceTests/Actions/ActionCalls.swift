import Foundation

@testable import Actions
@testable import Customers
@testable import Deliveries
@testable import Ledger
@testable import ReceiptService
@testable import Support

// The actions of support as calls, so that a test's line names what it gives and not how the value is built.

extension SupportDesk {
  func grant(
    to customer: String, bundleID: String, tier: String, days: Int, by author: SupportAuthor,
    isForced: Bool = false, isDryRun: Bool = false
  ) async throws -> GrantResult {
    try await GrantRequest(customer: customer, bundleID: bundleID, tier: tier, days: days, force: isForced)
      .perform(at: self, by: author, isDryRun: isDryRun)
  }

  func revokeGrant(
    _ id: UUID, by author: SupportAuthor, isDryRun: Bool = false
  ) async throws -> GrantResult {
    try await RevokeGrantRequest(grant: id).perform(at: self, by: author, isDryRun: isDryRun)
  }

  func extendTrial(
    of device: String, bundleID: String, days: Int, by author: SupportAuthor, isForced: Bool = false,
    isDryRun: Bool = false
  ) async throws -> TrialExtensionResult {
    try await ExtendTrialRequest(deviceID: device, bundleID: bundleID, days: days, force: isForced)
      .perform(at: self, by: author, isDryRun: isDryRun)
  }

  func resetDeviceSecret(
    of device: String, bundleID: String, by author: SupportAuthor, isDryRun: Bool = false
  ) async throws -> DeviceSecretResetResult {
    try await ResetDeviceSecretRequest(deviceID: device, bundleID: bundleID)
      .perform(at: self, by: author, isDryRun: isDryRun)
  }

  func transfer(
    _ originalTransactionID: String, to customer: String, by author: SupportAuthor, isForced: Bool = false,
    isDryRun: Bool = false
  ) async throws -> TransferResult {
    try await TransferRequest(
      originalTransactionID: originalTransactionID, to: customer, force: isForced
    ).perform(at: self, by: author, isDryRun: isDryRun)
  }

  func eraseCustomer(
    _ id: String, bundleID: String? = nil, by author: SupportAuthor, isForced: Bool = false,
    isDryRun: Bool = false
  ) async throws -> ErasureReport {
    try await EraseCustomerRequest(customer: id, bundleID: bundleID, force: isForced)
      .perform(at: self, by: author, isDryRun: isDryRun)
  }

  func preferRefund(
    _ choice: RefundChoice, for id: String, bundleID: String? = nil, by author: SupportAuthor,
    isDryRun: Bool = false
  ) async throws -> RefundPreferenceResult {
    try await RefundAnswerRequest(id: id, prefer: choice, bundleID: bundleID)
      .perform(at: self, by: author, isDryRun: isDryRun)
  }

  func setFreeAccess(
    _ isOn: Bool, bundleID: String, by author: SupportAuthor, isDryRun: Bool = false
  ) async throws -> FreeAccessResult {
    try await FreeAccessRequest(state: isOn ? .on : .off, bundleID: bundleID)
      .perform(at: self, by: author, isDryRun: isDryRun)
  }

  func refresh(_ text: String, by author: SupportAuthor) async throws -> RefreshReport {
    try await RefreshRequest(id: text).perform(at: self, by: author)
  }
}

extension Service {
  func replay(_ uuid: UUID, by author: SupportAuthor) async throws -> ReplayResult {
    try await perform(ReplayRequest(notificationUUID: uuid), by: author)
  }

  func rotateEntitlementKey(
    isLeaked: Bool = false, by author: SupportAuthor, isDryRun: Bool = false
  ) async throws -> EntitlementKeyRotation {
    try await perform(RotateEntitlementKeyRequest(leaked: isLeaked), by: author, isDryRun: isDryRun)
  }

  func requeueDead(
    of bundleID: String, by author: SupportAuthor, isDryRun: Bool = false
  ) async throws -> RequeueResult {
    try await perform(RequeueRequest(bundleID: bundleID), by: author, isDryRun: isDryRun)
  }

  func replayEvents(
    in span: Range<Date>, bundleID: String? = nil, type: String? = nil, isDryRun: Bool = false,
    by author: SupportAuthor
  ) async throws -> EventReplayResult {
    try await perform(
      ReplayEventsRequest(since: span.lowerBound, until: span.upperBound, bundleID: bundleID, type: type),
      by: author, isDryRun: isDryRun)
  }
}

extension Outbox {
  func requeue(id: Int64, by author: SupportAuthor) async throws -> RequeueResult {
    try await RequeueRequest(outbox: id).perform(at: WorkDesk(outbox: self, queues: []), by: author)
  }

  func requeueDead(bundleID: String, by author: SupportAuthor) async throws -> Int {
    try await RequeueRequest(bundleID: bundleID).perform(
      at: WorkDesk(outbox: self, queues: []), by: author
    ).requeued
  }
}

extension People {
  func add(_ name: String, role: SupportRole, by author: SupportAuthor) async throws -> AddedPerson {
    try await AddPersonRequest(name: name, role: role).perform(at: self, by: author)
  }

  func remove(_ name: String, by author: SupportAuthor, isDryRun: Bool = false) async throws -> RemovedPerson
  {
    try await RemovePersonRequest(name: name).perform(at: self, by: author, isDryRun: isDryRun)
  }
}
