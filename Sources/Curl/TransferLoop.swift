import CLibcurl
import DequeModule
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

  /// @unchecked, because the caller keeps no reference to the transfer that it submits: no two threads use it at the
  /// same time.
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
    guard multi.pointer != nil else {
      inbox.withLock { $0.hasEnded = true }
      return
    }
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

/// The running and the queued transfers of a loop.
///
/// The queue is ours. libcurl has one too (CURLMOPT_MAX_HOST_CONNECTIONS, CURLOPT_PIPEWAIT), and does not end its
/// transfers at their timeout (curl issue 13227).
struct RunningTransfers {
  private let multi: UnsafeMutableRawPointer
  private let configuration: CurlConfiguration
  private var running: [UInt64: (transfer: Transfer, handle: UnsafeMutableRawPointer)] = [:]
  private var hosts: HostLoads
  private var waiting: Deque<Transfer> = []

  init(multi: UnsafeMutableRawPointer, configuration: CurlConfiguration) {
    self.multi = multi
    self.configuration = configuration
    hosts = HostLoads(limit: configuration.maximumConnectionsPerHost)
  }

  mutating func add(_ transfer: Transfer) {
    if transfer.isCancelled.isRaised {
      transfer.end(.failure(.cancelled))
    } else if hasRoom(for: transfer) {
      start(transfer)
    } else if waiting.count < configuration.maximumQueued {
      waiting.append(transfer)
    } else {
      transfer.end(.failure(.busy))
    }
  }

  mutating func cancel(_ id: UInt64) {
    if let found = running[id] {
      remove(found.transfer, found.handle)
      found.transfer.end(.failure(.cancelled))
      startWaiting()
    } else if let index = waiting.firstIndex(where: { $0.id == id }) {
      waiting.remove(at: index).end(.failure(.cancelled))
    }
  }

  /// Runs libcurl without waiting, and ends the completed transfers.
  mutating func perform() {
    var stillRunning: Int32 = 0
    _ = curl_multi_perform(multi, &stillRunning)
    var left: Int32 = 0
    var hasEnded = false
    while let message = curl_multi_info_read(multi, &left) {
      guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle else { continue }
      // Read before the handle is removed, which frees the message.
      let result = receiptd_curl_message_result(message)
      end(handle, result)
      hasEnded = true
    }
    endOverdue()
    if hasEnded { startWaiting() }
  }

  /// The longest sleep of the loop in milliseconds: libcurl wakes it for the timeouts of running transfers, not for
  /// those of queued ones.
  var pollTimeout: Int32 { waiting.isEmpty ? 1_000 : 20 }

  mutating func endAll(_ error: CurlError) {
    for (transfer, handle) in running.values {
      remove(transfer, handle)
      transfer.end(.failure(error))
    }
    for transfer in waiting { transfer.end(.failure(error)) }
    waiting = []
  }

  private func hasRoom(for transfer: Transfer) -> Bool {
    running.count < configuration.maximumInFlight && hosts.haveRoom(for: transfer.host)
  }

  private mutating func start(_ transfer: Transfer) {
    guard let handle = transfer.makeHandle(configuration) else {
      transfer.end(.failure(.refused("the request cannot be sent as it is")))
      return
    }
    guard curl_multi_add_handle(multi, handle) == CURLM_OK else {
      curl_easy_cleanup(handle)
      transfer.end(.failure(.busy))
      return
    }
    running[transfer.id] = (transfer, handle)
    hosts.began(transfer.host)
  }

  private mutating func startWaiting() {
    var index = waiting.startIndex
    while index < waiting.endIndex, running.count < configuration.maximumInFlight {
      if hasRoom(for: waiting[index]) { start(waiting.remove(at: index)) } else { index += 1 }
    }
  }

  private mutating func end(_ handle: UnsafeMutableRawPointer, _ code: CURLcode) {
    var context: UnsafeMutableRawPointer?
    _ = receiptd_curl_get_pointer(handle, CURLINFO_PRIVATE, &context)
    guard let context else { return }
    let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
    let result = transfer.result(handle, code)
    remove(transfer, handle, by: try? result.get().httpVersion)
    transfer.end(result)
  }

  /// Ends queued transfers whose deadline has passed.
  private mutating func endOverdue() {
    guard !waiting.isEmpty else { return }
    let now = ContinuousClock.now
    for transfer in waiting where transfer.deadline <= now { transfer.end(.failure(.timedOut)) }
    waiting.removeAll { $0.deadline <= now }
  }

  /// Frees the handle of a running transfer.
  /// - Parameter version: that of its response; nil without one.
  private mutating func remove(
    _ transfer: Transfer, _ handle: UnsafeMutableRawPointer, by version: CurlResponse.Version? = nil
  ) {
    curl_multi_remove_handle(multi, handle)
    curl_easy_cleanup(handle)
    running[transfer.id] = nil
    hosts.ended(transfer.host, by: version)
  }
}

/// The numbers of requests that run to each host.
struct HostLoads {
  private struct Load {
    var running = 0
    /// Whether the last response came by HTTP/2, where many requests share a connection.
    var isMultiplexed = false
  }

  /// A host is forgotten when nothing runs to it: its connection may then be closed.
  private var loads: [String: Load] = [:]
  private let limit: Int

  /// - Parameter limit: the most requests to a host without HTTP/2.
  init(limit: Int) { self.limit = limit }

  /// Whether another request to this host may start.
  func haveRoom(for host: String) -> Bool {
    guard let load = loads[host] else { return true }
    return load.isMultiplexed || load.running < limit
  }

  /// Counts a request that starts.
  mutating func began(_ host: String) {
    loads[host, default: Load()].running += 1
  }

  /// Counts a request that ended.
  /// - Parameter version: that of its response; nil without one.
  mutating func ended(_ host: String, by version: CurlResponse.Version?) {
    guard var load = loads[host] else { return }
    load.running -= 1
    if let version { load.isMultiplexed = version == .http2 }
    loads[host] = load.running == 0 ? nil : load
  }
}
