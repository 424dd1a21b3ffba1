import Actions
import AppStore
import AppStoreSimulator
import Curl
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Testing

@testable import ReceiptService
@testable import Support

/// A browser with the session of a person.
struct ConsoleBrowser {
  /// The person's name.
  let person: String
  private let harness: Harness
  private let cookie: String

  /// Adds a person with the role and signs the person in.
  init(_ harness: Harness, _ role: SupportRole) async throws {
    self.harness = harness
    person = "\(role.rawValue) \(UUID().uuidString.prefix(8).lowercased())"
    let token = try await harness.add(person, role)
    let answer = try await harness.browse(
      .post, "/console/sign-in", origin: "http://\(harness.adminAddress)", form: ["token": token])
    #expect(answer.status == 303)
    cookie = String(try #require(answer.headers[.setCookie]).prefix { $0 != ";" })
  }

  func get(_ path: String) async throws -> Answer {
    try await harness.browse(.get, path, cookie: cookie)
  }

  /// A page that exists.
  func page(_ path: String) async throws -> String {
    let answer = try await get(path)
    #expect(answer.status == 200, "\(path): \(answer.text.prefix(2_000))")
    return answer.text
  }

  /// Sends a form of the console.
  func post(_ path: String, _ fields: [String: String]) async throws -> Answer {
    try await harness.browse(
      .post, path, cookie: cookie, origin: "http://\(harness.adminAddress)", form: fields)
  }

  /// Sends a form, expects 303, and follows it.
  func act(_ path: String, _ fields: [String: String]) async throws -> (path: String, page: String) {
    let answer = try await post(path, fields)
    #expect(answer.status == 303, "\(path): \(answer.text)")
    let next = try #require(answer.headers[.location])
    return (next, try await page(next))
  }
}

extension Answer {
  /// The body as text.
  var text: String { String(decoding: body, as: UTF8.self) }

  var isPage: Bool { headers[.contentType] == "text/html; charset=utf-8" }
}

extension Harness {
  /// A request of a browser to the admin port.
  func browse(
    _ method: HTTPRequest.Method, _ path: String, cookie: String? = nil, origin: String? = nil,
    site: String? = nil, host: String? = nil, named names: [String] = [], form: [String: String]? = nil
  ) async throws -> Answer {
    var headers = HTTPFields()
    headers[.cookie] = cookie
    headers[.origin] = origin
    if let host { headers[try #require(HTTPField.Name("Host"))] = host }
    if let site { headers[try #require(HTTPField.Name("Sec-Fetch-Site"))] = site }
    // As a single-sign-on proxy adds it.
    let nameField = try #require(HTTPField.Name("X-Forwarded-User"))
    for name in names { headers.append(HTTPField(name: nameField, value: name)) }
    if form != nil { headers[.contentType] = "application/x-www-form-urlencoded" }
    let body = form.map { form in
      form.map { "\($0.inQuery)=\($1.inQuery)" }.joined(separator: "&")
    }
    let response = try await http.send(
      CurlRequest(
        method: method, url: "http://\(adminAddress)\(path)", headers: headers,
        body: body.map { Array($0.utf8) },
        timeout: .seconds(30)))
    return Answer(status: response.status, headers: response.headers, body: response.body)
  }
}

extension String {
  /// The text in a query or a form.
  var inQuery: String { addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "" }
}

/// Customers of two apps in the states that the console's screens tell apart.
struct ConsoleWorld {
  /// A user whose subscription renews, and its purchase.
  let user: UUID
  let bought: SignedOutcome
  /// The purchases of the lists, by the list's name in the address.
  private(set) var purchases: [String: String] = [:]
  /// The Apple Accounts of the customer who bought twice.
  private(set) var accounts: [String] = []
  /// A device of the other app with a trial, a grant and a paired child.
  let device = "phone-1"

  init(_ harness: Harness) async throws {
    let present = harness.clock.now
    // The charge of the renewal failed two days ago.
    harness.clock.set(present - 33 * 86_400)
    let (_, failing) = try await harness.customer()
    harness.clock.set(present - 2 * 86_400)
    try await harness.happens(.failToRenew(grace: false), to: failing.originalTransactionID)
    harness.clock.set(present)
    purchases["billing"] = failing.originalTransactionID

    (user, bought) = try await harness.customer()
    purchases["renewing"] = bought.originalTransactionID
    for (list, commands) in [
      ("cancelled", [.setAutoRenew(false)]), ("price", [.announcePrice(7_990)]),
      ("refunded", [.refundLatest]),
      ("refund-requests", [.requestConsumption(transactionID: nil, reason: .unintendedPurchase)]),
    ] as [(String, [SubscriptionCommand])] {
      let (_, other) = try await harness.customer()
      for command in commands { try await harness.happens(command, to: other.originalTransactionID) }
      purchases[list] = other.originalTransactionID
    }
    let twice = UUID()
    for account in ["anna", "anna at work"] {
      let bought = try harness.store.buy(
        PurchaseRequest(
          bundleID: TestApps.climbing, productID: TestApps.monthly, accountID: account, appAccountToken: twice
        ))
      try await harness.arrives(bought)
      accounts.append("…\(try #require(bought.transaction.appTransactionId).suffix(6))")
      purchases["twice"] = max(purchases["twice"] ?? "", bought.originalTransactionID)
    }
    let unowned = try harness.buy()
    try await harness.arrives(unowned)
    purchases["without-owner"] = unowned.originalTransactionID
    let tried = try harness.buy(token: UUID(), in: .sandbox)
    try await harness.arrives(tried)
    purchases["sandbox"] = tried.originalTransactionID

    _ = try await harness.pool.query(
      """
      INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
      VALUES (\(TestApps.family), \(device), \(present - 86_400), \(present + 86_400))
      """)
    _ = try await harness.desk.grant(
      to: device, bundleID: TestApps.family, tier: "family", days: 5, by: #require(Harness.ada))
    let paired = try await harness.send(
      .post, "/api/v1/devices/\(device)/children?bundleID=\(TestApps.family)",
      json: #"{"childDeviceID": "tablet-1", "name": "Emma"}"#)
    #expect(paired.status == 201)
    let refused = try await harness.validate([
      "transactionID": "4000000000000001", "bundleID": TestApps.family, "deviceID": "phone-2",
    ])
    #expect(refused.status == 404)
    try await harness.service.sharedResources.refusedAttempts.flush()
    for (state, key) in [("waiting", device), ("dead", "phone-2")] {
      _ = try await harness.pool.query(
        """
        INSERT INTO outbox (destination, key, bundle_id, endpoint, payload, dead_at, last_error)
        VALUES ('cloudkit', \(key), \(TestApps.family), '', '{}', CASE WHEN \(state) = 'dead' THEN now() END,
          \("the error of \(key)"))
        """)
    }
    try await harness.countWhatIsDue()
  }
}
