import Platform
import Synchronization

/// Counts open connections, in total and per address, and enforces their limits.
final class ConnectionLimiter: Sendable {
  private let maximum: Int
  private let maximumPerAddress: Int?
  private let isExemptFromAddressLimit: @Sendable (SocketAddress) -> Bool
  private let counts = Mutex(Counts())

  private struct Counts {
    var all = 0
    var byAddress: [UInt128: Int] = [:]
    var emptyActions: [@Sendable () -> Void] = []
  }

  /// - Parameter isExemptFromAddressLimit: whether the limit per address does not apply to an address.
  init(
    maximum: Int, maximumPerAddress: Int?,
    isExemptFromAddressLimit: @escaping @Sendable (SocketAddress) -> Bool = { _ in false }
  ) {
    self.isExemptFromAddressLimit = isExemptFromAddressLimit
    self.maximum = maximum
    self.maximumPerAddress = maximumPerAddress
  }

  var count: Int { counts.withLock { $0.all } }

  /// Counts a connection from the address, unless that would exceed a limit.
  ///
  /// - Returns: whether the connection was counted.
  func admit(_ address: SocketAddress) -> Bool {
    let key = countedKey(of: address)
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

  /// Uncounts a connection that was admitted.
  func release(_ address: SocketAddress) {
    let key = countedKey(of: address)
    let actions = counts.withLock { counts -> [@Sendable () -> Void] in
      counts.all -= 1
      if let key, let present = counts.byAddress[key] {
        counts.byAddress[key] = present == 1 ? nil : present - 1
      }
      guard counts.all == 0 else { return [] }
      defer { counts.emptyActions = [] }
      return counts.emptyActions
    }
    for action in actions { action() }
  }

  /// Runs `action` when no connection is counted: at once, or when the last one is released.
  func whenEmpty(_ action: @escaping @Sendable () -> Void) {
    let isEmpty = counts.withLock { counts in
      if counts.all > 0 { counts.emptyActions.append(action) }
      return counts.all == 0
    }
    if isEmpty { action() }
  }

  /// The key under which the address is counted; nil if it is not counted.
  private func countedKey(of address: SocketAddress) -> UInt128? {
    maximumPerAddress == nil || isExemptFromAddressLimit(address) ? nil : IPAddress(address).subscriberBits
  }
}
