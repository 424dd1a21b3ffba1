import AppStore
import Configuration
import Curl
import Deliveries
import Foundation
import HTTPTypes
import Subscriptions
import Synchronization
import Work

import enum HTTP.RFC3339

extension Doctor {
  /// Requests a transaction that does not exist, for each app with a key. A response that it was not found proves that
  /// the App Store accepts the key.
  func store(_ settings: Settings, _ catalog: AppCatalog) async -> [CheckResult] {
    let client = CurlClient(configuration: CurlConfiguration(userAgent: "receiptd"))
    let transport = DateReadingTransport(transport: CurlTransport(client: client), clock: clock)
    var results: [CheckResult] = []
    for app in catalog.apps {
      // The check of the app has reported an unreadable key.
      let credentials =
        app.storeKey.map { key in
          try? AppStoreCredentials(
            file: key.file, keyID: key.keyID, issuerID: key.issuerID, setting: "appStore.key")
        } ?? settings.storeCredentials
      guard let credentials else {
        if app.refundAnswers != .none || app.tellsAccountToken {
          results.append(
            .fail(
              "App Store key of \(app.bundleID)",
              "none is configured, and refundAnswers or tellAccountToken needs one",
              "set APP_STORE_KEY, APP_STORE_KEY_ID and APP_STORE_ISSUER_ID, or the app's appStore"))
        }
        continue
      }
      let api = AppStoreServerAPI(
        transport: transport, credentials: credentials, bundleID: app.bundleID,
        production: settings.storeAddresses.production, sandbox: settings.storeAddresses.sandbox,
        requestTimeout: .seconds(5))
      results += await store(app, api)
    }
    if results.isEmpty {
      results.append(
        .ok(
          "App Store key",
          "none is configured, so lookups by transaction id and reconciliation are off, and "
            + "old proofs of purchases cannot be checked for a refund"))
    }
    if let response = transport.last.withLock({ $0 }) {
      results.append(
        checkClock(
          response.date, of: "App Store", askedAt: response.askedAt, answeredAt: response.answeredAt,
          // The header `Date` has whole seconds.
          resolution: 1))
    }
    await client.shutDown()
    return results
  }

  private func store(_ app: App, _ api: AppStoreServerAPI) async -> [CheckResult] {
    var results: [CheckResult] = []
    var isAcceptedBySandbox = false
    // The sandbox comes first, because it knows apps that were never released.
    for environment in [StoreEnvironment.sandbox, .production] where app.environments.contains(environment) {
      let subject = "App Store key of \(app.bundleID), \(environment.rawValue)"
      do throws(AppStoreServerError) {
        _ = try await api.transactionInfo(
          "1", in: Environment(rawValue: environment.rawValue))
        results.append(.ok(subject, "accepted"))
      } catch {
        results.append(check(subject, error, isAcceptedBySandbox: isAcceptedBySandbox))
      }
      if environment == .sandbox { isAcceptedBySandbox = results.last?.isOK ?? false }
    }
    return results
  }

  private func check(_ subject: String, _ error: AppStoreServerError, isAcceptedBySandbox: Bool)
    -> CheckResult
  {
    let wrongKey =
      "if the clock is right, check APP_STORE_KEY_ID, APP_STORE_ISSUER_ID and that the key is an In-App Purchase key, not revoked"
    switch error {
    case .rejected(let rejection) where rejection.status == 404 || rejection.status == 400:
      return .ok(subject, "accepted")
    case .rejected(let rejection) where rejection.status == 401:
      return .fail(subject, "not accepted (401)", wrongKey)
    case .unauthorizedWithoutJSON where isAcceptedBySandbox:
      return .ok(
        subject,
        "the sandbox accepts the key; production answers 401, as it does for an app that was never released "
          + "(if the app is released, check again in a minute)")
    case .unauthorizedWithoutJSON: return .fail(subject, "not accepted (401)", wrongKey)
    case .rejected(let rejection):
      return .fail(
        subject, "answered \(rejection.status) \(rejection.message ?? "")", "try again in a few minutes")
    case .transport:
      return .fail(subject, error.reason, "check the network, the proxy and APP_STORE_URL")
    default: return .fail(subject, error.reason, "check APP_STORE_URL and APP_STORE_SANDBOX_URL")
    }
  }
}

/// A transport that records the date of the last response.
private final class DateReadingTransport: HTTPTransport {
  struct DatedResponse {
    var date: Date
    var askedAt: Date
    var answeredAt: Date
  }

  private let transport: CurlTransport
  private let clock: ServiceClock
  let last = Mutex<DatedResponse?>(nil)

  init(transport: CurlTransport, clock: ServiceClock) {
    self.transport = transport
    self.clock = clock
  }

  func send(
    _ request: HTTPRequest, body: [UInt8]?, timeout: Duration
  ) async throws -> (HTTPResponse, [UInt8]) {
    let before = clock.now()
    let response = try await transport.send(request, body: body, timeout: timeout)
    let after = clock.now()
    if let field = response.0.headerFields[.date], let date = Date(httpDate: field) {
      last.withLock { $0 = DatedResponse(date: date, askedAt: before, answeredAt: after) }
    }
    return response
  }
}

extension Date {
  /// Parses the header `Date` (RFC 9110 section 5.6.7, IMF-fixdate): `Sun, 06 Nov 1994 08:49:37 GMT`.
  init?(httpDate text: String) {
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    let bytes = Array(text.utf8)
    func part(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
    guard bytes.count == 29, part(25..<29) == " GMT",
      let month = months.firstIndex(of: part(8..<11)).map({ $0 + 1 }),
      let date = RFC3339.date(
        from: "\(part(12..<16))-\(month < 10 ? "0" : "")\(month)-\(part(5..<7))T\(part(17..<25))Z")
    else { return nil }
    self = date
  }
}
