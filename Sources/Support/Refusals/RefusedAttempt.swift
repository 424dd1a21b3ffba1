import AppStore
import Configuration
import Customers
import Foundation
import HTTP
import HTTPTypes
import Identifiers
import JSON
import Ledger
import Platform
import Postgres
import Requests
import Subscriptions
import Text

/// A request of a client that was refused, as support sees it. What the client named is unproven.
///
/// It has ids only: neither a token nor a signed payload.
package struct RefusedAttempt: Sendable {
  package var at: Date
  /// The app; `nil` if the request does not tell.
  package var bundleID: String?
  /// The method and the pattern of the path.
  package var route: String
  package var userID: UUID?
  package var deviceID: String?
  package var transactionID: String?
  /// The error code.
  package var code: String
  package var requestID: String
  package var addressPrefix: String
  /// Whether the named customer has the purchase by now, or support has moved it since; see
  /// ``SupportDesk/settling(_:)``.
  package var isSettled = false

  /// Reads the ids that a refused request names. No signature is checked.
  package init(_ request: Request, _ problem: Problem, in apps: AppOfRequest, at instant: Date) {
    let body = try? request.readJSON(NamedIDs.self)
    let signed = (body?.signedTransaction ?? body?.signedTransactions?.first ?? body?.signedAppTransaction)
      .flatMap { UnverifiedClaims($0) }
    let user = request.parameters["userID"] ?? request.bearerSubject
    let device = request.parameters["deviceID"] ?? body?.deviceID
    let kind: CustomerKind? =
      if request.parameters["userID"] != nil { .user } else if device != nil { .device } else { nil }
    let app =
      if let named = body?.bundleID ?? signed?.bundleID ?? request.query["bundleID"] {
        apps.catalog[named]
      } else {
        try? apps.app(of: request, named: nil, customers: kind)
      }
    at = instant
    bundleID = app?.bundleID
    route = "\(request.method.rawValue) \(request.routePattern)"
    userID = app?.customer == .device ? nil : user.flatMap { UUID(rfc9562: $0) }
    deviceID = app?.customer == .user ? nil : device.flatMap { try? DeviceID($0).name.storable }
    transactionID = (body?.transactionID ?? signed?.transactionID).flatMap { $0.isTransactionID ? $0 : nil }
    code = problem.code.rawValue
    requestID = request.id
    addressPrefix = request.clientAddress.networkPrefix
  }
}

extension IPAddress {
  /// The network without the part that names one client: `192.0.2.0/24` or `2001:db8:1::/48`.
  fileprivate var networkPrefix: String {
    let length: UInt128 = isIPv4 ? 24 : 48
    let hostBits: UInt128 = isIPv4 ? 8 : 80
    return "\(IPAddress(bits: (bits >> hostBits) << hostBits))/\(length)"
  }
}

extension Request {
  /// The `sub` of the access token, which is not verified.
  fileprivate var bearerSubject: String? {
    guard let field = headers[.authorization], field.prefix(7).lowercased() == "bearer " else { return nil }
    return UnverifiedClaims(String(field.dropFirst(7)))?.subject
  }
}

/// The members of a request's body that name an app, a customer or a transaction.
private struct NamedIDs: JSONReadable {
  enum Member: String, CaseIterable {
    case bundleID, deviceID, transactionID, signedTransaction, signedTransactions, signedAppTransaction
  }

  private static let names = JSONNames<Member>()

  var bundleID: String?
  var deviceID: String?
  var transactionID: String?
  var signedTransaction: String?
  var signedTransactions: [String]?
  var signedAppTransaction: String?

  init(reading json: inout JSONReader) throws(JSONFailure) {
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .bundleID: bundleID = try json.readOrNull()
      case .deviceID: deviceID = try json.readOrNull()
      case .transactionID: transactionID = try json.readOrNull()
      case .signedTransaction: signedTransaction = try json.readOrNull()
      case .signedTransactions: signedTransactions = try json.readOrNull()
      case .signedAppTransaction: signedAppTransaction = try json.readOrNull()
      }
    }
  }
}

/// Claims of a signed transaction or access token whose signature is not verified.
private struct UnverifiedClaims: JSONReadable {
  enum Member: String, CaseIterable { case bundleId, transactionId, sub }

  private static let names = JSONNames<Member>()

