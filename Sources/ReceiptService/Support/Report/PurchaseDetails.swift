import Postgres
import Subscriptions

/// What a report says of purchases beside their rows, by `originalTransactionID`.
struct PurchaseDetails {
  private(set) var plans: [String: PurchasePlan] = [:]
  private(set) var holders: [String: [ReportedHolder]] = [:]
  var refundRequests: [String: [ReportedRefundRequest]] = [:]

  init(of originalTransactionIDs: [String], _ connection: PostgresConnection) async throws {
    guard !originalTransactionIDs.isEmpty else { return }
    let answers = try await connection.pipeline([
      PurchasePlan.select(originalTransactionIDs), HolderRows.select(originalTransactionIDs),
    ])
    plans = try PurchasePlan.decode(answers[0])
    for row in answers[1] {
      let (id, holder) = try HolderRows.decode(row)
      guard !holder.isBarred else { continue }
      holders[id, default: []].append(ReportedHolder(deviceID: holder.deviceID, since: holder.since))
    }
    holders = holders.filter { $0.value.count > 1 }
  }
}
