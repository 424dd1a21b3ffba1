import Synchronization

/// Who is connected, counted against the limits.
final class ConnectionCensus: Sendable {
  private let maximum: Int
  private let maximumPerAddress: Int?
  private let speaksForMany: @Sendable (SocketAddress) -> Bool
  private let counts = Mutex(Counts())

  private struct Counts {
    var all = 0
    var byAddress: [String: Int] = [:]
    var waiting: [@Sendable () -> Void] = []
  }

  /// - Parameter speaksForMany: whether the limit for one address does not apply to this one.
  init(
    maximum: Int, maximumPerAddress: Int?,
    speaksForMany: @escaping @Sendable (SocketAddress) -> Bool = { _ in false }
  ) {
    self.speaksForMany = speaksForMany
    self.maximum = maximum
    self.maximumPerAddress = maximumPerAddress
  }

  var count: Int { counts.withLock { $0.all } }

  /// Counts the address in, unless that would exceed a limit.
  func admit(_ address: SocketAddress) -> Bool {
    let key = key(ofCounted: address)
    return counts.withLock { counts in
      guard counts.all < maximum else { return false }
      if let key, let maximumPerAddress {
        let present = counts.byAddress[key, default: 0]
        guard present < maximumPerAddress else { return false }
        counts.byAddress[key] = present + 1
      }
      counts.all += 1
      return true
    }
  }

  /// Counts out an address that was admitted.
  func release(_ address: SocketAddress) {
    let key = key(ofCounted: address)
    let waiting = counts.withLock { counts -> [@Sendable () -> Void] in
      counts.all -= 1
      if let key, let present = counts.byAddress[key] {
        counts.byAddress[key] = present == 1 ? nil : present - 1
      }
      guard counts.all == 0 else { return [] }
      defer { counts.waiting = [] }
      return counts.waiting
    }
    for action in waiting { action() }
  }

  /// Runs `action` once nobody is counted: now, or when the last one is released.
  func whenEmpty(_ action: @escaping @Sendable () -> Void) {
    let isEmpty = counts.withLock { counts in
      if counts.all > 0 { counts.waiting.append(action) }
      return counts.all == 0
    }
    if isEmpty { action() }
  }

  /// Under what the address is counted; nil where it is not.
  private func key(ofCounted address: SocketAddress) -> String? {
    maximumPerAddress == nil || speaksForMany(address) ? nil : Self.key(of: address)
  }

  /// The IPv4 address, or the first 64 bits of the IPv6 address: whoever has one of those has all.
  static func key(of address: SocketAddress) -> String {
    guard let groups = address.ipv6Groups else { return address.host }
    return groups[..<4].map { String($0, radix: 16) }.joined(separator: ":")
  }
}