  var bundleID: String?
  var transactionID: String?
  var subject: String?

  init?(_ jws: String) {
    guard let payload = try? CompactJWS(jws).payload,
      let claims = try? JSONReader.read(Self.self, from: payload, maximumDepth: 16)
    else { return nil }
    self = claims
  }

  init(reading json: inout JSONReader) throws(JSONFailure) {
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .bundleId: bundleID = try json.readOrNull()
      case .transactionId: transactionID = try json.readOrNull()
      case .sub: subject = try json.readOrNull()
      }
    }
  }
}

extension RefusedAttempt: JSONWritable {
  package func write(to json: inout JSONWriter) {
    json.object { json in
      json.member("addressPrefix", addressPrefix)
      json.member("at", at)
      json.member("bundleID", bundleID)
      json.member("code", code)
      json.member("deviceID", deviceID)
      json.member("requestID", requestID)
      json.member("route", route)
      json.member("transactionID", transactionID)
      json.member("userID", userID?.uuidString.lowercased())
    }
  }
}

extension RefusedAttempt {
  /// Writes one paragraph.
  func write(to output: inout TerminalText) {
    var words = "\(code): \(route)"
    if let userID { words += ", user \(userID.uuidString.lowercased())" }
    if let deviceID { words += ", device \(deviceID)" }
    if let transactionID { words += ", transaction \(transactionID)" }
    output.line("\(at.rfc3339)  \(words), request \(requestID)", hanging: 22)
  }
}

extension SupportDesk {
  /// The attempts, with a mark on each whose question about a purchase of another customer is settled.
  package func settling(_ attempts: [RefusedAttempt]) async throws -> [RefusedAttempt] {
    try await pool.withConnection { try await settling(attempts, $0) }
  }

  /// The same, on a connection.
  func settling(_ attempts: [RefusedAttempt], _ connection: PostgresConnection) async throws
    -> [RefusedAttempt]
  {
    let open = attempts.indices.filter { attempts[$0].namesAnothersPurchase }
    guard !open.isEmpty else { return attempts }
    var attempts = attempts
    let settled = try await connection.query(
      RefusedAttemptRows.settled(open.map { (number: $0, attempt: attempts[$0]) }))
    for row in settled { attempts[try row.decode("number", as: Int.self)].isSettled = true }
    return attempts
  }
}

extension RefusedAttempt {
  /// The customer that the request named.
  package var named: String? { userID?.uuidString.lowercased() ?? deviceID }

  /// Whether it was refused because another customer has the purchase that it named.
  package var namesAnothersPurchase: Bool {
    code == "belongs_to_another_customer" && transactionID != nil && named != nil
  }
}

