import Actions
import AppStore
import AppStoreSimulator
import Foundation
import HTTP
import HTTPTypes
import Postgres
import Subscriptions
import Testing

@testable import Customers
@testable import ReceiptService
@testable import Support

/// Canonically equivalent Unicode strings are equal in Swift, but not in PostgreSQL.
@Suite struct DeviceNameTests {
  private let composed = "t\u{e9}l\u{e9}phone"
  private let decomposed = "te\u{301}le\u{301}phone"

  @Test func `two canonically equivalent device ids are one device`() async throws {
    try await withScreenTime { harness in
      #expect(try await harness.launch(composed, account: "anna").status == 201)
      let again = try await harness.launch(decomposed, account: "anna")
      #expect(again.status == 200)
      #expect(again.string("entitlements.status") == "trial")
      #expect(try await harness.count("trials") == 1)
      #expect(try await harness.pair(composed, to: "parent").status == 409)
      _ = try await harness.launch("parent")
      #expect(try await harness.pair(composed, to: "parent").status == 201)
      #expect(try await harness.pair(decomposed, to: "parent").status == 200)
      #expect(try await harness.count("devices") == 1)
    }
  }

  @Test(arguments: ["X\u{9b}31m", "X\u{85}", "a\u{7f}", "a\u{1b}[2J"])
  func `a device id with control characters is refused`(id: String) async throws {
    #expect(throws: Problem.self) { try DeviceID(id) }
    #expect(throws: SupportRefusal.self) { try SupportAuthor(by: .operatorNamed("ada"), reason: id) }
    #expect(throws: SupportRefusal.self) { try SupportAuthor(by: .operatorNamed(id), reason: "x") }
    #expect(throws: SupportRefusal.self) { try SupportAuthor(by: .machine(speakingFor: id), reason: "x") }
  }

  @Test func `the id of an erased device is refused, and one that only looks like it is not`() async throws {
    try await withScreenTime { harness in
      _ = try await harness.launch("phone", account: "anna")
      let pseudonym = try #require(try await harness.erase("phone").erased.first?.pseudonym)
      let ada = try #require(Harness.ada)
      for id in [pseudonym, "erased-\(UUID().uuidString)"] {
        let refused = try await harness.launch(id, account: "anna")
        #expect(refused.status == 400)
        #expect(refused.code == "invalid_request")
        let granted = try await refusal {
          _ = try await harness.desk.grant(
            to: id, bundleID: ScreenTime.bundleID, tier: "family", days: 1, by: ada, isForced: true)
        }
        #expect(granted == .invalid)
      }
      // The Apple Account of such a device is kept while the device is a customer.
      _ = try await harness.launch("erased-tablet", account: "boris")
      _ = try await harness.launch("desk", account: "boris")
      let account = try await harness.value(
        "SELECT app_transaction_id AS value FROM trials WHERE device_id = 'erased-tablet'", as: String.self)
      try await harness.erase("desk")
      #expect(try await harness.count("trials WHERE app_transaction_id = '\(account)'") == 1)
    }
  }

  /// Unicode white space at one of the ends, or at both.
  private static let spaced = [
    " ", "phone ", " phone", "\u{a0}phone", "phone\u{a0}", "\u{a0}", "phone\u{2003}", "\u{3000}phone",
    "phone\u{202f}",
    "phone\u{2028}", "\u{1680}phone", "\u{a0}\u{301}phone",
  ]

  @Test(arguments: [".", ".."]) func `a device id that no path can have as a segment is refused`(id: String)
    async throws
  {
    try await withScreenTime { harness in
      let refused = try await harness.launch(id)
      #expect(refused.status == 400)
      #expect(refused.code == "invalid_request")
      #expect(try await harness.launch("..phone").status == 201)
    }
  }

  @Test(arguments: spaced)
  func `a device id with white space at an end is refused`(id: String) async throws {
    try await withScreenTime { harness in
      let refused = try await harness.launch(id)
      #expect(refused.status == 400)
      #expect(refused.code == "invalid_request")
      let path = try #require(id.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
      let bundle = "bundleID=\(ScreenTime.bundleID)"
      let asked = try await harness.send(.get, "/api/v1/devices/\(path)/entitlements?\(bundle)")
      #expect(asked.status == 400)
      #expect(asked.code == "invalid_request")
      _ = try await harness.launch("parent")
      #expect(try await harness.pair(id, to: "parent").code == "invalid_request")
      #expect(try await harness.count("trials") == 1)
    }
  }

  @Test(arguments: spaced)
  func
    `a stored id with white space at an end is found, reported, exported and erased before the id without it`(
      id: String
    ) async throws
  {
    try await withScreenTime { harness in
      for stored in [id, "phone"] { try await harness.device(named: stored, of: ScreenTime.bundleID) }
      let name = DeviceID.normalized(id)
      #expect(try await harness.desk.find(id).search.customers.map(\.customer) == [.device(name)])
      #expect(try await harness.desk.customer(id).customers.map(\.customer) == [name])
      #expect(try await harness.desk.exportCustomer(id).id == name)
      try await harness.erase(id)
      #expect(try await harness.count("trials WHERE device_id = 'phone'") == 1)
      #expect(try await harness.count("trials WHERE device_id LIKE 'erased-%'") == 1)
      // What a person copies with blanks around it.
      #expect(try await harness.desk.find(" phone\n").search.customers.map(\.customer) == [.device("phone")])
    }
  }

