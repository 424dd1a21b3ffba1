import AppStoreSimulator
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing

@testable import Actions
@testable import ReceiptService
@testable import Support

/// Each route of the support API with each kind of caller, on a server with the database role of a deployment.
@Suite struct RouteRoleTests {
  enum Caller: String, CaseIterable {
    /// Unknown: a well-formed token that was never given. Removed: the token of a person who was removed.
    case none, unknown, removed, numbers, agent, lead, machine
  }

  /// The callers that each route admits. It repeats ``SupportOperation/leastRole`` on purpose, but for `revoke-grant`:
  /// the grants here are others', and an agent may revoke own ones alone.
  private static let admitted: [String: Set<Caller>] = [
    "GET numbers/{view}": [.numbers, .agent, .lead, .machine],
    "GET customer/{id}": [.agent, .lead, .machine], "GET find/{what}": [.agent, .lead, .machine],
    "POST refresh": [.agent, .lead, .machine], "POST grant": [.agent, .lead, .machine],
    "POST note": [.agent, .lead, .machine],
    "POST extend-trial": [.agent, .lead, .machine], "POST revoke-grant": [.lead, .machine],
    "POST reset-device-secret": [.lead, .machine], "POST transfer": [.lead, .machine],
    "GET export-customer/{customer}": [.lead, .machine], "POST erase-customer": [.lead, .machine],
    "POST refund-answer": [.lead, .machine], "POST extend-renewal": [.lead, .machine],
    "POST free-access": [.lead, .machine], "POST requeue": [.lead, .machine],
    "POST replay": [.lead, .machine], "GET people": [.lead], "POST people/add": [.lead],
    "POST people/remove": [.lead],
  ]

  @Test func `each route admits its roles, refuses all other callers, and records the caller's name`()
    async throws
  {
    try await withHarness(role: "receiptd_app") { harness in
      let session = try await harness.service.pool.query("SELECT session_user::text AS role")[0]
      #expect(try session.decode("role", as: String.self) == "receiptd_app")
      let tokens = try await Self.tokens(harness)
      let routes = harness.service.adminRouter.routes.filter { $0.pattern.hasPrefix("/support/v1/") }
        .map { "\($0.method.rawValue) \($0.pattern.dropFirst("/support/v1/".count))" }
      #expect(Set(routes) == Set(Self.admitted.keys))
      let requests = try await Requests(harness)
      for route in routes {
        let admitted = Self.admitted[route] ?? []
        for caller in Caller.allCases {
          let (path, members) = try await requests.next(route)
          let before = try await harness.count("support_actions")
          let answer = try await harness.support(path, members, token: tokens[caller] ?? nil)
          let after = try await harness.count("support_actions")
          let about: Comment = "\(route) by \(caller): \(String(decoding: answer.body, as: UTF8.self))"
          guard admitted.contains(caller) else {
            let isKnown = [.numbers, .agent, .lead, .machine].contains(caller)
            #expect(answer.status == (isKnown ? 403 : 401), about)
            #expect(answer.code == (isKnown ? "forbidden" : "unauthenticated"), about)
            #expect(after == before, about)
            continue
          }
          #expect(answer.status < 300, about)
          guard members != nil else { continue }
          #expect(after > before, about)
          let actor = caller == .machine ? "machine machine" : "person the \(caller.rawValue) #"
          #expect(try await harness.lastActor() == actor, about)
        }
      }
    }
  }

  /// The token of each caller.
  private static func tokens(_ harness: Harness) async throws -> [Caller: String?] {
    var tokens: [Caller: String?] = [
      .none: nil, .unknown: PersonToken().text, .machine: Harness.supportToken,
      .removed: try await harness.add("the removed", .lead),
    ]
    for (caller, role) in [(Caller.numbers, SupportRole.numbers), (.agent, .agent), (.lead, .lead)] {
      tokens[caller] = try await harness.add("the \(caller.rawValue)", role)
    }
    _ = try await harness.service.people.remove("the removed", by: #require(Harness.ada))
    return tokens
  }
}

/// Requests that succeed and change something, each on objects of its own.
private final class Requests {
  private let harness: Harness
  private let bought: SignedOutcome
  private let user: UUID
  private var count = 0

  init(_ harness: Harness) async throws {
    self.harness = harness
    (user, bought) = try await harness.customer()
  }

  /// The path and the body of the next request of a route.
  func next(_ route: String) async throws -> (path: String, members: [String: Any]?) {
    count += 1
    let id = user.uuidString.lowercased()
    let path = String(route.drop { $0 != " " }.dropFirst())
    switch path {
    case "numbers/{view}": return ("numbers/kpi_daily", nil)
    case "customer/{id}": return ("customer/\(id)", nil)
    case "find/{what}": return ("find/\(id)", nil)
    case "export-customer/{customer}": return ("export-customer/\(id)", nil)
    case "people" where route.hasPrefix("GET"): return (path, nil)
    default: return (path, try await members(of: path, id))
    }
  }

  private func members(of path: String, _ id: String) async throws -> [String: Any] {
    switch path {
    case "refresh": return ["id": id]
    case "grant": return ["customer": id, "bundleID": TestApps.climbing, "tier": "premium", "days": 7]
    case "note": return ["customer": id, "bundleID": TestApps.climbing]
    case "revoke-grant":
      let result = try await harness.desk.grant(
        to: id, bundleID: TestApps.climbing, tier: "premium", days: 1, by: #require(Harness.ada))
      let json = try JSONSerialization.jsonObject(with: JSONEncoder().encode(result))
      return ["grant": try #require((json as? [String: Any])?["grant"] as? String)]
    case "extend-trial":
      let now = harness.clock.now
      _ = try await harness.pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
        VALUES (\(TestApps.family), \("phone \(count)"), \(now), \(now + 86_400))
        """)
      return ["deviceID": "phone \(count)", "bundleID": TestApps.family, "days": 7]
    case "reset-device-secret":
      _ = try await harness.pool.query(
        """
        INSERT INTO device_secrets (bundle_id, device_id, secret_hash, set_at)
        VALUES (\(TestApps.family), \("phone \(count)"), sha256('x'), \(harness.clock.now))
        """)
      return ["deviceID": "phone \(count)", "bundleID": TestApps.family]
    case "transfer":
      return [
        "originalTransactionID": bought.originalTransactionID, "to": UUID().uuidString.lowercased(),
        "force": true,
      ]
    case "erase-customer":
      let (user, _) = try await harness.customer()
      return ["customer": user.uuidString.lowercased(), "force": true]
    case "refund-answer": return ["id": bought.originalTransactionID, "prefer": "none"]
    case "extend-renewal":
      let (_, other) = try await harness.customer()
      return ["originalTransactionID": other.originalTransactionID, "days": 1, "reasonCode": 0]
    case "free-access":
      let open = try await harness.pool.query("SELECT FROM free_access WHERE ends_at IS NULL")
      return ["state": open.isEmpty ? "on" : "off", "bundleID": TestApps.family]
    case "requeue":
      let row = try await harness.pool.query(
        """
        INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, dead_at, last_error)
        VALUES ('cloudkit', \("phone \(count)"), \(TestApps.family), '', '{}', now(), 'BAD_REQUEST') RETURNING id
        """)[0]
      return ["outbox": try row.decode("id", as: Int.self)]
    case "replay": return ["notificationUUID": bought.notification.uuid]
    case "people/add": return ["name": "person \(count)", "role": "numbers"]
    case "people/remove":
      _ = try await harness.add("person \(count)", .numbers)
      return ["name": "person \(count)"]
    default:
      Issue.record("There is no request for '\(path)'.")
      return [:]
    }
  }
}