/// The table `refused_attempts`.
package enum RefusedAttemptRows {
  /// Inserts the attempts that the limits of the day allow. Those from before an erasure, or from the minute after it,
  /// lose the ids: one of them may be the erased customer's, and no list of erased ids exists.
  ///
  /// An erasure locks the table, so this statement sees its record or ran before its deletion.
  static func insert(_ attempts: [RefusedAttempt], on day: Day) -> Postgres.Query {
    """
    INSERT INTO refused_attempts (at, bundle_id, route, user_id, device_id, transaction_id, code, request_id,
      address_prefix)
    SELECT new.at, new.bundle_id, new.route, CASE WHEN new.at > erased.until THEN new.user_id END,
      CASE WHEN new.at > erased.until THEN new.device_id END,
      CASE WHEN new.at > erased.until THEN new.transaction_id END, new.code, new.request_id, new.address_prefix
    FROM (
      SELECT sent.*, row_number() OVER (PARTITION BY sent.address_prefix ORDER BY sent.at) AS of_network,
        row_number() OVER (ORDER BY sent.at) AS of_day
      FROM unnest(
        \(attempts.map(\.at))::timestamptz[], \(attempts.map(\.bundleID))::text[],
        \(attempts.map(\.route))::text[], \(attempts.map(\.userID))::uuid[],
        \(attempts.map(\.deviceID))::text[], \(attempts.map(\.transactionID))::text[],
        \(attempts.map(\.code))::text[], \(attempts.map(\.requestID))::text[],
        \(attempts.map(\.addressPrefix))::text[])
      AS sent (at, bundle_id, route, user_id, device_id, transaction_id, code, request_id, address_prefix)
    ) AS new, (
      SELECT coalesce(max(at) + interval '1 minute', '-infinity') AS until FROM support_actions
      WHERE action = 'erase-customer'
    ) AS erased
    WHERE new.of_day <= \(RefusedAttemptLog.perDay) - (
        SELECT count(*) FROM refused_attempts known WHERE known.at >= \(day.start))
      AND new.of_network <= \(RefusedAttemptLog.perNetwork) - (
        SELECT count(*) FROM refused_attempts known
        WHERE known.address_prefix = new.address_prefix AND known.at >= \(day.start))
    ORDER BY new.at
    """
  }

  /// Deletes at most `limit` attempts from before an instant.
  package static func delete(before instant: Date, limit: Int) -> Postgres.Query {
    """
    DELETE FROM refused_attempts
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM refused_attempts WHERE at < \(instant) LIMIT \(limit)))
    """
  }

  /// The last attempts that named a customer of an app, or named no app.
  static func last(_ count: Int, of customer: Customer, bundleID: String) -> Postgres.Query {
    """
    SELECT \(unescaped: columns) FROM refused_attempts
    WHERE \(of(customer)) AND (bundle_id = \(bundleID) OR bundle_id IS NULL)
    ORDER BY at DESC, id DESC LIMIT \(count)
    """
  }

  /// The last attempts with a request id.
  static func last(_ count: Int, requestID: String) -> Postgres.Query {
    """
    SELECT \(unescaped: columns) FROM refused_attempts WHERE request_id = \(requestID)
    ORDER BY at DESC, id DESC LIMIT \(count)
    """
  }

  /// The last attempts that named a user or a device.
  static func last(_ count: Int, naming id: String) -> Postgres.Query {
    """
    (SELECT \(unescaped: columns), id FROM refused_attempts WHERE user_id = \(UUID(rfc9562: id))
     ORDER BY at DESC, id DESC LIMIT \(count))
    UNION ALL
    (SELECT \(unescaped: columns), id FROM refused_attempts WHERE device_id = \(id)
     ORDER BY at DESC, id DESC LIMIT \(count))
    ORDER BY at DESC, id DESC LIMIT \(count)
    """
  }

  /// The numbers of those attempts whose customer has the purchase by now, or whose purchase support has moved since.
  static func settled(_ attempts: [(number: Int, attempt: RefusedAttempt)]) -> Postgres.Query {
    """
    SELECT a.number FROM unnest(
      \(attempts.map(\.number))::integer[], \(attempts.map(\.attempt.transactionID))::text[],
      \(attempts.map(\.attempt.named))::text[], \(attempts.map(\.attempt.at))::timestamptz[])
    AS a (number, transaction_id, customer, at)
    CROSS JOIN LATERAL (SELECT coalesce((
      SELECT t.original_transaction_id FROM transactions t WHERE t.transaction_id = a.transaction_id),
      a.transaction_id) AS id) AS purchase
    WHERE EXISTS (
        SELECT FROM subscriptions s
        WHERE s.original_transaction_id = purchase.id AND coalesce(s.user_id::text, s.device_id) = a.customer)
      OR EXISTS (
        SELECT FROM purchase_devices d
        WHERE d.original_transaction_id = purchase.id AND d.device_id = a.customer AND NOT d.is_barred)
      OR EXISTS (
        SELECT FROM support_actions moved
        WHERE moved.original_transaction_id = purchase.id AND moved.action = 'transfer' AND moved.at >= a.at)
    """
  }

  private static func of(_ customer: Customer) -> Postgres.Query {
    switch customer {
    case .user(let user): "user_id = \(user)"
    case .device(let device): "device_id = \(device)"
    }
  }

  private static let columns: StaticString =
    "at, bundle_id, route, user_id, device_id, transaction_id, code, request_id, address_prefix"
}

extension RefusedAttempt {
  /// Decodes a row of `refused_attempts`.
  package init(_ row: Row) throws {
    at = try row.decode("at")
    bundleID = try row.decode("bundle_id")
    route = try row.decode("route")
    userID = try row.decode("user_id")
    deviceID = try row.decode("device_id")
    transactionID = try row.decode("transaction_id")
    code = try row.decode("code")
    requestID = try row.decode("request_id")
    addressPrefix = try row.decode("address_prefix")
  }
}
