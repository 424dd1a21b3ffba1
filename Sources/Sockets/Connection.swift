import Dispatch
import Foundation
public import Platform

/// One TCP connection (or socket pair), bound to its event loop.
///
/// Received bytes go to the handler at once. Bytes to send go to the socket, and those that it does not accept wait in
/// a queue. While the queue has more than ``highWaterMark`` bytes, the connection reads nothing (back-pressure): a
/// client that does not read its responses cannot make the server keep more of them.
///
/// After ``close(because:)`` every call does nothing.
public final class Connection {
  /// Reading pauses while more bytes than this wait to be sent.
  public static let highWaterMark = 262_144
  /// Reading resumes when no more bytes than this wait to be sent.
  public static let lowWaterMark = 65_536

  /// The loop that runs all code of the connection.
  public let loop: EventLoop
  /// The address of the other end.
  public let remoteAddress: SocketAddress

  let descriptor: Int32
  private var handler: (any ConnectionHandler)?
  private let onRelease: (@Sendable () -> Void)?
  private var outbound = OutboundQueue()
  /// The watch of the descriptor, from start to close.
  private var watch: SocketQueue.Watch?
  private var interest: Readiness = []
  private var isPausedByHandler = false
  private var isPausedByQueue = false
  private var hasReachedEnd = false
  private var isFinishing = false
  private var closeReason: CloseReason?
  private var deadlineSlot: Int?
  private var scheduledFor = MonotonicInstant.distantFuture

  /// A connection that owns a connected socket, which becomes non-blocking. The caller must start or close it.
  ///
  /// - Parameter onRelease: runs after the descriptor was closed.
  public init(
    adopting descriptor: Int32, remoteAddress: SocketAddress, loop: EventLoop,
    onRelease: (@Sendable () -> Void)? = nil
  ) {
    self.descriptor = descriptor
    self.remoteAddress = remoteAddress
    self.loop = loop
    self.onRelease = onRelease
    Platform.prepare(descriptor)
  }

  /// Starts to read. The loop retains the connection until it is closed.
  ///
  /// - Precondition: called once, on the loop.
  public func start(handler: any ConnectionHandler) {
    self.handler = handler
    deadlineSlot = loop.resources.deadlines.add(self)
    scheduleDeadline()
    let bound = LoopBound(self, to: loop)
    watch = loop.queue.add(descriptor) { bound.value.ready(for: $0) }
    updateInterest()
  }

  private func ready(for readiness: Readiness) {
    // Reading may close the connection or change what it waits for.
    if readiness.contains(.reading) { readable() }
    if readiness.contains(.writing), interest.contains(.writing) { writable() }
  }

  /// Whether the connection has not been closed.
  public var isOpen: Bool { closeReason == nil }

  /// The number of bytes that wait to be sent.
  public var queuedByteCount: Int { outbound.count }

  /// When the handler's `connection(_:deadlinePassedAt:)` is called; the call comes up to 80 ms later.
  ///
  /// To move the deadline to a later instant costs no system call.
  public var deadline: MonotonicInstant? {
    didSet { scheduleDeadline() }
  }

  // MARK: Sending

  /// Sends bytes, and queues those that the socket does not accept.
  ///
  /// - Returns: whether the queue is empty. Otherwise `connectionFlushed(_:)` is called when all bytes are sent.
  @discardableResult
  public func send(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard isOpen, !isFinishing else { return true }
    guard outbound.isEmpty else {
      outbound.append(bytes)
      updateBackPressure()
      return false
    }
    let (sent, failure) = write(bytes)
    if let failure { close(because: .failed(failure)) }
    guard isOpen, sent < bytes.count else { return true }
    outbound.append(UnsafeRawBufferPointer(rebasing: bytes[sent...]))
    updateBackPressure()
    return false
  }

  /// Closes the sending half after the last waiting byte. The other end reads an end of file, and can still send.
  public func finishSending() {
    guard isOpen, !isFinishing else { return }
    isFinishing = true
    if outbound.isEmpty { Platform.shutdownSending(descriptor) }
  }

  /// Writes to the socket and changes no property, because the bytes may be those of the queue, which is in use.
  ///
  /// - Returns: how many bytes the socket accepted, and its error unless it can accept more later.
  private func write(_ bytes: UnsafeRawBufferPointer) -> (sent: Int, failure: Int32?) {
    var sent = 0
    while sent < bytes.count {
      let count = Platform.send(descriptor, bytes.baseAddress?.advanced(by: sent), bytes.count - sent)
      if count >= 0 {
        sent += count
      } else if errno == EAGAIN {
        break
      } else if errno != EINTR {
        return (sent, errno)
      }
    }
    return (sent, nil)
  }

  private func writable() {
    guard isOpen else { return }
    var failure: Int32?
    outbound.consume { bytes in
      let (sent, code) = write(bytes)
      failure = code
      return sent
    }
    if let failure { return close(because: .failed(failure)) }
    updateBackPressure()
    guard outbound.isEmpty else { return }
    if isFinishing { Platform.shutdownSending(descriptor) }
    handler?.connectionFlushed(self)
  }

  // MARK: Reading

  /// Stops reading until ``resumeReading()``. While reading is paused, only a failed send shows that the other end is
  /// gone.
  public func pauseReading() {
    isPausedByHandler = true
    updateInterest()
  }

