import Foundation

@testable import ReceiptdClient

#if canImport(CryptoKit)
import CryptoKit
#else
import Crypto
#endif

struct Features: Codable, Sendable, Hashable {
  var history: Limit
  var insights: Bool

  static let free = Features(history: 30, insights: false)
  static let premium = Features(history: .unlimited, insights: true)
}

/// A small receiptd in memory, with faults that a test chooses.
final class ScriptedServer: Transport {
  /// What happens to one request.
  enum Fault: Sendable {
    /// It does not arrive.
    case lostRequest
    /// It arrives, and its response does not.
    case lostResponse
    /// Its response is cut in half.
    case cutResponse
    /// Another response, such as a proxy's; the request does not arrive.
    case response(TransportResponse)
  }

  struct Access: Sendable {
    var tier: String?
    var status = "expired"
    var isGranted = false
    var features = Features.free
    var validUntil: Date?
    var exp: Date?
    var everHadAccess = false
    var pairing: Pairing?
  }

  private struct State: Sendable {
    var keys = [Curve25519.Signing.PrivateKey()]
    var published = [0]
    var access: [String: Access] = [:]
    var requests: [TransportRequest] = []
    var faults: [(path: String, fault: Fault)] = []
    var isDown = false
    var purchases: [String: String] = [:]
    var events: [UUID] = []
    var secrets: [String: String] = [:]
    var running: [String: Int] = [:]
    var mostRunning: [String: Int] = [:]
    var gate: AsyncStream<Void>?
    var hasToken = true
    var offset: TimeInterval = 0
    var tokens: Set<String> = []
    var checksTokens = false
  }

  static let bundleID = "com.example.app"
  private let state = Protected(State())
  let clock: TestClock
  private let epoch: Date

  init(clock: TestClock) {
    self.clock = clock
    epoch = clock.wall()
  }

  // MARK: What a test sets

  var requests: [TransportRequest] { state.with { $0.requests } }
  func requests(_ path: String) -> Int { requests.filter { $0.url.path.hasSuffix(path) }.count }
  var events: [UUID] { state.with { $0.events } }
  var purchases: [String: String] { state.with { $0.purchases } }
  func mostRunning(_ path: String) -> Int { state.with { $0.mostRunning[path] ?? 0 } }
  func isDown(_ value: Bool) { state.with { $0.isDown = value } }
  func hasToken(_ value: Bool) { state.with { $0.hasToken = value } }
  func next(_ path: String, _ fault: Fault) { state.with { $0.faults.append((path, fault)) } }
  func accept(tokens: Set<String>) {
    state.with {
      $0.tokens = tokens
      $0.checksTokens = true
    }
  }
  func secret(of device: String, _ value: String?) { state.with { $0.secrets[device] = value } }
  func secret(of device: String) -> String? { state.with { $0.secrets[device] } }
  /// Holds all requests until the stream ends.
  func hold(until stream: AsyncStream<Void>?) { state.with { $0.gate = stream } }
  /// Moves the server's clock.
  func offset(_ seconds: TimeInterval) { state.with { $0.offset = seconds } }

  func grant(_ customer: Customer, until: Date? = nil, exp: Date? = nil, features: Features = .premium) {
    state.with {
      $0.access[customer.id] = Access(
        tier: "premium", status: "active", isGranted: true, features: features, validUntil: until, exp: exp,
        everHadAccess: true)
    }
  }
  func set(_ customer: Customer, _ access: Access) { state.with { $0.access[customer.id] = access } }

  /// A new signing key; a leaked one is withdrawn.
  func rotate(isLeaked: Bool) {
    state.with {
      $0.keys.append(Curve25519.Signing.PrivateKey())
      $0.published = (isLeaked ? [] : $0.published) + [$0.keys.count - 1]
    }
  }

  /// Until when the server's tokens are valid, by default.
  static let grace: TimeInterval = 7 * 86_400

  var now: Date { state.with { now($0) } }
  private func now(_ state: State) -> Date { epoch + honest + state.offset }
  private let extra = Protected(TimeInterval(0))
  private var honest: TimeInterval { extra.with { $0 } }
  /// Lets honest time pass for the device and the server.
  func pass(_ seconds: TimeInterval) {
    extra.with { $0 += seconds }
    clock.advance(seconds)
  }
  /// Lets time pass for the server while the device is off.
  func passOff(_ seconds: TimeInterval) {
    extra.with { $0 += seconds }
    clock.reboot(after: seconds)
  }

