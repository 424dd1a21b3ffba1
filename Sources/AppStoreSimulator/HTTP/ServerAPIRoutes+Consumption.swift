import AppStore
import FoundationEssentials
import HTTP
import HTTPTypes
import Identifiers

extension ServerAPIRoutes {
  /// Send Consumption Information: 202 for what Apple would take.
  func takeConsumption(_ request: Request, of app: StoreApp, version: Int) throws -> Response {
    let id = try transactionID(request, "transactionId")
    guard
      let fields = try? JSONDecoder().decode(
        [String: ConsumptionReport.Value].self, from: Data(request.body))
    else { throw ServerAPIError.generalBadRequest }
    let rules = version == 1 ? Self.consumptionRulesV1 : Self.consumptionRules
    for rule in rules where !rule.allows(fields[rule.name]) { throw ServerAPIError(rule.error) }

    try checkIsNoAppTransaction(id, of: app)
    guard let transaction = try signable(id, of: app) else { throw ServerAPIError.transactionIDNotFound }
    guard transaction.inAppOwnershipType != .familyShared else {
      throw ServerAPIError.familyTransactionNotSupported
    }
    // The first version knew only of what can be used up and what renews.
    if version == 1, ![.consumable, .autoRenewableSubscription].contains(transaction.type) {
      throw ServerAPIError.transactionTypeNotSupported
    }
    store.keep(
      ConsumptionReport(
        at: store.clock(), bundleID: app.bundleID, environment: environment, transactionID: id,
        version: version, body: fields))
    return .empty(.accepted)
  }

  /// What a field of the body must be.
  private struct Rule {
    enum Form {
      case consent
      case bool
      case number(ClosedRange<Int64>)
      case word([String])
      /// A UUID, or empty for none.
      case uuid
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
      case (.uuid, .text(let text)): text.isEmpty || UUID(rfc9562: text) != nil
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
    // In thousandths of a percent. For these two Apple has no code of their own.
    Rule(
      name: "consumptionPercentage", form: .number(0...100_000), isRequired: false,
      error: .generalBadRequest),
    Rule(
      name: "refundPreference", form: .word(["DECLINE", "GRANT_FULL", "GRANT_PRORATED"]),
      isRequired: false, error: .generalBadRequest),
  ]

  private static let consumptionRulesV1 = [
    Rule(name: "customerConsented", form: .consent, isRequired: true, error: .invalidCustomerConsented),
    number("consumptionStatus", 0...3, .invalidConsumptionStatus),
    number("platform", 0...2, .invalidPlatform),
    Rule(name: "sampleContentProvided", form: .bool, isRequired: false, error: .invalidSampleContentProvided),
    number("deliveryStatus", 0...5, .invalidDeliveryStatus),
    Rule(name: "appAccountToken", form: .uuid, isRequired: false, error: .invalidAppAccountToken),
    number("accountTenure", 0...7, .invalidAccountTenure),
    number("playTime", 0...7, .invalidPlayTime),
    number("lifetimeDollarsRefunded", 0...7, .invalidLifetimeDollarsRefunded),
    number("lifetimeDollarsPurchased", 0...7, .invalidLifetimeDollarsPurchased),
    number("userStatus", 0...4, .invalidUserStatus),
    number("refundPreference", 0...3, .generalBadRequest),
  ]

  private static func number(
    _ name: String, _ range: ClosedRange<Int64>, _ error: AppStoreErrorCode
  ) -> Rule {
    Rule(name: name, form: .number(range), isRequired: false, error: error)
  }
}
