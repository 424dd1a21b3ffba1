/// What a handler throws to close the connection without an answer, as nginx does for its status 444.
///
/// For callers that deserve none, and for servers that stand in for one that fails.
public struct HangUp: Error, Sendable {
  /// What is sent before, as it stands: nothing, or the beginning of an answer that will never be whole.
  public let sending: [UInt8]

  /// Closes after sending these bytes, as far as the socket takes them at once.
  public init(sending: [UInt8] = []) {
    self.sending = sending
  }
}