  func token(
    _ customer: String, access: Access, signedBy key: Int? = nil, iat: Date? = nil,
    change: (inout [String: Any]) -> Void = { _ in }
  ) -> String {
    let (keys, published, now) = state.with { ($0.keys, $0.published, self.now($0)) }
    let number = key ?? published.last ?? 0
    let at = iat ?? now
    var claims: [String: Any] = [
      "iss": "receiptd", "aud": Self.bundleID, "sub": customer, "status": access.status,
      "isAccessGranted": access.isGranted, "iat": Int(at.timeIntervalSince1970),
      "exp": Int((access.exp ?? at + Self.grace).timeIntervalSince1970),
    ]
    claims["tier"] = access.tier ?? NSNull()
    claims["validUntil"] = access.validUntil.map { Int($0.timeIntervalSince1970) }
    let features = (try? JSONEncoder().encode(access.features)) ?? Data()
    claims["features"] = (try? JSONSerialization.jsonObject(with: features)) ?? [:]
    change(&claims)
    let payload = (try? JSONSerialization.data(withJSONObject: claims)) ?? Data()
    let header = Data(#"{"alg":"EdDSA","kid":"key-\#(number)","typ":"JWT"}"#.utf8)
    let text = "\(Base64URL.string(header)).\(Base64URL.string(payload))"
    let signature = (try? keys[number].signature(for: Data(text.utf8))) ?? Data()
    return "\(text).\(Base64URL.string(signature))"
  }

  static func problem(_ status: Int, _ code: String, headers: [String: String] = [:]) -> TransportResponse {
    let body =
      #"{"type":"about:blank","title":"t","status":\#(status),"detail":"d","code":"\#(code)","success":false,"error":"A sentence.","requestID":"r1"}"#
    return TransportResponse(
      status: status, headers: headers.merging(["Content-Type": "application/problem+json"]) { $1 },
      body: Data(body.utf8))
  }

  // MARK: Requests

  func send(_ request: TransportRequest) async throws -> TransportResponse {
    let path = request.url.path
    let kind = request.url.lastPathComponent
    let (isDown, fault, gate) = state.with { state -> (Bool, Fault?, AsyncStream<Void>?) in
      state.requests.append(request)
      state.running[kind, default: 0] += 1
      state.mostRunning[kind] = max(state.mostRunning[kind] ?? 0, state.running[kind] ?? 0)
      var fault: Fault?
      if let index = state.faults.firstIndex(where: { path.hasSuffix($0.path) }) {
        fault = state.faults.remove(at: index).fault
      }
      return (state.isDown, fault, state.gate)
    }
    defer { state.with { $0.running[kind, default: 1] -= 1 } }
    if let gate { for await _ in gate {} }
    if isDown { throw URLError(.notConnectedToInternet) }
    switch fault {
    case .lostRequest: throw URLError(.timedOut)
    case .response(let response): return response
    case .lostResponse:
      _ = answer(request, path)
      throw URLError(.networkConnectionLost)
    case .cutResponse:
      var response = answer(request, path)
      response.body = response.body.prefix(response.body.count / 2)
      return response
    case nil: return answer(request, path)
    }
  }

  private func answer(_ request: TransportRequest, _ path: String) -> TransportResponse {
    let encoded = request.url.absoluteString.split(separator: "?")[0].split(separator: "/").dropFirst(2)
    let parts = encoded.map { $0.removingPercentEncoding ?? "" }
    let body =
      request.body.flatMap { try? JSONSerialization.jsonObject(with: $0) as? [String: Any] } ?? [:]
    if path == "/.well-known/jwks.json" { return keySet }
    if parts.last == "events" {
      let ids = (body["events"] as? [[String: Any]] ?? []).compactMap {
        ($0["id"] as? String).flatMap(UUID.init)
      }
      state.with { state in
        for id in ids where !state.events.contains(id) { state.events.append(id) }
      }
      return Self.json(202, ["success": true, "accepted": ids.count])
    }
    var customer = body["deviceID"] as? String
    if parts.count > 3, ["devices", "profiles"].contains(parts[2]) { customer = parts[3] }
    if let refused = refusal(of: request, device: parts[2] == "profiles" ? nil : customer, body) {
      return refused
    }
    let bearer = request.headers["Authorization"]?.dropFirst("Bearer ".count)
    let id = customer ?? bearer.map { String($0.split(separator: "|").first ?? "") } ?? ""
    switch parts.last {
    case "validate", "premium":
      let shown =
        (body["signedTransactions"] as? [String] ?? [])
        + [body["signedTransaction"] as? String].compactMap { $0 }
      state.with { state in
        for transaction in shown {
          state.purchases[transaction] = id
          if state.access[id]?.isGranted != true {
            state.access[id] = Access(
              tier: "premium", status: "active", isGranted: true, features: .premium, everHadAccess: true)
          }
        }
      }
      return entitlements(of: id)
    case "entitlements": return entitlements(of: id)
    case "trials":
      return entitlements(
        of: id, adding: ["trial": ["startedAt": "2027-01-01T00:00:00Z", "endsAt": "2027-01-31T00:00:00Z"]])
    case "pairing-codes":
      return Self.json(201, ["success": true, "code": "7KQ4-M2XD", "expiresAt": "2027-01-01T00:10:00Z"])
    case "parent":
      state.with { $0.access[id, default: Access()].pairing = Pairing() }
      return Self.json(201, ["success": true, "pairing": ["role": "child", "state": "active"]])
    case "children":
      return Self.json(
        200,
        [
          "success": true, "limit": 5,
          "children": [["childDeviceID": "C 1", "pairedAt": "2027-01-01T00:00:00Z", "status": "active"]],
        ])
    case "consent":
      return Self.json(200, ["success": true, "consent": true, "since": "2027-01-01T00:00:00Z"])
    default:
      return parts.contains("children") && request.method == "DELETE"
        ? Self.json(200, ["success": true, "children": [], "limit": 5]) : Self.problem(404, "not_found")
    }
  }

  private func refusal(of request: TransportRequest, device: String?, _ body: [String: Any])
    -> TransportResponse?
  {
    state.with { state in
      if let device {
        let given = request.headers["Receiptd-Device-Secret"]
        let isProof = body["signedTransaction"] != nil || body["signedAppTransaction"] != nil
        if state.secrets[device] == nil || isProof { state.secrets[device] = given }
        return state.secrets[device] == given
          ? nil : Self.problem(401, "unauthenticated", headers: ["WWW-Authenticate": "DeviceSecret"])
      }
      guard state.checksTokens else { return nil }
      let token = request.headers["Authorization"].map { String($0.dropFirst("Bearer ".count)) }
      return state.tokens.contains(token ?? "")
        ? nil
        : Self.problem(
          401, "unauthenticated", headers: ["WWW-Authenticate": "Bearer error=\"invalid_token\""])
    }
  }

  private var keySet: TransportResponse {
    let keys = state.with { state in
      state.published.map { number in
        [
          "kty": "OKP", "crv": "Ed25519", "kid": "key-\(number)",
          "x": Base64URL.string(state.keys[number].publicKey.rawRepresentation),
        ]
      }
    }
    return Self.json(200, ["keys": keys])
  }

  private func entitlements(of id: String, adding more: [String: Any] = [:]) -> TransportResponse {
    let (access, hasToken) = state.with { ($0.access[id] ?? Access(), $0.hasToken) }
    var answer: [String: Any] = more
    answer["success"] = true
    answer["entitlements"] = [
      "entitlementToken": (hasToken ? token(id, access: access) : NSNull()) as Any,
      "everHadAccess": access.everHadAccess,
      // Unsigned members promise more than the token: nothing of them may be believed.
      "isAccessGranted": true, "tier": "forged", "features": ["history": NSNull(), "insights": true],
    ]
    if let pairing = access.pairing {
      answer["pairing"] = [
        "role": pairing.role, "state": pairing.state, "reason": pairing.reason as Any? ?? NSNull(),
      ]
    }
    return Self.json(200, answer)
  }

  private static func json(_ status: Int, _ value: [String: Any]) -> TransportResponse {
    TransportResponse(
      status: status, headers: ["Content-Type": "application/json"],
      body: (try? JSONSerialization.data(withJSONObject: value)) ?? Data())
  }
}

/// A client with a scripted server, a clock and stores that a test holds.
struct Device {
  let clock: TestClock
  let server: ScriptedServer
  let store = MemoryStore()
  let queues = MemoryStore()
  /// The access tokens that the app returns; `refresh` moves to the next one.
  let tokens = Protected<[String]>([])

