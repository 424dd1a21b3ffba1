import Glibc

/// Finds the ends of lines in bytes that arrive in pieces, and counts them against limits.
///
/// A line ends with CR LF and with nothing else: whoever takes a bare LF for an end, while a proxy in front
/// does not, sees two requests where the proxy saw one.
struct LineReader {
  /// How much of the unfinished line has been searched: a slow drip must not cost a search of it all for
  /// each byte.
  private var searched = 0

  /// A line, or as much of it as has arrived.
  struct Line {
    /// Its bytes, without the end. While the end has not arrived, a CR that may be the beginning of it is not
    /// counted: or else a line of just the allowed length would be refused if it arrived in two pieces.
    let length: Int
    fileprivate let end: End

    fileprivate enum End { case none, bareLineFeed, carriageReturnLineFeed }

    /// Whether its end has arrived; to be asked after the length has been looked at, since of a line that is too
    /// long the end may never come.
    ///
    /// - Throws: 400 if it ends with a bare LF. A CR elsewhere is for the grammar of the line to refuse.
    func isWhole() throws(Problem) -> Bool {
      guard end != .bareLineFeed else { throw .invalidRequest("A line must end with CR LF.") }
      return end != .none
    }
  }

  /// The line at `position`.
  mutating func line(in input: Span<UInt8>, at position: Int) -> Line {
    let lineFeed = input.firstIndex(of: ASCII.lineFeed, from: position + searched)
    let stop = lineFeed ?? input.count
    searched = lineFeed == nil ? input.count - position : 0
    let hasReturn = stop > position && input[stop - 1] == ASCII.carriageReturn
    return Line(
      length: stop - position - (hasReturn ? 1 : 0),
      end: lineFeed == nil ? .none : hasReturn ? .carriageReturnLineFeed : .bareLineFeed)
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
