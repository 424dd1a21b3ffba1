import Foundation
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

/// The view `support_customers` repeats in SQL how Swift decides access. After any random life, for every customer,
/// both say the same.
@Suite struct SupportCustomerLivesTests {
  @Test(arguments: seeds)
  func `after any life the support view agrees with the responses`(seed: UInt64) async throws {
    let apps = [
      ScreenTime.bundleID, ScreenTime.bundleID, Heatlab.bundleID, SwiftClimb.bundleID, Thaqalayn.bundleID,
    ]
    // Values of `sandboxGrants`, as JSON: for no customer, for one device, for all customers.
    let testers = ["\"nobody\"", "[\"tablet\"]", "\"everyone\""][Int(seed % 3)]
    try await withShippedApps {
      $0.replacing(#""sandboxGrants": "nobody""#, with: #""sandboxGrants": \#(testers)"#)
    } _: { harness in
      var life = CustomerLife(seed: seed, of: apps[Int(seed % 5)], in: harness)
      try await life.run(20, in: harness)
      for customer in life.customers {
        let found = try await disagreements(about: customer, of: life, harness)
        #expect(
          found.isEmpty,
          """
          seed \(seed), \(life.bundleID), testers \(testers), \(customer): \(found.joined(separator: "; "))
          \(life.history.joined(separator: "\n"))
          """)
      }
    }
  }

  /// Two dozen, or as many as the environment variable `SUPPORT_LIVES` names, and two that once disagreed.
  private static let seeds: [UInt64] =
    Array(0..<(ProcessInfo.processInfo.environment["SUPPORT_LIVES"].flatMap(UInt64.init) ?? 24)) + [59, 125]

  /// The differences between the view and the responses, in words.
  private func disagreements(
    about customer: String, of life: CustomerLife, _ harness: Harness
  ) async throws -> [String] {
    let answer = try await life.answer(to: customer, in: harness)
    let report = try await harness.desk.customer(customer)
    let page = report.customers.first { $0.bundleID == life.bundleID && $0.customer == customer }
    let row = try await harness.pool.query(
      """
      SELECT has_access, access_until, lifetime, coalesce(tiers, '') AS tiers, free_access, will_renew
      FROM support_customers WHERE bundle_id = \(life.bundleID) AND customer = \(customer)
      """
    ).first
    let isOpen = answer.bool("entitlements.isAccessGranted") == true
    let isFree = try await harness.pool.query(
      "SELECT EXISTS (SELECT FROM free_access WHERE bundle_id = \(life.bundleID) AND ends_at IS NULL) AS is_on"
    )[0].decode("is_on", as: Bool.self)
    guard let row else { return isOpen && !isFree ? ["access, and no row"] : [] }

    var found: [String] = []
    func compare<Value: Equatable>(_ name: String, _ view: Value, _ response: Value) {
      if view != response { found.append("\(name) is \(view) in the view, \(response) in the response") }
    }
    let hasAccess = try row.decode("has_access", as: Bool.self)
    compare("free access", try row.decode("free_access", as: Bool.self), isFree)
    compare("access", hasAccess || isFree, isOpen)
    guard !isFree, hasAccess, isOpen else { return found }
    let until = try row.decode("access_until", as: Date?.self)
    compare(
      "the end", until?.timeIntervalSince1970.rounded(), page?.accessUntil?.timeIntervalSince1970.rounded())
    compare("lifetime", try row.decode("lifetime", as: Bool.self), until == nil)
    if let tier = answer.string("entitlements.tier") {
      let tiers = try row.decode("tiers", as: String.self).components(separatedBy: ", ")
      if !tiers.contains(tier) { found.append("the tier \(tier) is not among \(tiers)") }
    }
    return found
  }
}