  /// Resumes reading.
  public func resumeReading() {
    isPausedByHandler = false
    updateInterest()
  }

  /// Whether the connection reads the bytes that arrive.
  var isReading: Bool { interest.contains(.reading) }

  private func readable() {
    guard isOpen else { return }
    let buffer = loop.resources.readBuffer
    let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
    if count > 0 {
      handler?.connection(self, received: UnsafeRawBufferPointer(rebasing: buffer[..<count]))
    } else if count == 0 {
      // Otherwise the loop would report the end of file again and again.
      hasReachedEnd = true
      updateInterest()
      handler?.connectionReachedEnd(self)
    } else if errno != EAGAIN, errno != EINTR {
      close(because: .failed(errno))
    }
  }

  private func updateBackPressure() {
    if outbound.count > Self.highWaterMark {
      isPausedByQueue = true
    } else if outbound.count <= Self.lowWaterMark {
      isPausedByQueue = false
    }
    updateInterest()
  }

  private func updateInterest() {
    guard isOpen, let watch else { return }
    var wanted: Readiness = outbound.isEmpty ? [] : .writing
    if !isPausedByHandler, !isPausedByQueue, !hasReachedEnd { wanted.insert(.reading) }
    guard wanted != interest else { return }
    interest = wanted
    let code = loop.queue.wait(for: wanted, watch)
    if code != 0 { close(because: .failed(code)) }
  }

  // MARK: Ending

  /// Closes the connection and drops the bytes that wait to be sent. Later calls do nothing.
  public func close(because reason: CloseReason) {
    guard isOpen else { return }
    closeReason = reason
    if !outbound.isEmpty { resetWhenClosed() }
    outbound.removeAll()
    if let deadlineSlot { loop.resources.deadlines.remove(deadlineSlot) }
    deadlineSlot = nil
    interest = []
    guard let watch else { return release() }
    self.watch = nil
    let bound = LoopBound(self, to: loop)
    loop.queue.remove(watch) { bound.value.release() }
  }

  /// Makes close(2) send a reset: part of a response must not look complete, and the system need not keep the rest.
  private func resetWhenClosed() {
    var setting = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &setting, socklen_t(MemoryLayout<linger>.size))
  }

  private func release() {
    Platform.close(descriptor)
    onRelease?()
    guard let handler, let closeReason else { return }
    self.handler = nil
    handler.connection(self, closedBecause: closeReason)
  }

  // MARK: Deadline

  private func scheduleDeadline() {
    guard let deadline, deadline < scheduledFor, let deadlineSlot else { return }
    scheduledFor = deadline
    loop.resources.deadlines.schedule(deadlineSlot, at: deadline)
  }

  /// Called when the instant has passed for which the deadline was scheduled.
  func checkDeadline(now: MonotonicInstant) {
    scheduledFor = .distantFuture
    guard let deadline else { return }
    guard deadline <= now else { return scheduleDeadline() }
    self.deadline = nil
    handler?.connection(self, deadlinePassedAt: now)
  }
}

/// Handles a connection's events. All calls come on the connection's loop, one at a time.
public protocol ConnectionHandler: AnyObject {
  /// Called when bytes arrive. They are valid during the call.
  func connection(_ connection: Connection, received bytes: UnsafeRawBufferPointer)

  /// Called when the other end has closed its sending half. It may still read responses.
  func connectionReachedEnd(_ connection: Connection)

  /// Called when the socket has accepted all queued bytes.
  func connectionFlushed(_ connection: Connection)

  /// Called when the connection's ``Connection/deadline`` has passed; it is nil now.
  func connection(_ connection: Connection, deadlinePassedAt now: MonotonicInstant)

  /// Called after the connection was closed. This is the last call; it comes after ``Connection/close(because:)`` has
  /// returned.
  func connection(_ connection: Connection, closedBecause reason: CloseReason)
}

/// Why a connection was closed.
public enum CloseReason: Sendable, Hashable {
  /// The handler had no more work for it.
  case finished
  /// A deadline of the handler passed.
  case deadline
  /// A system call failed with this `errno`: the other end reset the connection, or the network failed.
  case failed(Int32)
  /// The server reached its memory limit, and the other end does not read its bytes.
  case overloaded
  /// The server is stopping.
  case shutdown
}

/// The bytes that wait to be sent, in one buffer.
struct OutboundQueue {
  private var bytes: [UInt8] = []
  private var start = 0

  var count: Int { bytes.count - start }
  var isEmpty: Bool { count == 0 }

  mutating func append(_ more: UnsafeRawBufferPointer) {
    // Sent bytes are removed when they fill half of the buffer, so no more bytes are moved than were sent.
    if start > bytes.count / 2 {
      bytes.removeSubrange(..<start)
      start = 0
    }
    bytes.append(contentsOf: more)
  }

  /// Removes as many bytes from the front as `body` returns.
  mutating func consume(_ body: (UnsafeRawBufferPointer) -> Int) {
    start += bytes.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[start...])) }
    // An idle connection keeps no memory for sending.
    if start == bytes.count { removeAll() }
  }

  mutating func removeAll() {
    bytes = []
    start = 0
  }
}
