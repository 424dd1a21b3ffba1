import CLibcurl
import Synchronization
import Threads

/// The thread that drives all transfers of one client.
///
/// Other threads leave commands in the inbox and wake it; everything else belongs to the thread.
final class TransferLoop: Sendable {
  private let inbox = Mutex(Inbox())
  private let multi: MultiHandle

  /// @unchecked, because `curl_multi_wakeup` is the one function that libcurl allows from another thread while
  /// the handle is in use (curl_multi_wakeup(3)); all others are called on the loop's thread alone.
  private struct MultiHandle: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer?
  }

  /// @unchecked, because a transfer is made by its caller, which lets go of it when it hands it over: no two threads
  /// have it at once.
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
    var isOver = false
    var whenOver: [@Sendable () -> Void] = []
  }

  /// libcurl wants this once, before anything else (curl_global_init(3)).
  private static let isInitialized = receiptd_curl_global_init() == CURLE_OK

  init(configuration: CurlConfiguration) {
    multi = MultiHandle(pointer: Self.isInitialized ? curl_multi_init() : nil)
    guard let pointer = multi.pointer else {
      inbox.withLock { $0.isOver = true }
      return
    }
    _ = receiptd_curl_multi_set_long(
      pointer, CURLMOPT_MAX_HOST_CONNECTIONS, configuration.maximumConnectionsPerHost)
    if !Thread.start(named: "transfers", { self.run(configuration) }) {
      inbox.withLock { $0.isOver = true }
      curl_multi_cleanup(pointer)
    }
  }

  func submit(_ transfer: Transfer) {
    let handover = Handover(transfer: transfer)
    let isTaken = inbox.withLock { inbox in
      guard !inbox.isShutDown, !inbox.isOver else { return false }
      inbox.commands.append(.start(handover))
      return true
    }
    if isTaken { wake() } else { handover.transfer.end(.failure(.shutDown)) }
  }

  func cancel(_ id: UInt64) {
    inbox.withLock { $0.commands.append(.cancel(id)) }
    wake()
  }

  /// - Parameter done: is called when the thread has ended.
  func shutDown(_ done: @escaping @Sendable () -> Void = {}) {
    let isOver = inbox.withLock { inbox in
      inbox.isShutDown = true
      if !inbox.isOver { inbox.whenOver.append(done) }
      return inbox.isOver
    }
    if isOver { done() } else { wake() }
  }

  private func wake() {
    // Under the lock, because the thread frees the handle when it is over.
    inbox.withLock { inbox in
      guard !inbox.isOver, let pointer = multi.pointer else { return }
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
    let whenOver = inbox.withLock { inbox in
      inbox.isOver = true
      curl_multi_cleanup(multi)
      defer { inbox.whenOver.removeAll() }
      return inbox.whenOver
    }
    for done in whenOver { done() }
  }
}
