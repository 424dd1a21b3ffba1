import CLibcurl
import DequeModule

/// The running and the queued transfers of a loop.
struct RunningTransfers {
  private let multi: UnsafeMutableRawPointer
  private let configuration: CurlConfiguration
  private var running: [UInt64: (transfer: Transfer, handle: UnsafeMutableRawPointer)] = [:]
  private var waiting: Deque<Transfer> = []

  init(multi: UnsafeMutableRawPointer, configuration: CurlConfiguration) {
    self.multi = multi
    self.configuration = configuration
  }

  mutating func add(_ transfer: Transfer) {
    if transfer.isCancelled.isRaised {
      transfer.end(.failure(.cancelled))
    } else if running.count < configuration.maximumInFlight {
      start(transfer)
    } else if waiting.count < configuration.maximumQueued {
      waiting.append(transfer)
    } else {
      transfer.end(.failure(.busy))
    }
  }

  mutating func cancel(_ id: UInt64) {
    if let found = running.removeValue(forKey: id) {
      remove(found.handle)
      found.transfer.end(.failure(.cancelled))
    } else if let index = waiting.firstIndex(where: { $0.id == id }) {
      waiting.remove(at: index).end(.failure(.cancelled))
    }
    startWaiting()
  }

  /// Runs libcurl without waiting, and ends the completed transfers.
  mutating func perform() {
    var stillRunning: Int32 = 0
    _ = curl_multi_perform(multi, &stillRunning)
    var left: Int32 = 0
    while let message = curl_multi_info_read(multi, &left) {
      guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle else { continue }
      // Read before the handle is removed, which frees the message.
      let result = receiptd_curl_message_result(message)
      end(handle, result)
    }
    endOverdue()
    startWaiting()
  }

  /// The longest sleep of the loop in milliseconds: libcurl wakes it for the timeouts of running transfers, not for those of
  /// queued ones.
  var pollTimeout: Int32 { waiting.isEmpty ? 1_000 : 20 }

  mutating func endAll(_ error: CurlError) {
    for (transfer, handle) in running.values {
      remove(handle)
      transfer.end(.failure(error))
    }
    for transfer in waiting { transfer.end(.failure(error)) }
    running = [:]
    waiting = []
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
  }

  private mutating func startWaiting() {
    while running.count < configuration.maximumInFlight, let transfer = waiting.popFirst() {
      start(transfer)
    }
  }

  private mutating func end(_ handle: UnsafeMutableRawPointer, _ result: CURLcode) {
    var context: UnsafeMutableRawPointer?
    _ = receiptd_curl_get_pointer(handle, CURLINFO_PRIVATE, &context)
    guard let context else { return }
    let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
    transfer.end(handle, result)
    remove(handle)
    running[transfer.id] = nil
  }

  /// Ends queued transfers whose deadline has passed.
  private mutating func endOverdue() {
    guard !waiting.isEmpty else { return }
    let now = ContinuousClock.now
    for transfer in waiting where transfer.deadline <= now { transfer.end(.failure(.timedOut)) }
    waiting.removeAll { $0.deadline <= now }
  }

  private func remove(_ handle: UnsafeMutableRawPointer) {
    curl_multi_remove_handle(multi, handle)
    curl_easy_cleanup(handle)
  }
}
