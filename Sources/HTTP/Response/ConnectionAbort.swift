/// An error with which a handler closes the connection without a response, as status 444 does in nginx.
///
/// The simulated App Store uses it for faults.
public struct ConnectionAbort: Error, Sendable {
  /// The bytes that are sent first: none, or the beginning of a response.
  public let sending: [UInt8]

  /// Closes after sending these bytes, as far as the socket accepts them at once.
  public init(sending: [UInt8] = []) {
    self.sending = sending
  }
}
