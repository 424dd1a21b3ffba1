import Actions
import AppStore
import Customers
import Foundation
import HTTP
import Ledger
import Proofs
import Subscriptions
import Text

/// The claims of a CSV file: receiptd's own format, or the transactions that RevenueCat exports.
struct ClaimFile: Sendable {
  private(set) var claims: [LegacyClaim] = []
  /// The rows that are not about customers of this app, by the reason.
  private(set) var skipped: [String: Int] = [:]

  /// Reads all claims of one app.
  /// - Throws: ``CSVProblem`` for the first row that cannot be used.
  init(_ text: String, of app: App, proofs: ProofVerifier) throws(CSVProblem) {
    let table = try CSVTable(text)
    if table.columns.contains("customer") {
      try read(table, of: app, proofs)
    } else if !Self.exportedCustomer.isDisjoint(with: table.columns),
      !Self.exportedTransaction.isDisjoint(with: table.columns)
    {
      readExport(table, of: app)
    } else {
      throw CSVProblem(
        line: 1,
        "the header must be customer and original_transaction_id, receipt or signed_transaction, or that of RevenueCat's "
          + "transactions export")
    }
  }

  // MARK: receiptd's format

  private mutating func read(
    _ table: CSVTable, of app: App, _ proofs: ProofVerifier
  ) throws(CSVProblem) {
    let proofColumns = ["original_transaction_id", "receipt", "signed_transaction"]
    guard proofColumns.contains(where: table.columns.contains) else {
      throw CSVProblem(line: 1, "the header needs one of \(proofColumns.joined(separator: ", "))")
    }
    for row in table.rows {
      guard let name = row["customer"] else { throw CSVProblem(line: row.line, "it has no customer") }
      let customer: Customer
      do throws(SupportRefusal) {
        customer = try app.customer(named: name)
      } catch {
        throw CSVProblem(line: row.line, error.description)
      }
      claims.append(try claim(row, by: customer, of: app, proofs))
    }
  }

  private func claim(
    _ row: CSVTable.Row, by customer: Customer, of app: App, _ proofs: ProofVerifier
  ) throws(CSVProblem) -> LegacyClaim {
    do throws(Problem) {
      if let id = row["original_transaction_id"] {
        guard id.isTransactionID else {
          throw .invalidRequest("'\(id.prefix(40))' is not a transaction id: 1 to 20 digits.")
        }
        return LegacyClaim(key: .init(customer: customer, transactionID: id), source: .file)
      }
      if let signed = row["signed_transaction"] {
        let purchase = try proofs.purchase(
          signedTransaction: signed, signedRenewalInfo: nil, bundleID: app.bundleID)
        return LegacyClaim(
          key: .init(customer: customer, transactionID: purchase.originalTransactionID), source: .file,
          purchase: purchase)
      }
      if let receipt = row["receipt"] {
        let proof = try ReceiptProof(receipt, bundleID: app.bundleID, in: proofs.apps)
        return LegacyClaim(key: .init(customer: customer, transactionID: proof.transactionID), source: .file)
      }
    } catch {
      throw CSVProblem(line: row.line, error.detail)
    }
    throw CSVProblem(
      line: row.line, "it has neither a transaction id, nor a receipt, nor a signed transaction")
  }

  // MARK: RevenueCat's export

  private static let exportedCustomer: Set = [
    "rc_last_seen_app_user_id_alias", "rc_original_app_user_id", "app_user_id",
  ]
  private static let exportedTransaction: Set = [
    "original_store_transaction_id", "original_transaction_id", "store_transaction_id",
  ]

  /// One row for each transaction: a customer's subscription has many, with one original id.
  private mutating func readExport(_ table: CSVTable, of app: App) {
    var seen: Set<LegacyClaim.Key> = []
    for row in table.rows {
      if let store = row["store"], !["app_store", "mac_app_store"].contains(store.lowercased()) {
        skipped["not of the App Store", default: 0] += 1
        continue
      }
      if let product = row["product_identifier"], app.product(named: product) == nil {
        skipped["the app has no such product", default: 0] += 1
        continue
      }
      // The alias is the latest id, and more often one that the app's own sign-in gave.
      let names = ["rc_last_seen_app_user_id_alias", "app_user_id", "rc_original_app_user_id"].compactMap {
        row[$0]
      }
      guard
        let customer = names.lazy.filter({ !$0.hasPrefix("$RCAnonymousID:") })
          .compactMap({ try? app.customer(named: $0) }).first
      else {
        skipped["the customer is anonymous, or no \(app.customer.rawValue) of the app", default: 0] += 1
        continue
      }
      let ids = ["original_store_transaction_id", "original_transaction_id", "store_transaction_id"]
      guard let id = ids.lazy.compactMap({ row[$0] }).first, id.isTransactionID else {
        skipped["it has no transaction id", default: 0] += 1
        continue
      }
      let key = LegacyClaim.Key(customer: customer, transactionID: id)
      if seen.insert(key).inserted { claims.append(LegacyClaim(key: key, source: .file)) }
    }
  }
}
