import FoundationEssentials

/// Apple's question which retention message to show (`DecodedRealtimeRequestBody`). All fields are required.
public struct RealtimeRequest: SignedPayload {
  /// The subscription that the customer is about to cancel.
  public var originalTransactionId: String
  /// Apple's number of the app.
  public var appAppleId: Int64
  /// The product.
  public var productId: String
  /// The customer's locale.
  public var userLocale: String
  /// The request.
  public var requestIdentifier: UUID
  /// When Apple signed it.
  @Milliseconds public var signedDate: Date
  /// Where it happens.
  public var environment: Environment

  /// A request with all its fields.
  public init(
    originalTransactionId: String, appAppleId: Int64, productId: String, userLocale: String,
    requestIdentifier: UUID, signedDate: Date, environment: Environment
  ) {
    self.originalTransactionId = originalTransactionId
    self.appAppleId = appAppleId
    self.productId = productId
    self.userLocale = userLocale
    self.requestIdentifier = requestIdentifier
    self.signedDate = signedDate
    self.environment = environment
  }

  /// `signedDate`.
  public var signedAt: Date { signedDate }
}
