import AppStoreSimulator
import Configuration
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import ReceiptService
@testable import Requests

/// A request without a `bundleID` is for the app of its proof, its `Host`, or the default.
@Suite struct AppOfRequestTests {
  /// Two apps with users and two with devices.
  private static func catalog(_ change: (inout [String: [String: Any]]) -> Void = { _ in }) throws
    -> AppCatalog
  {
    var apps: [String: [String: Any]] = [:]
    for (name, kind) in [("u1", "user"), ("u2", "user"), ("d1", "device"), ("d2", "device")] {
      apps[name] = [
        "bundleID": name, "customer": kind, "tiers": [String: Any](), "products": [String: Any](),
        "hosts": ["\(name).example"],
      ]
      if kind == "user" { apps[name]?["auth"] = ["jwks": "https://auth.example"] }
    }
    change(&apps)
    let list = apps.keys.sorted().compactMap { apps[$0] }
    return try AppCatalog(json: JSONSerialization.data(withJSONObject: ["apps": list]), named: "apps.json")
  }

  private static func app(
    _ host: String?, named: String? = nil, customers: CustomerKind? = nil, in catalog: AppCatalog,
    headers: HTTPFields = [:]
  ) -> String {
    let request = Request(method: .get, path: "/", authority: host, headers: headers)
    do throws(Problem) {
      return try AppOfRequest(catalog: catalog).app(of: request, named: named, customers: customers).bundleID
    } catch {
      return error.code.rawValue
    }
  }

  @Test func `the bundle id comes before the host, and the host before the default app`() throws {
    let catalog = try Self.catalog { $0["d1"]?["default"] = true }
    #expect(Self.app("u1.example", named: "d2", in: catalog) == "d2")
    #expect(Self.app("u1.example", in: catalog) == "u1")
    #expect(Self.app("other.example", in: catalog) == "d1")
    #expect(Self.app(nil, in: catalog) == "d1")
    #expect(Self.app("u1.example", named: "unknown", in: catalog) == "wrong_app")
  }

  @Test(arguments: ["d2.example", "D2.Example", "d2.example:8443", "d2.example.", "d2.example.:80"])
  func `a host is compared without case, port and final dot`(host: String) throws {
    #expect(Self.app(host, in: try Self.catalog()) == "d2")
  }

