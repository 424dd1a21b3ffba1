import Actions
import AppStoreSimulator
import Foundation
import HTTP
import HTTPTypes
import JSON
import Postgres
import Testing
import Text

@testable import Deliveries
@testable import ReceiptService
@testable import Support

@Suite struct CustomerExportTests {
  private func text(_ export: CustomerExport) throws -> String {
    String(decoding: try JSONCoding.encode(export), as: UTF8.self)
  }

  @Test func `the export has all rows of the customer, under the tables' own descriptions`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", account: "anna", secret: ScreenTime.secret(1))
      let bought = try harness.store.buy(
        PurchaseRequest(bundleID: ScreenTime.bundleID, productID: ScreenTime.family, accountID: "anna"))
      try await harness.arrives(bought)
      let proof = ["signedTransaction": bought.signedTransaction, "deviceID": "phone"]
      _ = try await harness.validate(proof, secret: ScreenTime.secret(1))
      _ = try await harness.pair("ipad", to: "phone", name: "Kim", secret: ScreenTime.secret(1))
      let export = try await harness.desk.exportCustomer("phone")
      #expect(
        Set(export.tables.map(\.table)).isSuperset(of: [
          "subscriptions", "transactions", "renewals", "notifications", "trials", "devices", "device_secrets",
        ]))
      #expect(export.tables.allSatisfy { !$0.description.isEmpty })
      #expect(export.tables.flatMap(\.rows).allSatisfy { $0.kind == "an object" })
      let json = try text(export)
      for fact in ["Kim", bought.transactionID, "\"price_milliunits\":12990"] {
        #expect(json.contains(fact), "\(fact)")
      }
      #expect(!json.contains("secret_hash"))
    }
  }

  @Test func `an export has as many rows as fit, and says of which tables there are more`() async throws {
    try await withScreenTime { harness in
      let secret = ScreenTime.secret(1)
      _ = try await harness.launch("phone", account: "anna", secret: secret)
      for number in 1...4 {
        let event = """
          {"bundleID": "\(ScreenTime.bundleID)", "customerID": "phone", "events": [{"name": "tapped",
            "at": "\(harness.clock.now.rfc3339)", "properties": {"text": "\(number)\(String(repeating: "x", count: 500))"}}]}
          """
        #expect(try await harness.send(.post, "/api/v1/events", json: event, secret: secret).status == 202)
      }
      let whole = try await harness.desk.exportCustomer("phone")
      #expect(whole.tables.allSatisfy { !$0.hasMore })
      let part = try await harness.desk.exportCustomer("phone", maximumBytes: 2_200)
      let events = try #require(part.tables.first { $0.table == "events" })
      #expect((1...3).contains(events.rows.count))
      #expect(events.hasMore)
      #expect(part.tables.map(\.table) == whole.tables.map(\.table))
      let size = try part.tables.map { try JSONCoding.encode($0.rows).count }.reduce(0, +)
      #expect(size <= 2_200)
    }
  }

  @Test func `the export of a later owner names no former owner, also in calls to the App Store`()
    async throws
  {
    try await withHarness(configuration: Harness.apps(#""tellAccountToken": true"#)) { harness in
      let (anna, boris, clara) = (UUID(), UUID(), UUID())
      let bought = try harness.buy()
      func shows(as user: UUID) async throws {
        let token = try await harness.token(for: user)
        #expect(try await harness.sync([bought.signedTransaction], user: user, token: token).status == 200)
      }
      try await shows(as: anna)
      try await harness.service.deliveries.storeCalls.run()
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: boris.uuidString, by: #require(Harness.ada), isForced: true)
      let calls = try #require(
        try await harness.desk.exportCustomer(boris.uuidString).tables.first { $0.table == "store_calls" })
      let call = String(decoding: try JSONCoding.encode(calls.rows), as: UTF8.self)
      #expect(call.contains(#""user_id":"another customer""#), "\(call)")
      #expect(!call.lowercased().contains(anna.uuidString.lowercased()), "\(call)")
      // The second customer's own export keeps what the customer's purchase has.
      try await harness.erase(boris.uuidString)
      try await shows(as: clara)
      let own = try text(try await harness.desk.exportCustomer(clara.uuidString))
      #expect(own.contains(clara.uuidString.lowercased()))
      for column in ["erased_as", "erased_tokens"] { #expect(!own.contains(column), "\(own)") }
    }
  }

  @Test func `the details of an action name no other customer and no purchase of another one`() async throws {
    try await withHarness { harness in
      let (user, bought) = try await harness.customer()
      let (other, foreign) = try await harness.customer()
      let (id, otherID) = (user.uuidString.lowercased(), other.uuidString.lowercased())
      let details = """
        {"asked": "order", "prefer": "grant", "former": [{"customer": "\(otherID)", "since": "\(id)"}, "\(id)"],
         "\(bought.originalTransactionID)": ["status: expired -> active", "owner: \(otherID) -> \(id)",
           "owner: none -> \(otherID)"],
         "\(foreign.originalTransactionID)": ["status: active -> expired"]}
        """
      _ = try await harness.pool.query(
        """
        INSERT INTO support_actions (action, bundle_id, to_customer, customer_kind, by, actor, reason, details)
        VALUES ('refresh', \(TestApps.climbing), \(id), 'user', 'ada', 'operator', 'ticket 812',
          \(details)::text::jsonb)
        """)
      let export = try await harness.desk.exportCustomer(id)
      let actions = try #require(export.tables.first { $0.table == "support_actions" })
      let json = String(decoding: try JSONCoding.encode(actions.rows), as: UTF8.self)
      for kept in [
        #""asked":"order""#, #""prefer":"grant""#, "status: expired -> active",
        "owner: another customer -> \(id)",
        "owner: none -> another customer", #"{"customer":"another customer","since":"\#(id)"},"\#(id)"]"#,
      ] {
        #expect(json.contains(kept), "\(kept): \(json)")
      }
      for left in [otherID, foreign.originalTransactionID] { #expect(!json.contains(left), "\(json)") }
    }
  }

  @Test func `no form of a JWS keeps its signature in an export`() throws {
    let signature = String(repeating: "s", count: 86)
    let jws = "e30.eyJhIjoxfQ.\(signature)"
    let inner = Data(#"{"inner": "\#(jws)"}"#.utf8).base64EncodedString()
      .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    let signed = JSONValue.object(["a": .integer(1)])
    #expect(JSONValue.string(jws).withoutSignatures == signed)
    #expect(
      JSONValue.string("e30.\(inner).\(signature)").withoutSignatures == .object(["inner": signed]))
    #expect(
      JSONValue.string(#"{"data": "\u0065\#(jws.dropFirst())", "b": [1]}"#).withoutSignatures
        == .string(#"{"b":[1],"data":{"a":1}}"#))
    #expect(
      JSONValue.string("<\(jws)> and x.y.\(signature)").withoutSignatures
        == .string(#"<{"a":1}> and "(signed data)""#))
    for value in [JSONValue.object([jws: .null]), .array([.string("\(jws).\(jws)"), .string("a.\(jws)")])] {
      #expect(!"\(value.withoutSignatures)".contains(signature))
    }
    for text in ["com.example.climbing.monthly", "1.0.2", #"{"a": 1.50, "b": "\u00e9"}"#, inner, signature] {
      #expect(JSONValue.string(text).withoutSignatures == .string(text))
    }
  }

  @Test func `texts of deep JSON are not decoded for an export`() {
    let deep = String(repeating: "[", count: 511) + #""\u0041""# + String(repeating: "]", count: 511)
    let payload = Data(deep.utf8).base64EncodedString().replacing("=", with: "")
    let signature = String(repeating: "s", count: 86)
    let shown = JSONValue.string("(signed data)")
    #expect(JSONValue.string(deep).withoutSignatures == shown)
    #expect(JSONValue.string("e30.\(payload).\(signature)").withoutSignatures == shown)
    let bounded = String(repeating: "[", count: 32) + #""\u0041""# + String(repeating: "]", count: 32)
    #expect(JSONValue.string(bounded).withoutSignatures == .string(bounded))
  }

  @Test func `the export of a device names no paired device`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.device("parent", buys: ScreenTime.family)
      _ = try await harness.pair("KIMS-IPAD", to: "parent", name: "Kim")
      _ = try await harness.pool.query(
        """
        INSERT INTO lifecycle_events (id, type, bundle_id, environment, device_id, child_device_ids, occurred_at, data,
          created_at)
        VALUES (gen_random_uuid(), 'paused_devices', \(ScreenTime.bundleID), 'Production', 'parent', '["KIMS-IPAD"]',
          now(), '{}', now())
        """)
      let json = try text(try await harness.desk.exportCustomer("parent"))
      #expect(json.contains(#""child_device_id":"another customer""#), "\(json)")
      #expect(json.contains(#""child_device_ids":["another customer"]"#), "\(json)")
      #expect(!json.lowercased().contains("kims-ipad"), "\(json)")
      #expect(json.contains("Kim"))
    }
  }

  @Test func `the export names no other customer`() async throws {
    try await withHarness { harness in
      let (anna, bought) = try await harness.customer()
      let boris = UUID()
      _ = try await harness.desk.transfer(
        bought.originalTransactionID, to: boris.uuidString, by: #require(Harness.ada), isForced: true)
      for (own, other) in [(anna, boris), (boris, anna)] {
        let json = try text(try await harness.desk.exportCustomer(own.uuidString)).lowercased()
        #expect(json.contains(own.uuidString.lowercased()))
        #expect(json.contains("another customer"))
        // The token that Apple signed is the first owner's, and a part of the second one's purchase.
        if own == anna { #expect(!json.contains(other.uuidString.lowercased()), "\(json)") }
      }
      #expect(try await refusal { _ = try await harness.desk.exportCustomer(UUID().uuidString) } == .notFound)
    }
  }
}
