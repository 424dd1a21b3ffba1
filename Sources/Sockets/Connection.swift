import Glibc

/// One TCP connection (or socket pair), bound to its event loop.
///
/// Bytes that arrive go to the handler at once. Bytes that are sent are written at once as far as the
/// socket takes them; the rest waits here, and as long as more than ``highWaterMark`` waits, nothing more is
/// read: a client that does not read its answers cannot make the server keep them.
///
/// After ``close(because:)`` every call does nothing.
public final class Connection {
  /// While more than this waits to be sent, reading rests.
  public static let highWaterMark = 262_144
  /// Reading goes on once no more than this waits.
  public static let lowWaterMark = 65_536

  /// The loop on which everything here happens.
  public let loop: EventLoop
  /// The other end.
  public let remoteAddress: SocketAddress

  let descriptor: Int32
  private var handler: (any ConnectionHandler)?
  private let onRelease: (@Sendable () -> Void)?
  private var outbound = OutboundQueue()
  /// Under what the loop knows the descriptor, from start to close.
  private var slot: Int?
  /// What the loop watches the descriptor for.
  private var interest: Readiness = []
  private var isPausedByHandler = false
  private var isPausedByQueue = false
  private var hasReachedEnd = false
  private var isFinishing = false
  private var closeReason: CloseReason?
  private var deadlineSlot: Int?
  private var scheduledFor = MonotonicInstant.distantFuture

  /// Takes over a connected socket and makes it non-blocking. It has to be started, or closed.
  ///
  /// - Parameter onRelease: is called once the descriptor is closed.
  public init(
    adopting descriptor: Int32, remoteAddress: SocketAddress, loop: EventLoop,
    onRelease: (@Sendable () -> Void)? = nil
  ) {
    self.descriptor = descriptor
    self.remoteAddress = remoteAddress
    self.loop = loop
    self.onRelease = onRelease
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
  }

  /// Begins to read. From here on the loop keeps the connection until it is closed.
  ///
  /// - Precondition: called on the loop, once.
  public func start(handler: any ConnectionHandler) {
    self.handler = handler
    slot = loop.resources.descriptors.add(self, descriptor)
    deadlineSlot = loop.resources.deadlines.add(self)
    scheduleDeadline()
    updateInterest()
  }

  /// Whether it has not been closed.
  public var isOpen: Bool { closeReason == nil }

  /// How many bytes wait for the other end to read.
  public var queuedByteCount: Int { outbound.count }

  /// When the handler wants to be told that it is too late; noticed a fraction of a second after it.
  ///
  /// Putting it off costs nothing.
  public var deadline: MonotonicInstant? {
    didSet { scheduleDeadline() }
  }

  // MARK: Sending

  /// Sends bytes, or queues what the socket does not take.
  ///
  /// - Returns: whether nothing is left waiting; if something is, the handler hears when it is gone.
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

  /// Ends this side's half once all that was sent is written. The other end reads an end of file and may
  /// go on sending.
  public func finishSending() {
    guard isOpen, !isFinishing else { return }
    isFinishing = true
    if outbound.isEmpty { _ = Glibc.shutdown(descriptor, Int32(SHUT_WR)) }
  }

  /// Touches nothing but the socket, since the bytes may be the queue's, which is being changed meanwhile.
  ///
  /// - Returns: how many bytes the socket took, and what it says if it will never take more.
  private func write(_ bytes: UnsafeRawBufferPointer) -> (sent: Int, failure: Int32?) {
    var sent = 0
    while sent < bytes.count {
      // Without the flag a write to a connection that is gone would be a signal that ends the process.
      let count = Glibc.send(
        descriptor, bytes.baseAddress?.advanced(by: sent), bytes.count - sent, Int32(MSG_NOSIGNAL))
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
    if isFinishing { _ = Glibc.shutdown(descriptor, Int32(SHUT_WR)) }
    handler?.connectionDrained(self)
  }

  // MARK: Reading

  /// Stops reading until ``resumeReading()``. The end of a connection is not noticed meanwhile, except by
  /// sending.
  public func pauseReading() {
    isPausedByHandler = true
    updateInterest()
  }

  /// Goes on reading.
  public func resumeReading() {
    isPausedByHandler = false
    updateInterest()
  }

  /// Whether bytes that arrive are read.
  var isReading: Bool { interest.contains(.reading) }

  private func readable() {
    guard isOpen else { return }
    let buffer = loop.resources.readBuffer
    let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
    if count > 0 {
      handler?.connection(self, received: UnsafeRawBufferPointer(rebasing: buffer[..<count]))
    } else if count == 0 {
      // The loop would report the end over and over.
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
    guard isOpen, let slot else { return }
    var wanted: Readiness = outbound.isEmpty ? [] : .writing
    if !isPausedByHandler, !isPausedByQueue, !hasReachedEnd { wanted.insert(.reading) }
    guard wanted != interest else { return }
    interest = wanted
    do throws(SocketError) {
      try loop.resources.descriptors.wait(for: wanted, at: slot)
    } catch {
      close(because: .failed(error.code))
    }
  }

  // MARK: Ending

  /// Closes the connection; what waits to be sent is lost. Only the first reason counts.
  public func close(because reason: CloseReason) {
    guard isOpen else { return }
    closeReason = reason
    if !outbound.isEmpty { resetWhenClosed() }
    outbound.removeAll()
    if let deadlineSlot { loop.resources.deadlines.remove(deadlineSlot) }
    deadlineSlot = nil
    interest = []
    guard let slot else { return release() }
    loop.resources.descriptors.remove(slot)
    self.slot = nil
    // Later, since the handler may be in the middle of something.
    let bound = LoopBound(self, to: loop)
    loop.execute { bound.value.release() }
  }

  /// Half an answer must not look like a whole one, and the system should not go on holding what the other
  /// end does not read.
  private func resetWhenClosed() {
    var setting = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &setting, socklen_t(MemoryLayout<linger>.size))
  }

  private func release() {
    Glibc.close(descriptor)
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

  /// The wheel has come to where the deadline was when it was told of it.
  func checkDeadline(now: MonotonicInstant) {
    scheduledFor = .distantFuture
    guard let deadline else { return }
    guard deadline <= now else { return scheduleDeadline() }
    self.deadline = nil
    handler?.connection(self, deadlinePassedAt: now)
  }
}

extension Connection: ReadinessWatcher {
  func ready(for readiness: Readiness) {
    // What it does first may end the other.
    if readiness.contains(.reading) { readable() }
    if readiness.contains(.writing), interest.contains(.writing) { writable() }
  }
}
