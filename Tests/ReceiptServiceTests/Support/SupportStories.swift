import AppStoreSimulator
import Foundation
import Postgres
import Testing

@testable import ReceiptService

/// What a support person of the tests does, and what is then on record.
extension Harness {
  var desk: SupportDesk { service.support }

  static let ada = makeAuthor("ada", "ticket 812")

  static func makeAuthor(_ by: String, _ reason: String) -> SupportAuthor? {
    try? SupportAuthor(by: by, reason: reason)
  }

  struct Action: Equatable {
    var action: String
    var from: String?
    var to: String?
    var by: String
    var reason: String
  }

  /// `support_actions`, in order.
  func actions() async throws -> [Action] {
    try await pool.query(
      "SELECT action, from_customer, to_customer, by, reason FROM support_actions ORDER BY id"
    ).map {
      Action(
        action: try $0.decode(0), from: try $0.decode(1), to: try $0.decode(2), by: try $0.decode(3),
        reason: try $0.decode(4))
    }
  }

  /// What `user_preferences` says of a user; `nil` where there is no row.
  func isPremiumInPreferences(_ user: UUID) async throws -> Bool? {
    try await pool.query("SELECT is_premium FROM user_preferences WHERE user_id = \(user)")
      .first?.decode(0, as: Bool.self)
  }

  /// The time passes, and the jobs have their turn.
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

/// The refusal that an action meets; `nil` where it is done.
func refusal(_ body: () async throws -> Void) async throws -> SupportRefusal.Kind? {
  do {
    try await body()
    return nil
  } catch let refusal as SupportRefusal {
    return refusal.kind
  }
}
