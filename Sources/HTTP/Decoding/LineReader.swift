import Glibc

/// Finds the ends of lines in bytes that arrive in pieces, and counts them against limits.
///
/// A line ends with CR LF and with nothing else: whoever takes a bare LF for an end, while a proxy in front
/// does not, sees two requests where the proxy saw one.
struct LineReader {
  /// How much of the unfinished line has been searched: a slow drip must not cost a search of it all for
  /// each byte.
  private var searched = 0

  /// The length of the line at `position`, without its end, or nil if its end has not arrived.
  ///
  /// - Throws: 400 if it ends with a bare LF. A CR elsewhere is for the grammar of the line to refuse.
  mutating func lengthOfLine(in input: Span<UInt8>, at position: Int) throws(Problem) -> Int? {
    guard
      let end = input.firstIndex(of: ASCII.lineFeed, from: position + searched)
    else {
      searched = input.count - position
      return nil
    }
    searched = 0
    guard end > position, input[end - 1] == ASCII.carriageReturn else {
      throw .invalidRequest("A line must end with CR LF.")
    }
    return end - 1 - position
  }
}

extension Span<UInt8> {
  /// The index of the first such byte at or after `start`.
  func firstIndex(of byte: UInt8, from start: Int) -> Int? {
    withUnsafeBufferPointer { bytes in
      guard let base = bytes.baseAddress, start < bytes.count,
        let found = memchr(base + start, Int32(byte), bytes.count - start)
      else { return nil }
      return UnsafeRawPointer(found) - UnsafeRawPointer(base)
    }
  }
}
