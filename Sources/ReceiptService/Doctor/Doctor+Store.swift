import AppStore
import Curl
import FoundationEssentials
import HTTPTypes
import Subscriptions
import Synchronization

import enum HTTP.RFC3339

extension Doctor {
  /// Asks the App Store Server API of each app that has a key about a transaction that nobody has: the answer that it
  /// is not found proves that the key is taken.
  func store(_ settings: Settings, _ catalog: AppCatalog) async -> [Finding] {
    let client = CurlClient(configuration: CurlConfiguration(userAgent: "receiptd"))
    let transport = DateReadingTransport(transport: CurlTransport(client: client), clock: clock)
    var findings: [Finding] = []
    for app in catalog.apps {
      // A key of the app's own that cannot be read was reported with the app.
      let credentials =
        app.storeKey.map { key in
          try? AppStoreCredentials(
            file: key.file, keyID: key.keyID, issuerID: key.issuerID, setting: "appStore.key")
        } ?? settings.storeCredentials
      guard let credentials else { continue }
      let api = AppStoreServerAPI(
        transport: transport, credentials: credentials, bundleID: app.bundleID,
        production: settings.storeAddresses.production, sandbox: settings.storeAddresses.sandbox,
        timeout: .seconds(5))
      findings += await store(app, api)
    }
    if findings.isEmpty {
      findings.append(
        .ok("App Store key", "none is configured: bare transaction ids and reconciling are off"))
    }
    if let answer = transport.last.withLock({ $0 }) {
      findings.append(
        clockFinding(
          answer.date, "the App Store's", askedAt: answer.askedAt, answeredAt: answer.answeredAt,
          // `Date` has whole seconds.
          resolution: 1))
    }
    await client.shutDown()
    return findings
  }

  private func store(_ app: App, _ api: AppStoreServerAPI) async -> [Finding] {
    var findings: [Finding] = []
    var sandboxTakesKey = false
    // The sandbox first: it knows apps that were never released.
    for environment in [StoreEnvironment.sandbox, .production] where app.environments.contains(environment) {
      let subject = "App Store key of \(app.bundleID), \(environment.rawValue)"
      do throws(AppStoreServerError) {
        _ = try await api.transactionInfo(
          "1", in: Environment(rawValue: environment.rawValue))
        findings.append(.ok(subject, "taken"))
      } catch {
        findings.append(finding(subject, error, isProven: sandboxTakesKey))
      }
      if environment == .sandbox { sandboxTakesKey = findings.last?.isWell ?? false }
    }
    return findings
  }

  private func finding(_ subject: String, _ error: AppStoreServerError, isProven: Bool) -> Finding {
    let wrongKey =
      "check APP_STORE_KEY_ID, APP_STORE_ISSUER_ID and that the key is an In-App Purchase key, not revoked"
    switch error {
    case .rejected(let rejection) where rejection.status == 404 || rejection.status == 400:
      return .ok(subject, "taken")
    case .rejected(let rejection) where rejection.status == 401:
      return .fail(subject, "not taken (401)", wrongKey)
    case .unauthorizedWithoutJSON where isProven:
      return .ok(
        subject,
        "the sandbox takes the key; production answers 401, as it does for an app that was never released")
    case .unauthorizedWithoutJSON: return .fail(subject, "not taken (401)", wrongKey)
    case .rejected(let rejection):
      return .fail(
        subject, "answered \(rejection.status) \(rejection.message ?? "")", "try again in a few minutes")
    case .transport(let reason):
      return .fail(subject, "cannot be reached: \(reason)", "check the network, the proxy and APP_STORE_URL")
    default: return .fail(subject, "\(error)", "check APP_STORE_URL and APP_STORE_SANDBOX_URL")
    }
  }
}

/// Notes the clock of whoever answers.
private final class DateReadingTransport: HTTPTransport {
  struct Answer {
    var date: Date
    var askedAt: Date
    var answeredAt: Date
  }

  private let transport: CurlTransport
  private let clock: ServiceClock
  let last = Mutex<Answer?>(nil)

  init(transport: CurlTransport, clock: ServiceClock) {
    self.transport = transport
    self.clock = clock
  }

  func send(
    _ request: HTTPRequest, body: [UInt8]?, timeout: Duration
  ) async throws -> (HTTPResponse, [UInt8]) {
    let before = clock.now()
    let answer = try await transport.send(request, body: body, timeout: timeout)
    let after = clock.now()
    if let field = answer.0.headerFields[.date], let date = Date(httpDate: field) {
      last.withLock { $0 = Answer(date: date, askedAt: before, answeredAt: after) }
    }
    return answer
  }
}

extension Date {
  /// A date as `Date` has it (RFC 9110 section 5.6.7, IMF-fixdate): `Sun, 06 Nov 1994 08:49:37 GMT`.
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
