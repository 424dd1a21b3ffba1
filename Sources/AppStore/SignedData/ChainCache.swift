import Foundation
import Synchronization

/// A bounded cache of verified chains, so that the next payload under the same header skips chain validation.
///
/// The key is the whole header segment, compared byte by byte. A chain enters only after a signature under it verified,
/// and the signature covers the header, so only the signer can fill the cache. Comparing its few entries is faster than
/// hashing the key.
final class ChainCache: Sendable {
  private struct Entry {
    let chain: VerifiedChain
    let expiresAt: ContinuousClock.Instant
  }

  private let entries = Mutex<[Entry]>([])
  private let capacity: Int
  private let lifetime: Duration

  init(capacity: Int, lifetime: Duration) {
    self.capacity = capacity
    self.lifetime = lifetime
  }

  func chain(under header: ArraySlice<UInt8>, at now: ContinuousClock.Instant) -> VerifiedChain? {
    entries.withLock { entries in
      entries.first { $0.expiresAt > now && $0.chain.signs(under: header) }?.chain
    }
  }

  func insert(_ chain: VerifiedChain, at now: ContinuousClock.Instant) {
    entries.withLock { entries in
      // Concurrent threads may have verified the first payloads of one signer.
      entries.removeAll { $0.expiresAt <= now || $0.chain.fingerprint == chain.fingerprint }
      // Newest first: most payloads are signed with the newest certificate.
      entries.insert(Entry(chain: chain, expiresAt: now + lifetime), at: 0)
      if entries.count > capacity { entries.removeLast() }
    }
  }

  var count: Int { entries.withLock { $0.count } }
}