  @Test func `a forwarded host does not count`() throws {
    let name = try #require(HTTPField.Name("X-Forwarded-Host"))
    #expect(
      Self.app("other.example", in: try Self.catalog(), headers: [name: "d2.example"]) == "invalid_request")
  }

  @Test func `a route for devices is for an app with devices`() throws {
    let catalog = try Self.catalog { $0["d1"]?["default"] = true }
    #expect(Self.app(nil, named: "u1", customers: .device, in: catalog) == "wrong_app")
    #expect(Self.app("d2.example", customers: .device, in: catalog) == "d2")
    #expect(Self.app("u1.example", customers: .device, in: catalog) == "d1")
    let ofUsers = try Self.catalog { $0["u1"]?["default"] = true }
    #expect(Self.app(nil, customers: .device, in: ofUsers) == "invalid_request")
    let oneDevice = try Self.catalog { $0["d2"] = nil }
    #expect(Self.app(nil, customers: .device, in: oneDevice) == "d1")
  }

  @Test func `without any of them the only app is meant, and several are an error that says so`() throws {
    let only = try Self.catalog { apps in for name in ["u1", "u2", "d2"] { apps[name] = nil } }
    #expect(Self.app("other.example", in: only) == "d1")
    let several = try Self.catalog()
    #expect(Self.app("other.example", in: several) == "invalid_request")
    #expect {
      try AppOfRequest(catalog: several).app(of: Request(method: .get, path: "/"), named: nil)
    } throws: { error in
      (error as? Problem)?.detail == "'bundleID' is needed, because several apps are configured."
    }
  }

  @Test func `a proof's app comes before all others, and another bundle id is wrong`() async throws {
    // The default app is ScreenTime Rewards.
    try await withShippedApps { harness in
      let bought = try harness.buy(Heatlab.monthly, bundleID: Heatlab.bundleID)
      let proof = ["signedTransaction": bought.signedTransaction, "deviceID": "phone"]
      #expect(try await harness.validate(proof).string("entitlements.tier") == "pro")
      for other in [ScreenTime.bundleID, SwiftClimb.bundleID] {
        let wrong = try await harness.validate(proof.merging(["bundleID": other]) { $1 })
        #expect(wrong.status == 422)
        #expect(wrong.code == "wrong_app")
      }
    }
  }

  @Test func `no route needs a bundle id where there is a default app`() async throws {
    try await withScreenTime { harness in
      let signed = try harness.store.appTransaction(of: ScreenTime.bundleID, accountID: "anna").signed
      let trial = try await harness.send(
        .post, "/api/v1/trials", json: #"{"deviceID": "phone", "signedAppTransaction": "\#(signed)"}"#)
      #expect(trial.status == 201)
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      let validated = try await harness.validate([
        "transactionID": bought.transactionID, "deviceID": "phone",
      ])
      #expect(validated.string("entitlements.tier") == "family")
      let read = try await harness.send(.get, "/api/v1/devices/phone/entitlements")
      #expect(read.string("entitlements.tier") == "family")
      let paired = try await harness.send(
        .post, "/api/v1/devices/phone/children", json: #"{"childDeviceID": "child"}"#)
      #expect(paired.status == 201)
      let children = try await harness.send(.get, "/api/v1/devices/phone/children")
      #expect(children.children == ["child active"])
      let unpaired = try await harness.send(.delete, "/api/v1/devices/phone/children/child")
      #expect(unpaired.children == [])
      let at = RFC3339.string(from: harness.clock.now)
      let events = try await harness.send(
        .post, "/api/v1/events",
        json: #"{"customerID": "phone", "events": [{"name": "paywall_shown", "at": "\#(at)"}]}"#)
      #expect(events.status == 202)
      let row = try await harness.pool.query("SELECT bundle_id FROM events")
      #expect(try row[0].decode("bundle_id", as: String.self) == ScreenTime.bundleID)
    }
  }

  @Test func `the host that a client asks for chooses the app in every route`() async throws {
    let heatlab = try ScreenTime.configuration().replacing(
      #""bundleID": "com.heatlab.app","#, with: #""bundleID": "com.heatlab.app", "hosts": ["127.0.0.1"],"#)
    try await withHarness(configuration: heatlab) { harness in
      let bought = try harness.buy(Heatlab.monthly, bundleID: Heatlab.bundleID)
      let validated = try await harness.validate([
        "transactionID": bought.transactionID, "deviceID": "phone",
      ])
      #expect(validated.string("entitlements.tier") == "pro")
      let read = try await harness.send(.get, "/api/v1/devices/phone/entitlements")
      #expect(read.string("entitlements.tier") == "pro")
      let named = try await harness.entitlements("phone")
      #expect(named.string("entitlements.tier") == nil)
    }
  }

  @Test func `of several apps of one token, the host's app and then the default app answers`() async throws {
    // Both apps accept the same tokens.
    let climbing = TestApps.json.replacing(
      #""customer": "device", "transferPolicy": "keep","#,
      with: #""customer": "user", "auth": \#(TestApps.secretAuth), "transferPolicy": "keep","#)
    for (key, value) in [(#""hosts""#, #"["127.0.0.1"]"#), (#""default""#, "true")] {
      let configuration = climbing.replacing(
        #""bundleID": "com.example.family","#, with: #""bundleID": "com.example.family", \#(key): \#(value),"#
      )
      try await withHarness(configuration: configuration) { harness in
        let user = UUID()
        let answer = try await harness.profile(of: user, token: harness.token(for: user))
        #expect(answer.features?.keys.sorted() == ["childDevices"])
      }
    }
  }
}
