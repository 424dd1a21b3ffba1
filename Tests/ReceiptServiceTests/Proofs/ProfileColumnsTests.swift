import AppStore
import AppStoreSimulator
import Foundation
import HTTPTypes
import Postgres
import Subscriptions
import Testing
import Text

@testable import Ledger
@testable import ReceiptService

/// `PUT …/premium` with the three columns that SwiftClimb's client would write into `profiles` by itself: the id is
/// looked up in the App Store, and counts as a bare id does at `validate`; product and expiry are not believed.
@Suite struct ProfileColumnsTests {
  private static func configuration(_ mode: ClientWrites) -> String {
    TestApps.json.replacing(
      #""bundleID": "com.example.climbing","#,
      with: #""bundleID": "com.example.climbing", "clientWrites": "\#(mode.rawValue)","#)
  }

  @Test(arguments: ClientWrites.allCases)
  func
    `columns with an expiry in nine years give what the App Store knows of the id, while old builds may write`(
      mode: ClientWrites
    ) async throws
  {
    try await withHarness(configuration: Self.configuration(mode)) { harness in
      let user = UUID()
      let bought = try harness.buy(TestApps.monthly)
      let end = try #require(bought.transaction.expiresDate)
      let answer = try await harness.syncsColumns(
        bought.originalTransactionID, product: TestApps.lifetime, user: user)
      let fetched = try await harness.profile(of: user, token: harness.token(for: user))
      // The facts are stored in any case.
      let stored = try await harness.row(of: bought.originalTransactionID)
      #expect(stored.productID == TestApps.monthly && stored.expiry == end)
      if mode == .refuse {
        #expect(answer.status == 409 && answer.code == "belongs_to_another_customer")
        #expect(answer.string("detail")?.contains("alone proves no possession") == true)
        #expect(fetched.bool("isPremium") == false && fetched.isNull("premiumExpiresAt"))
        #expect(stored.userID == nil)
        #expect(try await harness.profileRow(of: user)?.product == nil)
        // Signed data gives it, and then the columns are the user's own.
        let signed = try await harness.sync(
          [bought.signedTransaction], user: user, token: harness.token(for: user))
        #expect(signed.bool("isPremium") == true)
      } else {
        #expect(answer.status == 200)
        for shown in [answer, fetched] {
          #expect(shown.bool("isPremium") == true)
          #expect(shown.date("premiumExpiresAt") == end)
          #expect(shown.string("premiumProductID") == TestApps.monthly)
          #expect(shown.string("premiumOriginalTransactionID") == bought.originalTransactionID)
          #expect(shown.date("entitlements.validUntil") == end)
        }
        #expect(stored.userID == user)
      }
      #expect(
        try await harness.profileRow(of: user)
          == ProfileRow(
            expiresAt: end, product: TestApps.monthly, originalTransactionID: bought.originalTransactionID))
      // The paid time ends when the App Store says.
      harness.clock.set(end)
      let late = try await harness.syncsColumns(
        bought.originalTransactionID, product: TestApps.lifetime, user: user)
      #expect(late.status == 200 && late.bool("isPremium") == false)
      #expect(late.date("premiumExpiresAt") == end)
    }
  }

  @Test func `a refunded purchase gives nothing by its columns`() async throws {
    try await withHarness(configuration: Self.configuration(.accept)) { harness in
      let user = UUID()
      let bought = try harness.buy(TestApps.annual)
      _ = try harness.store.perform(.refundLatest, on: bought.originalTransactionID)
      let answer = try await harness.syncsColumns(bought.originalTransactionID, user: user)
      #expect(answer.status == 200 && answer.bool("isPremium") == false)
      #expect(answer.isNull("premiumExpiresAt") && answer.isNull("premiumProductID"))
    }
  }

  /// A purchase before a user names it.
  private enum Situation: CaseIterable {
    case withoutOwner, ofAnother, ofTheUser, namedByAnother
  }

