import Foundation

/// A system call on a socket that failed.
public struct SocketError: Error, Sendable, Hashable {
  /// The operation that failed, such as `bind 127.0.0.1:80`.
  public let operation: String
  /// The value of `errno`, or the negative value of `getaddrinfo`.
  public let code: Int32

  /// An error of an operation with its code.
  public init(operation: String, code: Int32) {
    self.operation = operation
    self.code = code
  }

  /// The last error of this thread. Call it before any other call can change `errno`.
  static func last(_ operation: @autoclosure () -> String) -> SocketError {
    let code = errno
    return SocketError(operation: operation(), code: code)
  }
}

extension SocketError: CustomStringConvertible {
  /// `bind 127.0.0.1:80: Permission denied`.
  public var description: String {
    let text = code < 0 ? gai_strerror(code) : UnsafePointer(strerror(code))
    return "\(operation): \(text.map { String(cString: $0) } ?? "error \(code)")"
  }
}
