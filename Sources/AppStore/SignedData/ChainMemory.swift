import Glibc
import Synchronization

/// The chains that verified lately, so that the next payload under the same header need not validate them.
///
/// The key is the whole header segment, compared byte by byte: a header that differs anywhere is validated
/// anew. Only a chain with which a signature has verified is taken in, and the signature covers the header,
/// so nobody but the signer can fill the memory. It stays a handful of entries, which are compared faster
/// than a hash of the key could be computed.
final class ChainMemory: Sendable {
  private struct Entry {
    let chain: VerifiedChain
    let forgottenAt: ContinuousClock.Instant
  }

  private let entries = Mutex<[Entry]>([])
  private let capacity: Int
  private let lifetime: Duration

  init(capacity: Int, lifetime: Duration) {
    self.capacity = capacity
    self.lifetime = lifetime
  }

  func chain(under header: ArraySlice<UInt8>, at now: ContinuousClock.Instant) -> VerifiedChain? {
    header.withUnsafeBytes { header in
      entries.withLock { entries in
        entries.first { $0.forgottenAt > now && $0.chain.headerSegment.isEqual(to: header) }?.chain
      }
    }
  }

  func remember(_ chain: VerifiedChain, at now: ContinuousClock.Instant) {
    entries.withLock { entries in
      // Several first payloads of one signer may have been verified at once.
      entries.removeAll { $0.forgottenAt <= now || $0.chain.fingerprint == chain.fingerprint }
      // Newest first: a signer's newest certificate is asked for most.
      entries.insert(Entry(chain: chain, forgottenAt: now + lifetime), at: 0)
      if entries.count > capacity { entries.removeLast() }
    }
  }

  var count: Int { entries.withLock { $0.count } }
}

extension [UInt8] {
  fileprivate func isEqual(to other: UnsafeRawBufferPointer) -> Bool {
    guard count == other.count, let theirs = other.baseAddress else { return count == other.count }
    return withUnsafeBytes { ours in ours.baseAddress.map { memcmp($0, theirs, other.count) == 0 } ?? true }
  }
}
