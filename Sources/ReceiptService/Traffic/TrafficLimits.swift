import FoundationEssentials
import HTTP
import Logging
import Synchronization

/// The rate limiters of the client routes. There is one for the life of the process: a reload empties no bucket.
///
/// An address and a user each have the rate of `RATE_LIMIT`. A user is proven by a verified token. An address has a fifth of
/// that rate for events, which need no proof. The id of a device is only a name that any client can send, so a device has
/// no bucket: its requests count for their address, and a stranger at another address uses up none of its rate.
///
/// Costly requests that bring nothing have rates of their own: payloads with a forged signature, and unknown transaction
/// ids, each of which costs four of the requests that the App Store allows.
///
/// The webhook is not limited: what the App Store is not let say may never be said again. Only an address whose payloads
/// keep failing the verification is held up.
final class TrafficLimits: Sendable {
  private struct Tables: Sendable {
    let addresses: SharedRateTable
    let users: SharedRateTable
    /// Requests with events, by address.
    let events: SharedRateTable
    let forgeries = SharedRateTable(rate: TrafficRate(oneEach: .seconds(1), burst: 20), capacity: 8_192)
    let guesses = SharedRateTable(rate: TrafficRate(oneEach: .seconds(5), burst: 10), capacity: 8_192)
    let foreignApps = SharedRateTable(
      rate: TrafficRate(
        oneEach: .seconds(86_400) / TrafficLimits.foreignPerDay, burst: TrafficLimits.foreignPerDay),
      capacity: 8_192)

    init(perSecond count: Int) {
      addresses = SharedRateTable(rate: TrafficRate(perSecond: count))
      users = SharedRateTable(rate: TrafficRate(perSecond: count))
      events = SharedRateTable(
        rate: TrafficRate(oneEach: .seconds(5) / count, burst: max(2, 2 * count / 5)), capacity: 16_384)
    }
  }

  /// How many notifications of one app that is not configured are kept in a day.
  static let foreignPerDay = 1_000

  /// How many transaction ids that we have not seen one address may have looked up at once. Their
  /// share of the rate of each endpoint is three calls a second in the sandbox: a lookup from another address waits two
  /// turns behind them.
  private static let guessesAtOnce = 5

  private let tables: Tables?
  /// How many of these lookups are under way, by address; as many entries as requests at most.
  private let guessing = Mutex<[UInt128: Int]>([:])
  private let clock: ServiceClock
  private let logger: Logger
  private let hasWarned = Atomic(false)

  /// - Parameter perSecond: of one address or user, at least 1; nil for no limits at all.
  init(perSecond: Int?, clock: ServiceClock, logger: Logger) {
    tables = perSecond.map { Tables(perSecond: $0) }
    self.clock = clock
    self.logger = logger
  }

  /// Counts a request of its address.
  /// - Throws: ``Problem`` `rate_limited`.
  func admit(_ request: Request) throws(Problem) {
    guard let tables, let wait = tables.addresses.take(request.clientAddress.subscriberBits, at: now) else {
      return
    }
    warn(of: request)
    throw ServiceError.rateLimited(wait)
  }

  /// Counts a request with events of its address.
  /// - Throws: ``Problem`` `rate_limited`.
  func admitEvents(of request: Request) throws(Problem) {
    guard let tables, let wait = tables.events.take(request.clientAddress.subscriberBits, at: now) else {
      return
    }
    throw ServiceError.rateLimited(wait)
  }

  /// Counts a request of a user whom a verified token proves, from whichever address.
  /// - Throws: ``Problem`` `rate_limited`.
  func admit(user: UUID) throws(Problem) {
    guard let tables, let wait = tables.users.take(user, at: now) else { return }
    throw ServiceError.rateLimited(wait)
  }

  /// Holds up an address that has sent many payloads with a forged signature. Not one of a private network: such a one is
  /// a proxy that nobody has told us of, and the App Store comes through it too.
  /// - Throws: ``Problem`` `rate_limited`.
  func checkForgeries(of request: Request) throws(Problem) {
    guard let tables, !request.clientAddress.isPrivate,
      let wait = tables.forgeries.wait(request.clientAddress.subscriberBits, at: now)
    else { return }
    throw ServiceError.rateLimited(wait)
  }

  /// The request's payload is not the App Store's.
  func noteForgery(of request: Request) {
    _ = tables?.forgeries.take(request.clientAddress.subscriberBits, at: now)
  }

  /// Counts a notification of an app that is not configured; ``foreignPerDay`` of one app are kept.
  /// - Throws: ``Problem`` `rate_limited`.
  func admitForeign(_ bundleID: String) throws(Problem) {
    guard let wait = tables?.foreignApps.take(bundleID, at: now) else { return }
    throw ServiceError.rateLimited(wait)
  }

  /// Holds up an address that has asked for many transactions that nobody knows.
  /// - Throws: ``Problem`` `rate_limited`.
  func checkGuesses(of request: Request) throws(Problem) {
    guard let tables, let wait = tables.guesses.wait(request.clientAddress.subscriberBits, at: now) else {
      return
    }
    throw ServiceError.rateLimited(wait)
  }

  /// Begins the lookup of a transaction id that we have not seen, which ends with ``endGuess(of:)``.
  /// - Throws: ``Problem`` `rate_limited` where the address has several under way.
  func beginGuess(of request: Request) throws(Problem) {
    guard tables != nil else { return }
    let isAdmitted = guessing.withLock { guessing in
      let count = guessing[request.clientAddress.subscriberBits, default: 0]
      guard count < Self.guessesAtOnce else { return false }
      guessing[request.clientAddress.subscriberBits] = count + 1
      return true
    }
    guard isAdmitted else { throw ServiceError.rateLimited(.seconds(1)) }
  }

  /// The lookup has ended, whatever came of it.
  func endGuess(of request: Request) {
    guard tables != nil else { return }
    guessing.withLock { guessing in
      let count = guessing[request.clientAddress.subscriberBits, default: 1] - 1
      guessing[request.clientAddress.subscriberBits] = count > 0 ? count : nil
    }
  }

  /// The store does not know the transaction that the request asked for.
  func noteGuess(of request: Request) {
    _ = tables?.guesses.take(request.clientAddress.subscriberBits, at: now)
  }

  private var now: UInt64 { clock.uptime().nanoseconds }

  /// All clients of a proxy that we do not trust share one bucket, which its operator has to know. Said once.
  private func warn(of request: Request) {
    guard request.clientAddress == IPAddress(request.remoteAddress),
      request.headers.contains(where: \.isForwarded),
      hasWarned.compareExchange(expected: false, desired: true, ordering: .relaxed).exchanged
    else { return }
    logger.warning(
      "requests of one address are limited that seem to come through a proxy; if it is one of yours, name it",
      metadata: ["setting": "TRUSTED_PROXIES", "address": "\(request.clientAddress)"])
  }
}
