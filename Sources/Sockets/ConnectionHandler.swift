public import Platform

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
