import FoundationEssentials
import Subscriptions

/// The records of several customers, read together, and the apps' periods of free access.
struct RecordsByCustomer: Sendable {
  var customers: [Customer: CustomerRecordSet] = [:]
  var freeAccessByApp = FreeAccessByApp()

  subscript(customer: Customer) -> CustomerRecordSet { customers[customer] ?? CustomerRecordSet() }

  /// Adds a purchase to the records of its owner and of the devices that share it.
  mutating func add(_ stored: StoredSubscription) {
    let owner = stored.owner?.customer
    if let owner { customers[owner, default: .init()].subscriptions.append(stored) }
    for sharer in stored.customers where sharer != owner {
      customers[sharer, default: .init()].shared.append(stored)
    }
  }

  /// One customer's records of one app.
  func customerRecords(of customer: Customer, in app: App, at instant: Date) -> CustomerRecords {
    self[customer].customerRecords(
      of: app, for: customer, freeAccess: freeAccessByApp[app], at: instant)
  }
}
