import Actions
import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import Customers
@testable import ReceiptService
@testable import Support

/// Actions of support, and their records.
extension Harness {
  var desk: SupportDesk { service.support }

  static let ada = makeAuthor("ada", "ticket 812")

  static func makeAuthor(_ by: String, _ reason: String) -> SupportAuthor? {
    try? SupportAuthor(by: .operatorNamed(by), reason: reason)
  }

  struct Action: Equatable {
    var action: String
    var from: String?
    var to: String?
    var by: String
    var reason: String
  }

  /// The rows of `support_actions` in order.
  func actions() async throws -> [Action] {
    try await pool.query(
      "SELECT action, from_customer, to_customer, by, reason FROM support_actions ORDER BY id"
    ).map {
      Action(
        action: try $0.decode("action"), from: try $0.decode("from_customer"),
        to: try $0.decode("to_customer"), by: try $0.decode("by"),
        reason: try $0.decode("reason"))
    }
  }

  /// `user_preferences.is_premium` of a user; `nil` without a row.
  func isPremiumInPreferences(_ user: UUID) async throws -> Bool? {
    try await pool.query("SELECT is_premium FROM user_preferences WHERE user_id = \(user)")
      .first?.decode("is_premium", as: Bool.self)
  }

  /// Advances the clock and runs the jobs.
  func pass(days: Double) async throws {
    clock.advance(days: days)
    try await service.sweepEverything()
  }
}

extension Service {
  func sweepEverything() async throws {
    try await sweep.freeAccess.run()
    _ = try await sweep.run()
    _ = try await sweep.grants.run()
  }
}

/// The error of a refused action; `nil` if it is done.
func refusal(_ body: () async throws -> Void) async throws -> SupportRefusal.Kind? {
  do {
    try await body()
    return nil
  } catch let refusal as SupportRefusal {
    return refusal.kind
  }
}
