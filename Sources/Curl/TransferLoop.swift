import CLibcurl
import Dispatch
import Synchronization

/// The event loop of one client, on a thread of its own.
///
/// Other threads add commands to the inbox and wake the loop. Only the loop's thread uses the other state.
final class TransferLoop: Sendable {
  private let inbox = Mutex(Inbox())
  private let multi: MultiHandle

  /// @unchecked, because other threads call only `curl_multi_wakeup`, which libcurl allows while the handle is in use
  /// (curl_multi_wakeup(3)).
  private struct MultiHandle: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer?
  }

  /// @unchecked, because the caller keeps no reference to the transfer that it submits: no two threads use it at the same
  /// time.
  private struct Handover: @unchecked Sendable {
    let transfer: Transfer
  }

  private enum Command: Sendable {
    case start(Handover)
    case cancel(UInt64)
  }

  private struct Inbox: Sendable {
    var commands: [Command] = []
    var isShutDown = false
    var hasEnded = false
    var endActions: [@Sendable () -> Void] = []
  }

  /// The global initialization, required before any other call (curl_global_init(3)).
  private static let isInitialized = receiptd_curl_global_init() == CURLE_OK

  init(configuration: CurlConfiguration) {
    multi = MultiHandle(pointer: Self.isInitialized ? curl_multi_init() : nil)
    guard let pointer = multi.pointer else {
      inbox.withLock { $0.hasEnded = true }
      return
    }
    _ = receiptd_curl_multi_set_long(
      pointer, CURLMOPT_MAX_HOST_CONNECTIONS, configuration.maximumConnectionsPerHost)
    // The queue has a thread of its own while it runs, so libcurl may block it.
    DispatchQueue(label: "transfers").async { self.run(configuration) }
  }

  func submit(_ transfer: Transfer) {
    let handover = Handover(transfer: transfer)
    let isTaken = inbox.withLock { inbox in
      guard !inbox.isShutDown, !inbox.hasEnded else { return false }
      inbox.commands.append(.start(handover))
      return true
    }
    if isTaken { wake() } else { handover.transfer.end(.failure(.shutDown)) }
  }

  func cancel(_ id: UInt64) {
    inbox.withLock { $0.commands.append(.cancel(id)) }
    wake()
  }

  /// - Parameter done: called when the loop has ended.
  func shutDown(_ done: @escaping @Sendable () -> Void = {}) {
    let hasEnded = inbox.withLock { inbox in
      inbox.isShutDown = true
      if !inbox.hasEnded { inbox.endActions.append(done) }
      return inbox.hasEnded
    }
    if hasEnded { done() } else { wake() }
  }

  private func wake() {
    // Under the lock, because the loop frees the handle when it ends.
    inbox.withLock { inbox in
      guard !inbox.hasEnded, let pointer = multi.pointer else { return }
      _ = curl_multi_wakeup(pointer)
    }
  }

  // MARK: On the thread

  private func run(_ configuration: CurlConfiguration) {
    guard let multi = multi.pointer else { return }
    var transfers = RunningTransfers(multi: multi, configuration: configuration)
    while true {
      let (commands, isShutDown) = inbox.withLock { inbox in
        defer { inbox.commands.removeAll() }
        return (inbox.commands, inbox.isShutDown)
      }
      for command in commands {
        switch command {
        case .start(let handover): transfers.add(handover.transfer)
        case .cancel(let id): transfers.cancel(id)
        }
      }
      if isShutDown { break }
      transfers.perform()
      var ready: Int32 = 0
      _ = curl_multi_poll(multi, nil, 0, transfers.pollTimeout, &ready)
    }
    transfers.endAll(.shutDown)
    let endActions = inbox.withLock { inbox in
      inbox.hasEnded = true
      curl_multi_cleanup(multi)
      defer { inbox.endActions.removeAll() }
      return inbox.endActions
    }
    for done in endActions { done() }
  }
}
