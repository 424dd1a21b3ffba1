import FoundationEssentials
import JSON

extension RealtimeRequest: JSONReadable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case originalTransactionId, appAppleId, productId, userLocale, requestIdentifier, signedDate, environment
  }

  private static let names = JSONNames<CodingKeys>()

  /// Reads the object; members that it does not know are passed over.
  public init(reading json: inout JSONReader) throws(JSONFailure) {
    self.init(
      originalTransactionId: "", appAppleId: 0, productId: "", userLocale: "", requestIdentifier: UUID(),
      signedDate: .distantPast, environment: Environment(rawValue: ""))
    var members = try json.members(of: Self.names)
    while let member = try members.next(in: &json) {
      switch member {
      case .originalTransactionId: originalTransactionId = try json.read()
      case .appAppleId: appAppleId = try json.read()
      case .productId: productId = try json.read()
      case .userLocale: userLocale = try json.read()
      case .requestIdentifier: requestIdentifier = try json.uuid()
      case .signedDate: signedDate = try json.milliseconds()
      case .environment: environment = try json.read()
      }
    }
    try members.require(
      .originalTransactionId, .appAppleId, .productId, .userLocale, .requestIdentifier, .signedDate,
      .environment)
  }
}
