// swift-format-ignore-file
// What the pages leave to the reader's app.
import Foundation
import ReceiptdClient
import StoreKit
import SwiftUI

struct Session: Sendable {
  func accessToken(forcingRefresh: Bool) async throws -> String? { nil }
}

struct Paywall: View {
  init(reason: PaywallReason) {}
  var body: Never { fatalError("a stand-in") }
}

struct SignedTransaction: Sendable {
  var jwsRepresentation: String
  func finish() async {}
}

let session = Session()
let userID = UUID()
let transaction = SignedTransaction(jwsRepresentation: "")
func show<Value>(_ value: Value) {}
