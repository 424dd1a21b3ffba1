import AppStore
import Foundation
import HTTP

/// The filter and order of a transaction history: the query of Get Transaction History.
struct HistoryFilter {
  private var startDate: Date?
  private var endDate: Date?
  private var productIDs: Set<String> = []
  private var productTypes: Set<ProductType> = []
  private var groups: Set<String> = []
  private var ownership: InAppOwnershipType?
  private var isRevoked: Bool?
  private(set) var isDescending = false

  /// - Throws: Apple's error for a wrong parameter.
  init(_ query: Query) throws(ServerAPIError) {
    startDate = try Self.date(query["startDate"], orThrow: .invalidStartDate)
    endDate = try Self.date(query["endDate"], orThrow: .invalidEndDate)
    if let startDate, let endDate, startDate >= endDate { throw .startDateAfterEndDate }
    switch query["sort"] {
    case nil, "ASCENDING": isDescending = false
    case "DESCENDING": isDescending = true
    default: throw .invalidSort
    }
    productIDs = Set(query.values(for: "productId"))
    if productIDs.contains("") { throw .invalidProductID }
    for name in query.values(for: "productType") {
      guard let type = Self.productTypes[name] else { throw .invalidProductType }
      productTypes.insert(type)
    }
    groups = Set(query.values(for: "subscriptionGroupIdentifier"))
    if groups.contains("") { throw .invalidSubscriptionGroup }
    ownership = query["inAppOwnershipType"].map(InAppOwnershipType.init(rawValue:))
    if let ownership, ![.purchased, .familyShared].contains(ownership) { throw .invalidOwnershipType }
    // Apple's Python library writes True and False.
    switch query["revoked"]?.lowercased() {
    case nil: isRevoked = nil
    case "true": isRevoked = true
    case "false": isRevoked = false
    default: throw .invalidRevoked
    }
  }

  private static let productTypes: [String: ProductType] = [
    "AUTO_RENEWABLE": .autoRenewableSubscription, "NON_RENEWABLE": .nonRenewingSubscription,
    "CONSUMABLE": .consumable, "NON_CONSUMABLE": .nonConsumable,
  ]

  private static func date(
    _ text: String?, orThrow error: ServerAPIError
  ) throws(ServerAPIError) -> Date? {
    guard let text else { return nil }
    guard let milliseconds = Int(pathParameter: text),
      let date = Date(millisecondsSince1970: Int64(milliseconds))
    else { throw error }
    return date
  }

  func includes(_ transaction: TransactionInfo) -> Bool {
    if let startDate, transaction.purchaseDate < startDate { return false }
    if let endDate, transaction.purchaseDate >= endDate { return false }
    if let isRevoked, isRevoked != (transaction.revocationDate != nil) { return false }
    if let ownership, transaction.inAppOwnershipType != ownership { return false }
    return (productIDs.isEmpty || productIDs.contains(transaction.productId))
      && (productTypes.isEmpty || transaction.type.map(productTypes.contains) == true)
      && (groups.isEmpty || transaction.subscriptionGroupIdentifier.map(groups.contains) == true)
  }
}