  @Test(arguments: [
    "6F1C2B7E-9D0A-4E55-8C1B-3A4D5E6F7081", "Ärztin's iPhone", "📱", "téléphone", "手机-1", "user:42/a+b=",
    "two words",
    "a\u{a0}b", "👨\u{200d}👩", "soft\u{ad}hyphen",
  ])
  func `an ordinary device id is accepted as it is`(id: String) async throws {
    #expect(try DeviceID(id).name == id)
  }

  /// Swift's comparison knows characters of Unicode 16, Foundation's normalization does not.
  @Test func `ids that Swift calls equal have the same bytes, or are refused`() throws {
    func bytes(_ id: String) -> [UInt8]? { (try? DeviceID(id)).map { Array($0.name.utf8) } }
    var pairs = [
      ("\u{16d68}", "\u{16d67}\u{16d67}"), ("\u{105c9}", "\u{105d2}\u{307}"), ("\u{e9}", "e\u{301}"),
      ("\u{1e14}", "E\u{304}\u{300}"), ("\u{ac01}", "\u{1100}\u{1161}\u{11a8}"),
    ]
    // The order of two marks counts only where they attach at the same place.
    for value in UInt32(0x300)...0x1_ffff {
      guard let mark = Unicode.Scalar(value), mark.properties.canonicalCombiningClass != .notReordered else {
        continue
      }
      for other in ["\u{301}", "\u{323}", "\u{345}"] {
        pairs.append(("a\(mark)\(other)", "a\(other)\(mark)"))
      }
    }
    #expect(pairs.count > 2_000)
    for (one, other) in pairs where one == other {
      let (first, second) = (bytes(one), bytes(other))
      #expect(first == second, "\(one.unicodeScalars.map { String($0.value, radix: 16) })")
    }
    // Accepted as before.
    #expect(bytes("\u{1e14}") != nil && bytes("a\u{301}\u{323}") != nil)
  }

  @Test func `one purchase opens no second device by an id that Swift alone calls equal`() async throws {
    try await withScreenTime { harness in
      let bought = try await harness.device("phone", buys: ScreenTime.family)
      for id in ["\u{16d68}", "\u{16d67}\u{16d67}"] {
        let answer = try await harness.validate(
          ["signedTransaction": bought.signedTransaction, "deviceID": id])
        #expect(answer.status == 400 && answer.code == "invalid_request")
      }
    }
  }

  @Test
  func `the device of a row from before receiptd is the one that its app names, however the row spells it`()
    async throws
  {
    try await withScreenTime { harness in
      let bought = try harness.buy(ScreenTime.family, bundleID: ScreenTime.bundleID)
      _ = try await harness.pool.query(
        """
        INSERT INTO subscriptions (device_id, original_transaction_id, transaction_id, product_id, status)
        VALUES (\(decomposed), \(bought.originalTransactionID), \(bought.transactionID), \(ScreenTime.family), 'active')
        """)
      try await harness.arrives(bought)
      let owner = try #require(try await harness.row(of: bought.originalTransactionID).deviceID)
      #expect(Array(owner.unicodeScalars) == Array(composed.unicodeScalars))
      for device in [composed, decomposed] {
        let name = try #require(device.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
        #expect(try await harness.entitlements(name).bool("entitlements.isAccessGranted") == true)
      }
      _ = try await harness.desk.eraseCustomer(
        decomposed, bundleID: ScreenTime.bundleID, by: try #require(Harness.ada), isForced: true)
      #expect(try await harness.tables(with: composed, except: ["outbox"]) == [])
      #expect(try await harness.tables(with: decomposed) == [])
    }
  }

  @Test func `a stored id that a new device may not have is found, exported and erased`() async throws {
    try await withScreenTime { harness in
      let id = "X\u{9b}31m\u{202e}"
      _ = try await harness.pool.query(
        """
        INSERT INTO trials (bundle_id, device_id, started_at, ends_at)
        VALUES (\(ScreenTime.bundleID), \(id), \(harness.clock.now), \(harness.clock.now))
        """)
      #expect(try await harness.desk.find(id).isFound)
      #expect(try await harness.desk.exportCustomer(id).tables.map(\.table) == ["trials"])
      try await harness.erase(id)
      #expect(try await harness.tables(with: id, except: ["outbox"]) == [])
    }
  }

  @Test func `two canonically equivalent device ids count once for a shared purchase`() async throws {
    try await withShippedApps { harness in
      let bought = try harness.buy(Heatlab.monthly, bundleID: Heatlab.bundleID)
      try await harness.arrives(bought)
      for device in [composed, decomposed] {
        #expect(try await harness.device(device, shows: bought).string("entitlements.tier") == "pro")
      }
      let path = decomposed.utf8.map { String(format: "%%%02X", $0) }.joined()
      let answer = try await harness.entitlements(path, of: Heatlab.bundleID)
      #expect(answer.string("entitlements.tier") == "pro")
      #expect(try await harness.count("purchase_devices") == 1)
    }
  }
}
