/// What becomes of a connection's events. All calls come on the connection's loop, one at a time.
public protocol ConnectionHandler: AnyObject {
  /// Bytes have arrived. They are gone when the call returns.
  func connection(_ connection: Connection, received bytes: UnsafeRawBufferPointer)

  /// The other end will send no more. It may still be reading: answers can be sent.
  func connectionReachedEnd(_ connection: Connection)

  /// All that was sent has been taken by the system, after a send that had to wait.
  func connectionDrained(_ connection: Connection)

  /// The connection's ``Connection/deadline`` has passed; it is nil now.
  func connection(_ connection: Connection, deadlinePassedAt now: MonotonicInstant)

  /// The connection is no more. This is the last call, and always comes, after the call that closed it has
  /// returned.
  func connection(_ connection: Connection, closedBecause reason: CloseReason)
}
