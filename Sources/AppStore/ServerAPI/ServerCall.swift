import Foundation
import HTTPTypes

/// One request of the App Store Server API, without its address and token.
struct ServerCall: Sendable {
  let endpoint: Endpoint
  let path: String
  let body: [UInt8]?

  /// - Parameters:
  ///   - path: the segments of the path, not yet encoded.
  ///   - query: names and values, not yet encoded.
  init(
    _ endpoint: Endpoint, _ path: [String], query: [(String, String)] = [], body: [UInt8]? = nil
  ) {
    let query = query.map { "\($0.percentEncoded)=\($1.percentEncoded)" }.joined(separator: "&")
    self.endpoint = endpoint
    self.path = path.map { "/\($0.percentEncoded)" }.joined() + (query.isEmpty ? "" : "?\(query)")
    self.body = body
  }

  /// Makes a request with a JSON body.
  init(
    _ endpoint: Endpoint, _ path: [String], query: [(String, String)] = [], json: some Encodable
  ) throws(AppStoreServerError) {
    do {
      self.init(endpoint, path, query: query, body: Array(try JSONEncoder().encode(json)))
    } catch {
      throw .invalidArgument("request")
    }
  }

  func request(to address: AppStoreAddress, bearer token: String) -> HTTPRequest {
    var fields: HTTPFields = [.accept: "application/json", .authorization: "Bearer \(token)"]
    fields[.userAgent] = "receiptd"
    if body != nil { fields[.contentType] = "application/json" }
    return HTTPRequest(
      method: endpoint.method, scheme: address.scheme, authority: address.authority,
      path: address.path + path,
      headerFields: fields)
  }
}

extension String {
  /// Encodes all but unreserved characters as %XX (RFC 3986, section 2.3), so that no value can end a path segment or
  /// begin a query.
  fileprivate var percentEncoded: String {
    var encoded: [UInt8] = []
    for byte in utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        encoded.append(byte)
      default:
        encoded.append(UInt8(ascii: "%"))
        encoded += Base16.string(CollectionOfOne(byte)).uppercased().utf8
      }
    }
    return String(decoding: encoded, as: UTF8.self)
  }

  /// Whether the text has the form of a transaction id: 1 to 20 digits.
  package var isTransactionID: Bool {
    (1...20).contains(utf8.count) && utf8.allSatisfy { (0x30...0x39).contains($0) }
  }

  /// Checks that the text is a transaction id.
  func asTransactionID(_ argument: String = "transactionID") throws(AppStoreServerError) -> String {
    guard isTransactionID else { throw .invalidArgument(argument) }
    return self
  }

  /// Checks that the text can be a path segment: 1 to 256 bytes, and neither `.` nor `..`.
  func asPathSegment(_ argument: String) throws(AppStoreServerError) -> String {
    guard (1...256).contains(utf8.count), self != ".", self != ".." else { throw .invalidArgument(argument) }
    return self
  }
}

/// An endpoint of the App Store Server API and its rate limit.
enum Endpoint: Hashable, Sendable, CaseIterable {
  case transactionInfo, transactionHistory, orderLookup, consumption, appAccountToken
  case subscriptionStatuses, extendRenewalDate, extendRenewalDates, extensionStatus
  case notificationHistory

  var method: HTTPRequest.Method {
    switch self {
    case .transactionInfo, .transactionHistory, .orderLookup, .subscriptionStatuses, .extensionStatus: .get
    case .consumption, .appAccountToken, .extendRenewalDate: .put
    case .extendRenewalDates, .notificationHistory: .post
    }
  }

  /// Requests per second in production, as Apple publishes them ("Identifying rate limits").
  ///
  /// Apple publishes none for the status of an extension. It gets the rate of the request for that extension, the
  /// lowest.
  var rate: Int {
    switch self {
    case .transactionInfo, .transactionHistory, .consumption, .subscriptionStatuses, .notificationHistory: 50
    case .appAccountToken, .extendRenewalDate: 20
    case .orderLookup: 10
    case .extendRenewalDates, .extensionStatus: 1
    }
  }

  /// The rate limit in an environment; the sandbox allows a tenth of production's rate.
  func allowance(in environment: Environment) -> (count: Int, window: Duration) {
    guard environment == .sandbox else { return (rate, .seconds(1)) }
    return rate >= 10 ? (rate / 10, .seconds(1)) : (1, .seconds(10) / rate)
  }

  /// Whether equal concurrent requests are coalesced. Many clients may show one transaction at the same time; pages of
  /// a history have one reader.
  var isShared: Bool { self == .transactionInfo || self == .subscriptionStatuses }

  /// Whether a request changes the state of purchases at the store.
  var changesPurchases: Bool { method != .get && self != .notificationHistory }

  /// Whether a request may be sent again after a server error, which does not tell whether the request was carried out.
  /// Apple takes a repeated extension of one subscription as another one.
  var isRepeatable: Bool { self != .extendRenewalDate }

  /// Whether the body of a success is a JSON object.
  var answersWithJSON: Bool {
    switch self {
    case .consumption, .appAccountToken: false
    default: true
    }
  }
}
