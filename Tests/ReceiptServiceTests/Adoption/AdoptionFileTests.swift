import Actions
import AppStore
import AppStoreSimulator
import Foundation
import Postgres
import Synchronization
import Testing
import Text

@testable import Adoption
@testable import Ledger
@testable import ReceiptService

/// `receiptd adopt --from`: claims of a file.
@Suite struct AdoptionFileTests {
  @Test func `a file with transaction ids, receipts or signed transactions is imported`() async throws {
    try await LiveApps.with { live in
      let (first, second) = (try live.buy(), try live.buy())
      let ids = "customer,original_transaction_id\r\n\(live[1]),\(first.originalTransactionID)\r\n"
      #expect(try await live.adopt(csv: ids).outcomes == ["bound": 1])
      let signed = "customer,signed_transaction\n\(live[2]), \(second.signedTransaction) \n"
      #expect(try await live.adopt(csv: signed).outcomes == ["bound": 1])
      #expect(try await live.profile(live[1]).originalTransactionID == first.originalTransactionID)
      #expect(try await live.profile(live[2]).originalTransactionID == second.originalTransactionID)
      // Another customer for a known purchase.
      let stolen = "customer,original_transaction_id\n\(live[3]),\(first.originalTransactionID)\n"
      #expect(try await live.adopt(csv: stolen).outcomes["another_customer"] == 1)
      #expect(try await live.profile(live[3]) == ProfileRow())
      await #expect(throws: SupportRefusal.self) {
        try await live.harness.service.adoption.adopt(isDryRun: true, csv: ids)
      }
    }
  }

  @Test func `an export of RevenueCat is imported`() async throws {
    try await LiveApps.with { live in
      let bought = try live.buy()
      let id = bought.originalTransactionID
      let header =
        "rc_original_app_user_id,rc_last_seen_app_user_id_alias,country,product_identifier,store,is_sandbox,"
        + "store_transaction_id,original_store_transaction_id,custom_subscriber_attributes"
      let anonymous = "$RCAnonymousID:87c6049c58069238dce29853916d624c"
      let rows = [
        "\(anonymous),\(live[1]),GB,\(SwiftClimb.monthly),app_store,false,2000000000000009,\(id),\"{\"\"a\"\": \"\"x, y\"\"}\"",
        "\(anonymous),\(live[1]),GB,\(SwiftClimb.monthly),app_store,false,2000000000000010,\(id),",
        "\(anonymous),\(anonymous),GB,\(SwiftClimb.monthly),app_store,false,3,3,",
        "\(anonymous),\(live[2]),GB,\(SwiftClimb.monthly),play_store,false,GPA.1,GPA.1,",
        "\(anonymous),\(live[2]),GB,other.product,app_store,false,4,4,",
      ]
      let report = try await live.adopt(csv: ([header] + rows).joined(separator: "\n"))
      #expect(report.outcomes == ["bound": 1])
      #expect(report.skipped.values.reduce(0, +) == 3)
      #expect(report.description.contains("1 rows of the file skipped: not of the App Store"))
      #expect(try await live.profile(live[1]).originalTransactionID == id)
    }
  }

  @Test func `an error in a file names the line, and nothing is imported`() async throws {
    try await LiveApps.with { live in
      let good = "\(live[1]),2000000000001001"
      for (csv, reason) in [
        ("", "line 1: the file is empty"),
        (
          "customer,colour\n",
          "line 1: the header needs one of original_transaction_id, receipt, signed_transaction"
        ),
        ("user,id\n", "line 1: the header must be customer and"),
        (
          "customer,original_transaction_id\n\(good)\nann,1\n",
          "line 3: Customers of com.swiftclimb.app are users"
        ),
        (
          "customer,original_transaction_id\n\(good)\n\(live[2]),GPA.1\n",
          "line 3: 'GPA.1' is not a transaction id"
        ),
        (
          "customer,original_transaction_id\n\(good)\n\n\(live[2])\n",
          "line 4: 1 values, but the header has 2"
        ),
        ("customer,original_transaction_id\n\(good)\n\"\(live[2]),1\n", "line 3: a quote is not closed"),
        ("customer,receipt\n\(live[2]),xyz\n", "line 2: 'receipt' is not a base64 app receipt"),
        ("customer,signed_transaction\n\(live[2]),a.b.c\n", "line 2: "),
      ] {
        let problem = await #expect(throws: CSVProblem.self) { try await live.adopt(csv: csv) }
        #expect(problem?.description.hasPrefix(reason) == true, "\(problem?.description ?? "")")
      }
      let decided = try await live.harness.count("adoptions")
      #expect(decided == 0)
    }
  }
}