  @Test(arguments: ClientWrites.allCases)
  func `columns are answered as a bare transaction id is at validate`(mode: ClientWrites) async throws {
    try await withHarness(configuration: Self.configuration(mode)) { harness in
      for situation in Situation.allCases {
        var answers: [Answer] = []
        for isSync in [true, false] {
          let (user, other) = (UUID(), UUID())
          let bought = try harness.buy()
          let id = bought.originalTransactionID
          switch situation {
          case .withoutOwner: break
          case .ofAnother: try await harness.proves(bought, other)
          case .ofTheUser: try await harness.proves(bought, user)
          case .namedByAnother:
            _ = try await harness.pool.query(
              "INSERT INTO profiles (id, premium_original_transaction_id) VALUES (\(other), \(id))")
          }
          let token = try await harness.token(for: user)
          answers.append(
            isSync
              ? try await harness.syncsColumns(id, user: user)
              : try await harness.validate(
                ["transactionID": id, "bundleID": TestApps.climbing], token: token)
          )
          let isServed = answers.last?.status == 200
          #expect(
            try await harness.profile(of: user, token: token).bool("isPremium") == isServed,
            "\(situation)")
          let owner = try await harness.row(of: id).userID
          #expect(owner == (isServed ? user : situation == .ofAnother ? other : nil), "\(situation)")
        }
        let (sync, validate) = (answers[0], answers[1])
        #expect(sync.status == validate.status, "\(situation)")
        #expect(sync.code == validate.code, "\(situation)")
        #expect(sync.string("detail") == validate.string("detail"), "\(situation)")
        let mayName = mode != .refuse && situation == .withoutOwner
        #expect(sync.status == (mayName || situation == .ofTheUser ? 200 : 409), "\(situation)")
      }
    }
  }

  @Test func `an id that the App Store does not know changes nothing, and many of them are refused`()
    async throws
  {
    try await withHarness(
      configuration: Self.configuration(.accept), environment: ["RATE_LIMIT": "1000"]
    ) { harness in
      let user = UUID()
      let unknown = try await harness.syncsColumns("2000000000001005", user: user)
      #expect(unknown.status == 404 && unknown.code == "transaction_not_found")
      #expect(try await harness.profileRow(of: user) == nil)
      #expect(try await harness.count("subscriptions") == 0)
      var last = unknown
      for number in 0..<10 {
        last = try await harness.syncsColumns("\(2_000_000_000_002_000 + number)", user: user)
      }
      #expect(last.status == 429 && last.code == "rate_limited")
    }
  }

  @Test func `without an id the columns change nothing, and an id that is none is refused`() async throws {
    try await withHarness(configuration: Self.configuration(.accept)) { harness in
      let (user, bought) = try await harness.customer()
      let before = try await harness.profileRow(of: user)
      for none in ["", nil] as [String?] {
        let answer = try await harness.syncsColumns(none, user: user)
        #expect(answer.status == 200)
        #expect(answer.string("premiumProductID") == TestApps.monthly)
        #expect(answer.date("premiumExpiresAt") == bought.transaction.expiresDate)
      }
      let new = UUID()
      #expect(try await harness.syncsColumns("", user: new).bool("isPremium") == false)
      #expect(try await harness.profileRow(of: new) == nil)
      let signed = try harness.buy(TestApps.annual).signedTransaction
      for wrong in ["x", "-1", "+1", " 1", "1.0", "1,2", "\u{0661}", String(repeating: "1", count: 21)] {
        let answer = try await harness.syncsColumns(wrong, user: new, signed: [signed])
        #expect(answer.status == 400 && answer.code == "invalid_request", "\(wrong)")
        #expect(answer.string("detail")?.contains("premium_original_transaction_id") == true, "\(wrong)")
      }
      let number = try await harness.send(
        .put, "/api/v1/profiles/\(new.uuidString.lowercased())/premium",
        json: #"{"premium_original_transaction_id": 2000000000000001}"#, token: harness.token(for: new))
      #expect(number.status == 400)
      #expect(try await harness.profileRow(of: new) == nil)
      #expect(try await harness.profileRow(of: user) == before)
      #expect(try await harness.count("subscriptions") == 1)
    }
  }

  @Test(arguments: ClientWrites.allCases)
  func `columns beside signed transactions add the purchase that they name, if the user may have it`(
    mode: ClientWrites
  ) async throws {
    try await withHarness(configuration: Self.configuration(mode)) { harness in
      let user = UUID()
      let signed = try harness.buy(TestApps.monthly)
      let named = try harness.buy(TestApps.annual)
      let answer = try await harness.syncsColumns(
        named.originalTransactionID, user: user, signed: [signed.signedTransaction])
      #expect(answer.status == (mode == .refuse ? 409 : 200))
      // A refused purchase does not affect the others.
      #expect(try await harness.row(of: signed.originalTransactionID).userID == user)
      let owner = try await harness.row(of: named.originalTransactionID).userID
      #expect(owner == (mode == .refuse ? nil : user))
      let fetched = try await harness.profile(of: user, token: harness.token(for: user))
      #expect(
        fetched.date("premiumExpiresAt") == (mode == .refuse ? signed : named).transaction.expiresDate)
      // One that the App Store does not know: nothing is stored.
      let further = try harness.buy(TestApps.monthly)
      let unknown = try await harness.syncsColumns(
        "2000000000001005", user: user, signed: [further.signedTransaction])
      #expect(unknown.status == 404 && unknown.code == "transaction_not_found")
      #expect(try await harness.count("subscriptions") == 2)
    }
  }

  @Test(arguments: ClientWrites.allCases)
  func `the id of a signed transaction beside it needs no answer of the App Store`(mode: ClientWrites)
    async throws
  {
    try await withHarness(
      configuration: Self.configuration(mode),
      environment: ["APP_STORE_KEY": "", "APP_STORE_KEY_ID": "", "APP_STORE_ISSUER_ID": ""]
    ) { harness in
      let user = UUID()
      let bought = try harness.buy(TestApps.monthly)
      let alone = try await harness.syncsColumns(bought.originalTransactionID, user: user)
      #expect(alone.status == 503 && alone.code == "store_unavailable")
      let answer = try await harness.syncsColumns(
        bought.originalTransactionID, user: user, signed: [bought.signedTransaction])
      #expect(answer.status == 200)
      #expect(answer.date("premiumExpiresAt") == bought.transaction.expiresDate)
    }
  }
}

extension Harness {
  /// A user's signed-in client shows a purchase.
  fileprivate func proves(_ purchase: SignedOutcome, _ user: UUID) async throws {
    let answer = try await sync([purchase.signedTransaction], user: user, token: token(for: user))
    #expect(answer.status == 200)
  }

  /// `PUT …/premium` with the three columns, and an expiry in nine years.
  /// - Parameter signed: the signed transactions beside them; empty for no such member.
  fileprivate func syncsColumns(
    _ transactionID: String?, product: String = TestApps.annual, user: UUID, signed: [String] = []
  ) async throws -> Answer {
    let columns = [
      "premium_product_id": product, "premium_original_transaction_id": transactionID,
      "premium_expires_at": (clock.now + 9 * 365 * 86_400).rfc3339,
    ]
    var body: [String: Any] = columns.mapValues { $0.map { $0 as Any } ?? NSNull() }
    if !signed.isEmpty { body["signedTransactions"] = signed }
    let json = String(decoding: try JSONSerialization.data(withJSONObject: body), as: UTF8.self)
    return try await send(
      .put, "/api/v1/profiles/\(user.uuidString.lowercased())/premium", json: json, token: token(for: user))
  }
}
