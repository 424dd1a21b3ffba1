import AppStore
import Foundation
import HTTP
import HTTPTypes

extension ServerAPIRoutes {
  /// Send Consumption Information: 202 for a body that Apple would accept.
  func takeConsumption(_ request: Request, of app: StoreApp) throws -> Response {
    let id = try transactionID(request, "transactionId")
    guard
      let fields = try? JSONDecoder().decode(
        [String: ConsumptionReport.Value].self, from: Data(request.body))
    else { throw ServerAPIError.generalBadRequest }
    for rule in Self.consumptionRules where !rule.allows(fields[rule.name]) {
      throw ServerAPIError(rule.error)
    }

    try checkIsNoAppTransaction(id, of: app)
    guard let transaction = try signable(id, of: app) else { throw ServerAPIError.transactionIDNotFound }
    guard transaction.inAppOwnershipType != .familyShared else {
      throw ServerAPIError.familyTransactionNotSupported
    }
    store.keep(
      ConsumptionReport(
        at: store.clock(), bundleID: app.bundleID, environment: environment, transactionID: id,
        body: fields))
    return .empty(.accepted)
  }

  /// The rule for a field of the body.
  private struct Rule {
    enum Form {
      case consent
      case bool
      case number(ClosedRange<Int64>)
      case word([String])
    }

    let name: String
    let form: Form
    let isRequired: Bool
    let error: AppStoreErrorCode

    func allows(_ value: ConsumptionReport.Value?) -> Bool {
      switch (form, value) {
      case (_, nil): !isRequired
      case (.consent, .bool(let consented)): consented
      case (.bool, .bool): true
      case (.number(let range), .number(let number)): range.contains(number)
      case (.word(let words), .text(let word)): words.contains(word)
      default: false
      }
    }
  }

  private static let consumptionRules = [
    Rule(name: "customerConsented", form: .consent, isRequired: true, error: .invalidCustomerConsented),
    Rule(name: "sampleContentProvided", form: .bool, isRequired: true, error: .invalidSampleContentProvided),
    Rule(
      name: "deliveryStatus",
      form: .word([
        "DELIVERED", "UNDELIVERED_QUALITY_ISSUE", "UNDELIVERED_WRONG_ITEM", "UNDELIVERED_SERVER_OUTAGE",
        "UNDELIVERED_OTHER",
      ]), isRequired: true, error: .invalidDeliveryStatus),
    // In thousandths of a percent. Apple has no specific code for the last two fields.
    Rule(
      name: "consumptionPercentage", form: .number(0...100_000), isRequired: false,
      error: .generalBadRequest),
    Rule(
      name: "refundPreference", form: .word(["DECLINE", "GRANT_FULL", "GRANT_PRORATED"]),
      isRequired: false, error: .generalBadRequest),
  ]
}
