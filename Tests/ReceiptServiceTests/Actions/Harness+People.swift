import Foundation
import HTTPTypes
import Postgres
import Testing

@testable import Actions
@testable import ReceiptService

/// People and their requests to the support API.
extension Harness {
  /// Adds a person, as an operator does with the command.
  /// - Returns: the person's token.
  func add(_ name: String, _ role: SupportRole) async throws -> String {
    try await service.people.add(name, role: role, by: #require(Harness.ada)).token
  }

  /// A request to the support API.
  /// - Parameter members: the members of the body besides `reason`; `nil` for a GET.
  func support(
    _ path: String, _ members: [String: Any]? = nil, token: String?
  ) async throws -> Answer {
    let body = try members.map { members in
      let all = members.merging(["reason": "ticket 812"]) { mine, _ in mine }
      return String(decoding: try JSONSerialization.data(withJSONObject: all), as: UTF8.self)
    }
    return try await send(
      body == nil ? .get : .post, "/support/v1/" + path, json: body, token: token, to: adminAddress)
  }

  /// The last row of `support_actions`, as `actor by`, with `#` for a person's id that is the person's in `people`.
  func lastActor() async throws -> String? {
    try await pool.query(
      """
      SELECT a.actor || ' ' || a.by || CASE WHEN p.name = a.by THEN ' #' ELSE '' END AS actor
      FROM support_actions a LEFT JOIN people p ON p.id = a.person_id ORDER BY a.id DESC LIMIT 1
      """
    ).first?.decode("actor")
  }
}