  init(clock: TestClock = TestClock(), server: ScriptedServer? = nil) {
    self.clock = clock
    self.server = server ?? ScriptedServer(clock: clock)
  }

  /// A launch of the app.
  func launch(
    verdict: (@Sendable (Customer) async -> DeviceVerdict<Features>?)? = nil,
    change: (inout ReceiptdConfiguration) -> Void = { _ in }
  ) -> Receiptd<Features> {
    var configuration = ReceiptdConfiguration(
      server: URL(string: "https://receipts.example.com/") ?? URL(fileURLWithPath: "/"),
      bundleID: ScriptedServer.bundleID)
    configuration.transport = server
    configuration.store = store
    configuration.queues = queues
    configuration.clock = clock
    configuration.random = { 0.5 }
    change(&configuration)
    let tokens = tokens
    return Receiptd(
      configuration, free: .free,
      token: { refresh in
        tokens.with { tokens in
          if refresh, tokens.count > 1 { tokens.removeFirst() }
          return tokens.first
        }
      }, deviceVerdict: verdict)
  }
}

/// The parts of a client that only tests use.
extension Receiptd {
  /// A purchase in the queue.
  struct Waiting: Sendable {
    let customer: Customer
    let body: String
  }

  func enter(_ customer: Customer) async { await core.enter(customer) }
  func step() async -> TimeInterval { await core.step() }
  var proofs: [Waiting] { get async { await core.waiting.map { Waiting(customer: $0, body: $1) } } }
  var events: EventQueue { get async { await core.events } }
  var isRunning: Bool { get async { await core.isRunning } }
}

extension Core {
  fileprivate var waiting: [(Customer, String)] { proofs.map { ($0.customer, $0.body) } }
}

/// Runs a call that must throw a `ReceiptdError`.
func failure<R>(_ body: () async throws -> R) async throws -> ReceiptdError {
  do {
    _ = try await body()
  } catch let error as ReceiptdError {
    return error
  }
  throw NoFailure()
}

struct NoFailure: Error {}
