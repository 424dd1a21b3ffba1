import Configuration
import Customers
import FoundationEssentials
import Postgres
import Subscriptions

/// What a room adds to the ledger's transactions. The ledger knows no room: it tells what changed, and commits their
/// statements together with the facts.
package protocol LedgerEffect: Sendable {
  /// Whether ``LedgerChanges/purchases`` must have the changes of this app's purchases: the facts before are copied for
  /// them.
  func follows(_ app: App) -> Bool

  /// The statements for a batch of entries. Their rows are not read.
  func statements(for changes: LedgerChanges) -> [Query]
}

extension LedgerEffect {
  package func follows(_ app: App) -> Bool { false }
}

/// What a batch of entries changes.
package struct LedgerChanges: Sendable {
  /// The entries with their receipts, in order.
  package var entries: [(entry: LedgerEntry, receipt: LedgerReceipt)]
  /// What entries changed about the purchases of apps that an effect follows, in the order of the entries.
  package var purchases: [PurchaseChange]
  /// The notifications that are stored now.
  package var notifications: [KeptNotification]
  /// The changes of ownership.
  package var moves: [OwnershipMove]
  /// The latest instant of the entries.
  package var instant: Date
}

/// What an entry changed about a purchase.
package struct PurchaseChange: Sendable {
  package let app: App
  package let entry: LedgerEntry
  package let before: SubscriptionFacts
  package let after: SubscriptionFacts
  /// The purchase now.
  package let stored: StoredSubscription
  package let moves: [OwnershipMove]
}
