import Foundation
import HTTP
import Logging
import Platform
import Synchronization
import Work

/// The rate limiters of the client routes. They outlive a reload, so that it does not refill their buckets.
///
/// An address and a user with a verified token each have the rate of `RATE_LIMIT`. Events need no proof, so an address
/// has a fifth of that rate for them. An IPv6 address is its /64, and its /48 has a larger bucket (``AddressLimiter``).
/// A device has no bucket, because any client can send its id: its requests count for their address, and requests from
/// other addresses do not use up its rate.
///
/// Requests that fail have limits of their own: payloads with a forged signature, unknown tokens of the support API,
/// and unknown transaction ids. An unknown id costs four requests of the App Store's quota.
///
/// The webhook has no general limit, because the App Store may not send a refused notification again. It
/// refuses an address that keeps sending forged payloads, and notifications of an unconfigured app beyond 1,000 a day.
package final class ClientRateLimits: Sendable {
  private struct Limiters: Sendable {
    let addresses: AddressLimiter
    let users: RateLimiter<UUID>
    /// Requests with events, by address.
    let events: AddressLimiter
    let forgeries = AddressLimiter(rate: RequestRate(oneEach: .seconds(1), burst: 20), capacity: 8_192)
    let unknownTransactions = AddressLimiter(
      rate: RequestRate(oneEach: .seconds(5), burst: 10), capacity: 8_192)
    /// Wrong pairing codes, by app.
    let wrongCodes = RateLimiter<String>(
      rate: RequestRate(
        oneEach: .seconds(86_400) / ClientRateLimits.wrongCodesPerDay,
        burst: ClientRateLimits.wrongCodesAtOnce),
      capacity: 8_192)
    let signIns = AddressLimiter(rate: RequestRate(oneEach: .seconds(5), burst: 20), capacity: 8_192)
    let foreignApps = RateLimiter<String>(
      rate: RequestRate(
        oneEach: .seconds(86_400) / ClientRateLimits.foreignPerDay, burst: ClientRateLimits.foreignPerDay),
      capacity: 8_192)

    init(perSecond count: Int) {
      addresses = AddressLimiter(rate: RequestRate(perSecond: count))
      users = RateLimiter(rate: RequestRate(perSecond: count))
      events = AddressLimiter(
        rate: RequestRate(oneEach: .seconds(5) / count, burst: max(2, 2 * count / 5)), capacity: 16_384)
    }
  }

  /// The bytes of a receipt's base64 that count as one request; about ten purchases.
  static let receiptUnit = 8 << 10

  /// The number of notifications a day that are kept for one app that is not configured.
  static let foreignPerDay = 1_000

  /// The number of wrong pairing codes of an app that a server looks up in a day, from all addresses together. With
  /// 1,000 open codes so many guesses find one of the 31^8 codes in 850 days.
  static let wrongCodesPerDay = 1_000_000

  /// The number of them that it looks up at once.
  static let wrongCodesAtOnce = 10_000

  /// The number of concurrent lookups of unknown transaction ids from one address. Lookups may make three requests a
  /// second to each endpoint of the sandbox, so a lookup from another address waits at most two seconds.
  private static let maximumConcurrentLookups = 5

  private let limiters: Limiters?
  /// The number of concurrent lookups by address and by IPv6 network. The number of requests bounds it.
  private let lookups = Mutex<[UInt128: Int]>([:])
  private let clock: ServiceClock
  private let logger: Logger
  private let hasWarned = Atomic(false)

  /// - Parameter perSecond: the requests of one address or user, at least 1; `nil` for no limits.
  package init(perSecond: Int?, clock: ServiceClock, logger: Logger) {
    limiters = perSecond.map { Limiters(perSecond: $0) }
    self.clock = clock
    self.logger = logger
  }

  /// Counts a request for its address.
  /// - Throws: ``Problem`` `rate_limited`.
  package func admit(_ request: Request) throws(Problem) {
    guard let limiters, let wait = limiters.addresses.take(request.clientAddress, at: now)
    else {
      return
    }
    warn(of: request)
    throw ServiceError.rateLimited(wait)
  }

  /// Counts a request with events for its address.
  /// - Throws: ``Problem`` `rate_limited`.
  package func admitEvents(of request: Request) throws(Problem) {
    guard let limiters, let wait = limiters.events.take(request.clientAddress, at: now) else {
      return
    }
    throw ServiceError.rateLimited(wait)
  }

  /// Counts a request of a user with a verified token, from any address.
  /// - Throws: ``Problem`` `rate_limited`.
  package func admit(user: UUID) throws(Problem) {
    guard let limiters, let wait = limiters.users.take(user, at: now) else { return }
    throw ServiceError.rateLimited(wait)
  }

  /// Counts the further proofs of a request, for its address and its user: each is verified. The first one was counted
  /// with the request. A client with more purchases than the burst is served, and waits before its next request.
  /// - Throws: ``Problem`` `rate_limited`.
  package func admit(proofs: Int, of request: Request, by user: UUID) throws(Problem) {
    guard let limiters, proofs > 1 else { return }
    guard
      let wait = limiters.addresses.take(request.clientAddress, cost: proofs - 1, at: now)
        ?? limiters.users.take(user, cost: proofs - 1, at: now)
    else { return }
    throw ServiceError.rateLimited(wait)
  }

  /// Counts a legacy receipt as a request for each ``receiptUnit``, for its address: anyone can make one that is expensive
  /// to parse. The first unit was counted with the request.
  /// - Throws: ``Problem`` `rate_limited`.
  package func admit(receiptOf length: Int, of request: Request) throws(Problem) {
    let units = length / Self.receiptUnit
    guard units > 0, let wait = limiters?.addresses.take(request.clientAddress, cost: units, at: now) else {
      return
    }
    throw ServiceError.rateLimited(wait)
  }

  /// Refuses an address that has sent many payloads with a forged signature. A private address is exempt: it is a proxy
  /// that is missing in `TRUSTED_PROXIES`, and the App Store's requests come through it too.
  /// - Throws: ``Problem`` `rate_limited`.
  package func checkForgeries(of request: Request) throws(Problem) {
    guard let limiters, !request.clientAddress.isPrivate,
      let wait = limiters.forgeries.wait(request.clientAddress, at: now)
    else { return }
    throw ServiceError.rateLimited(wait)
  }

  /// Counts a payload whose signature is forged, or a body that cannot be read.
  package func noteForgery(of request: Request) {
    _ = limiters?.forgeries.take(request.clientAddress, at: now)
  }

  /// Counts a notification of an app that is not configured; ``foreignPerDay`` of one app are kept.
  /// - Throws: ``Problem`` `rate_limited`.
  package func admitForeign(_ bundleID: String) throws(Problem) {
    guard let wait = limiters?.foreignApps.take(bundleID, at: now) else { return }
    throw ServiceError.rateLimited(wait)
  }

  /// Counts a notification of version 1, which anyone can send: they have no signature, and name no app. They count
  /// together as those of one app that is not configured. The App Store's addresses send other notifications too.
  /// - Throws: ``Problem`` `rate_limited`.
  package func admitVersion1() throws(Problem) { try admitForeign("version 1") }

  /// Refuses an address that has sent many unknown transaction ids.
  /// - Throws: ``Problem`` `rate_limited`.
  package func checkGuesses(of request: Request) throws(Problem) {
    guard let limiters,
      let wait = limiters.unknownTransactions.wait(request.clientAddress, at: now)
    else {
      return
    }
    throw ServiceError.rateLimited(wait)
  }

  /// Begins the lookup of an unknown transaction id; ``endGuess(of:)`` ends it.
  /// - Throws: ``Problem`` `rate_limited` if the address, or its IPv6 network, has too many concurrent lookups.
  package func beginGuess(of request: Request) throws(Problem) {
    guard limiters != nil else { return }
    let places = Self.places(of: request.clientAddress)
    let isAdmitted = lookups.withLock { lookups in
      guard places.allSatisfy({ lookups[$0.key, default: 0] < $0.most }) else { return false }
      for place in places { lookups[place.key, default: 0] += 1 }
      return true
    }
    guard isAdmitted else { throw ServiceError.rateLimited(.seconds(1)) }
  }

  /// Ends a lookup.
  package func endGuess(of request: Request) {
    guard limiters != nil else { return }
    lookups.withLock { lookups in
      for place in Self.places(of: request.clientAddress) {
        let count = lookups[place.key, default: 1] - 1
        lookups[place.key] = count > 0 ? count : nil
      }
    }
  }

  /// The keys under which a lookup is counted, with the most concurrent lookups of each.
  private static func places(of address: IPAddress) -> [(key: UInt128, most: Int)] {
    let subscriber = (key: address.subscriberBits, most: maximumConcurrentLookups)
    guard let network = address.networkBits else { return [subscriber] }
    // The lowest bit of a subscriber's key is 0, so the two kinds of keys differ.
    return [subscriber, (key: network | 1, most: maximumConcurrentLookups * AddressLimiter.multiple)]
  }

  /// Counts a lookup of a transaction that the App Store does not know.
  package func noteGuess(of request: Request) {
    _ = limiters?.unknownTransactions.take(request.clientAddress, at: now)
  }

  /// Counts a pairing code before it is looked up, so that codes that are sent at once are counted too;
  /// ``endCode(of:_:)`` takes back a right one. Refuses an address that has sent many wrong pairing codes or unknown
  /// transaction ids, and every address while an app's codes are guessed at more than ``wrongCodesPerDay``.
  /// - Throws: ``Problem`` `rate_limited`.
  package func beginCode(of bundleID: String, _ request: Request) throws(Problem) {
    guard let limiters else { return }
    if let wait = limiters.unknownTransactions.take(request.clientAddress, at: now) {
      throw ServiceError.rateLimited(wait)
    }
    guard let wait = limiters.wrongCodes.take(bundleID, at: now) else { return }
    limiters.unknownTransactions.giveBack(request.clientAddress)
    throw ServiceError.rateLimited(wait)
  }

  /// Takes back a pairing code that is right, or that was not looked up.
  package func endCode(of bundleID: String, _ request: Request) {
    limiters?.unknownTransactions.giveBack(request.clientAddress)
    limiters?.wrongCodes.giveBack(bundleID)
  }

  /// Refuses an address that has sent many unknown tokens to the support API.
  /// - Throws: ``Problem`` `rate_limited`.
  package func checkSignIns(of request: Request) throws(Problem) {
    guard let limiters, let wait = limiters.signIns.wait(request.clientAddress, at: now) else {
      return
    }
    throw ServiceError.rateLimited(wait)
  }

  /// Counts an unknown token.
  package func noteFailedSignIn(of request: Request) {
    _ = limiters?.signIns.take(request.clientAddress, at: now)
  }

  private var now: UInt64 { clock.uptime().nanoseconds }

  /// Warns once that all clients behind an unknown proxy share one bucket.
  private func warn(of request: Request) {
    guard request.clientAddress == IPAddress(request.remoteAddress),
      request.headers.contains(where: \.isForwarded),
      hasWarned.compareExchange(expected: false, desired: true, ordering: .relaxed).exchanged
    else { return }
    logger.warning(
      "requests through what seems to be a proxy share one rate limit; if the proxy is yours, add it to TRUSTED_PROXIES",
      metadata: ["setting": "TRUSTED_PROXIES", "address": "\(request.clientAddress)"])
  }
}
